//! INSERT of points: names, types, retention and limits are checked as for every writer. A point that is there already gets
//! the fields of the inserted one. Rows of literals are written as line protocol, others as columns if possible.

use super::columns::PointColumns;
use super::inserted_column::{InsertedColumn, declared_of, inserted_columns, without_field};
use super::value::FieldRules;
use super::{PointChange, Preparing};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::measurement::Source;
use crate::relation::columns::data_type;
use crate::relation::literal::{is_literal, parameter};
use crate::session::change::insert::check_clauses;
use crate::session::change::preparing::{Written, is_default};
use crate::session::change::returning::ReturnedRows;
use crate::session::change::selection::{Selection, unknown_columns};
use crate::session::change::sink::WAIT_MAX;
use crate::session::change::work::Chunks;
use crate::session::{Planning, Run, Session};
use crate::target::{Place, last_part};
use arrow_array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, SetExpr};
use nyala_core::Value;
use nyala_core::arrays::value_at;
use nyala_db::ingest::{
    LineLimits, LineValue, MAX_BODY_BYTES, ParseOptions, Precision, TAG_SPECIALS, push_checked_tag,
    push_measurement_name, push_name, push_value,
};
use std::fmt::Write;
use std::sync::Arc;

/// A prepared INSERT of points.
#[derive(Debug)]
pub(super) struct PointInsert {
    /// What the columns of its rows become.
    columns: Vec<InsertedColumn>,
    pub(super) rows: Rows,
}

/// Where rows come from.
#[derive(Debug)]
pub(super) enum Rows {
    /// From VALUES of literals and parameters, which are read when the statement is executed.
    Literals(Vec<Vec<ast::Expr>>),
    Query(Selection),
}

/// The most text of points that one statement writes: half of what one request of line protocol may have.
const TEXT_MAX_BYTES: usize = MAX_BODY_BYTES / 2;

/// The text of points, one line each.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) text: String,
    count: u64,
}

pub(super) async fn prepare(
    preparing: &mut Preparing<'_>,
    written: &Written<'_>,
    insert: &ast::Insert,
) -> SqlResult<PointInsert> {
    check_clauses(insert)?;
    if let Some(on) = &insert.on {
        return Err(SqlError::unsupported(format!("{} for points", on.to_string().trim()))
            .with_hint("A point that is there already gets the fields of the inserted one."));
    }
    let mut query = match &insert.source {
        Some(query) => (**query).clone(),
        None => return Err(SqlError::unsupported("INSERT of a point by DEFAULT VALUES")),
    };
    let is_explicit = !insert.columns.is_empty();
    let names = insert.columns.iter().map(last_part).collect::<SqlResult<Vec<_>>>()?;
    let columns = inserted_columns(preparing.table, preparing.place, &names)?;
    if let SetExpr::Values(values) = &mut *query.body {
        for row in &mut values.rows {
            for (cell, (_, source)) in row.iter_mut().zip(&columns) {
                if is_default(cell) {
                    *cell = ast::Expr::value(ast::Value::Null);
                }
                if let Some(number) = parameter(cell) {
                    preparing.types.note(number, data_type(declared_of(source)));
                }
            }
        }
    }
    if query.with.is_none() {
        query.with = written.with.cloned();
    }
    let rows = match literals_of(&query)? {
        Some(cells) => Rows::Literals(cells),
        None => Rows::Query(Selection::of_query(preparing.session, &mut preparing.types, query).await?),
    };
    let (given, unknown) = match &rows {
        Rows::Literals(cells) => (cells[0].len(), vec![true; cells[0].len()]),
        Rows::Query(selection) => (selection.columns(), unknown_columns(selection.plan())),
    };
    if given > columns.len() {
        let words = "INSERT has more expressions than target columns";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
    }
    if given < columns.len() && is_explicit {
        let words = "INSERT has more target columns than expressions";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
    }
    let columns = columns.into_iter().zip(unknown);
    let columns = columns.map(|((name, source), is_unknown)| InsertedColumn { name, source, is_unknown });
    Ok(PointInsert { columns: columns.collect(), rows })
}

/// The cells of a query that is nothing but VALUES of literals and parameters.
fn literals_of(query: &ast::Query) -> SqlResult<Option<Vec<Vec<ast::Expr>>>> {
    let SetExpr::Values(values) = &*query.body else { return Ok(None) };
    let width = values.rows.first().map_or(0, |row| row.len());
    if values.rows.iter().any(|row| row.len() != width) {
        let words = "VALUES lists must all be the same length";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
    }
    let is_simple = query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let mut cells = values.rows.iter().flat_map(|row| row.iter());
    let are_literals = width > 0 && is_simple && cells.all(is_literal);
    Ok(are_literals.then(|| values.rows.iter().map(|row| row.to_vec()).collect()))
}

impl Session {
    /// Inserts points, and says how many.
    pub(super) async fn insert_points(
        &mut self,
        change: &PointChange,
        insert: &PointInsert,
        run: &Run,
        rules: &FieldRules,
        values: Arc<[ScalarValue]>,
        returned: &mut Option<ReturnedRows>,
    ) -> SqlResult<u64> {
        let (place, policy, now_ns) = (&change.place, &change.policy, rules.around.now_ns);
        let mut held = run.memory().hold();
        // All of them are known to be right before the first is written.
        match &insert.rows {
            Rows::Literals(cells) => {
                let column =
                    |(number, own): (usize, &InsertedColumn)| own.literals(cells, number, &values, rules);
                let columns = insert.columns.iter().enumerate().map(column).collect::<SqlResult<Vec<_>>>()?;
                let mut lines = Collected::Lines(Lines::default());
                let columns: Vec<_> = insert.columns.iter().zip(columns).collect();
                if let Some(returned) = returned {
                    returned.add(&change.inserted(&columns, cells.len(), now_ns)?)?;
                }
                held.charge_within(WAIT_MAX, lines.add(&place.name, columns, cells.len())?).await?;
                lines.write(self, &place.database, policy, now_ns).await
            }
            Rows::Query(selection) => {
                let planning = Planning::Needed(selection.to_plan());
                let stream = self.stream(run, run.execution.clone(), planning, values).await?;
                let mut chunks = Chunks::of(stream, run, false);
                let mut collected = Collected::of(self, place, policy, rules);
                loop {
                    let batches = chunks.next().await?;
                    if batches.is_empty() {
                        break;
                    }
                    for batch in &batches {
                        let columns = insert.columns.iter().zip(batch.columns());
                        let stored = columns.map(|(own, values)| Ok((own, own.stored(values, rules)?)));
                        let stored = stored.collect::<SqlResult<Vec<_>>>()?;
                        if let Some(returned) = returned {
                            returned.add(&change.inserted(&stored, batch.num_rows(), now_ns)?)?;
                        }
                        let bytes = collected.add(&place.name, stored, batch.num_rows())?;
                        held.charge_within(WAIT_MAX, bytes).await?;
                    }
                }
                collected.write(self, &place.database, policy, now_ns).await
            }
        }
    }
}

/// Points that are collected until all of them are known to be right.
pub(super) enum Collected {
    Lines(Lines),
    Columns(PointColumns),
}

impl Collected {
    /// Nothing yet.
    pub(super) fn of(session: &Session, place: &Place, policy: &str, rules: &FieldRules) -> Self {
        // Metrics of Prometheus, which have any floats, share a table.
        let takes_columns = session.server.writer.takes_columns(&place.database, policy);
        match takes_columns && !rules.accepts_all_floats {
            true => Self::Columns(PointColumns::new(&place.name, rules.around.now_ns)),
            false => Self::Lines(Lines::default()),
        }
    }

    /// Whether tags may be dictionaries.
    pub(super) fn takes_dictionaries(&self) -> bool {
        matches!(self, Self::Columns(_))
    }

    /// Adds points, whose columns have the types of fields. Says what more memory they hold.
    pub(super) fn add(
        &mut self,
        measurement: &str,
        stored: Vec<(&InsertedColumn, ArrayRef)>,
        rows: usize,
    ) -> SqlResult<usize> {
        match self {
            Self::Columns(columns) => columns.add(stored, rows),
            Self::Lines(lines) => {
                let before = lines.text.capacity();
                lines.add(measurement, stored, rows)?;
                Ok(lines.text.capacity() - before)
            }
        }
    }

    /// Writes all of them, and says how many.
    pub(super) async fn write(
        &self,
        session: &Session,
        database: &str,
        policy: &str,
        now_ns: i64,
    ) -> SqlResult<u64> {
        let writer = &session.server.writer;
        let series_max = session.principal().series_max();
        let report = match self {
            Self::Lines(lines) if lines.count == 0 => return Ok(0),
            Self::Columns(columns) if columns.rows() == 0 => return Ok(0),
            Self::Lines(lines) => {
                let limits = LineLimits::default();
                let options = ParseOptions { precision: Precision::Nanosecond, now_ns, limits, series_max };
                writer.write_whole(database, policy, options, lines.text.as_bytes()).await?
            }
            Self::Columns(columns) => {
                let batches = || Box::new(columns.batches()) as Box<_>;
                writer.write_columns_whole(database, policy, now_ns, series_max, &batches).await?
            }
        };
        match report.complaint() {
            None => Ok(report.written),
            Some(complaint) => {
                let state = match report.is_over_quota {
                    true => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
                    false => SqlState::DATA_EXCEPTION,
                };
                Err(SqlError::new(state, complaint).with_detail("None of the points was written."))
            }
        }
    }
}

impl Lines {
    /// Adds points, whose columns have the types that line protocol needs.
    pub(super) fn add(
        &mut self,
        measurement: &str,
        mut stored: Vec<(&InsertedColumn, ArrayRef)>,
        rows: usize,
    ) -> SqlResult<()> {
        // In line protocol tags come first.
        stored.sort_by_key(|(own, _)| match own.source {
            Source::Tag(_) => 0,
            Source::Field(..) => 1,
            Source::Time | Source::TimeNs | Source::Series => 2,
        });
        let mut key = String::new();
        push_measurement_name(&mut key, measurement)?;
        for row in 0..rows {
            self.text.push_str(&key);
            let mut separator = ' ';
            for (own, values) in &stored {
                let value = value_at(values, row);
                match (&own.source, value) {
                    (Source::Tag(tag), Some(Value::String(text))) if !text.is_empty() => {
                        push_checked_tag(&mut self.text, tag, &text)?;
                    }
                    (Source::Field(name, ..), Some(value)) => {
                        self.text.push(separator);
                        separator = ',';
                        push_name(&mut self.text, "field", name, TAG_SPECIALS)?;
                        self.text.push('=');
                        push_value(&mut self.text, line_value(&value));
                    }
                    (Source::Time | Source::TimeNs, Some(Value::Int(time_ns))) if separator == ',' => {
                        write!(self.text, " {time_ns}").expect("text grows");
                    }
                    (Source::Time | Source::TimeNs, None) => {
                        return Err(own.without_time().of_row(row));
                    }
                    _ => {}
                }
            }
            if separator == ' ' {
                return Err(without_field(measurement).of_row(row));
            }
            if self.text.len() > TEXT_MAX_BYTES {
                let words =
                    format!("points of more than {TEXT_MAX_BYTES} bytes are too many for one statement");
                return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, words));
            }
            self.text.push('\n');
            self.count += 1;
        }
        Ok(())
    }
}

fn line_value(value: &Value) -> LineValue<'_> {
    match value {
        Value::Float(value) => LineValue::Float(*value),
        Value::Int(value) => LineValue::Integer(*value),
        Value::UInt(value) => LineValue::Unsigned(*value),
        Value::Bool(value) => LineValue::Boolean(*value),
        Value::String(text) => LineValue::String(text),
        Value::Decimal(_) | Value::Binary(_) => unreachable!("no field has such a type"),
    }
}
