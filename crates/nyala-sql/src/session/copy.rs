//! COPY: what it copies, and in which form.

use super::files::{CopyFile, FileIn};
use super::prepared::{CopyPlan, Prepared};
use super::{Outcome, Session};
use crate::copy::{CopyKind, CopyOptions, CopySubject};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::measurement::{MeasurementTable, Source};
use crate::statement::{Copy, Statement};
use crate::target::{Target, unknown_column};
use arrow_schema::DataType;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use nyala_core::before_long_work;
use nyala_db::users::Privilege;
use std::sync::Arc;

/// What days are called that rows are partitioned by, …
const DAY: &str = "day";
/// … and the column that they are those of.
const TIME: &str = "time";

impl Session {
    pub(super) async fn prepare_copy(&mut self, copy: &Copy) -> SqlResult<CopyPlan> {
        let written = &copy.written;
        let place = self.file_of(written)?;
        let options = CopyOptions::of(&written.options, written.is_from, &written.end)?;
        let file = place.map(|(folder, path)| CopyFile {
            folder,
            path,
            parquet: options.file().parquet,
            partitions: options.file().partition_by.clone(),
            opened: Arc::default(),
        });
        match (&written.subject, &copy.query) {
            (CopySubject::Table { name, columns }, _) if written.is_from => {
                if written.has_condition {
                    return Err(SqlError::unsupported("COPY FROM … WHERE")
                        .with_hint("Copy into another table, and INSERT from there what you want."));
                }
                let of_file = match &file {
                    Some(file) if columns.is_empty() && options.kind() == CopyKind::Parquet => {
                        before_long_work().await;
                        file.columns()?
                    }
                    _ => Vec::new(),
                };
                let columns = if of_file.is_empty() { columns } else { &of_file };
                let target = self.prepare_copy_from(name, columns).await?;
                if options.is_frozen() {
                    let words = "cannot perform COPY FREEZE because the table was not created or truncated in the \
                                 current subtransaction";
                    return Err(SqlError::new(SqlState::WRONG_STATE, words));
                }
                let form = options.form(&target.names(), |name| target.check_column(name))?;
                Ok(CopyPlan::From { target, form, file })
            }
            (CopySubject::Table { name, columns }, _) => {
                let (query, columns) = self.table_query(name, columns).await?;
                let table = name.to_string();
                let prepared = self.prepare_copy_to(&query, options, file, Some((&table, &columns))).await;
                // Its places are those of a text that nobody has written.
                prepared.map_err(SqlError::without_place)
            }
            (CopySubject::Query(_), Some(query)) => self.prepare_copy_to(query, options, file, None).await,
            (CopySubject::Query(_), None) => {
                Err(SqlError::new(SqlState::INTERNAL, "the statement has no query"))
            }
        }
    }

    async fn prepare_copy_to(
        &mut self,
        query: &Statement,
        options: CopyOptions,
        mut file: Option<CopyFile>,
        table: Option<(&str, &[String])>,
    ) -> SqlResult<CopyPlan> {
        let mut query = self.try_prepare(query.clone(), &[]).await?;
        if let Some(file) = file.as_mut().filter(|file| !file.partitions.is_empty()) {
            query = self.prepare_partitions(query, file).await?;
        }
        if !query.parameters.is_empty() {
            return Err(SqlError::new(SqlState::UNKNOWN_PARAMETER, "there is no parameter $1"));
        }
        let columns = query
            .columns
            .clone()
            .ok_or_else(|| SqlError::new(SqlState::UNSUPPORTED, "COPY query must have a RETURNING clause"))?;
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        let others = |name: &str| match table {
            Some((_, others)) if others.iter().any(|other| other == name) => Ok(()),
            Some((table, _)) => Err(unknown_column(name, table)),
            None => Err(SqlError::new(SqlState::UNKNOWN_COLUMN, format!("column \"{name}\" does not exist"))),
        };
        let form = options.form(&names, others)?;
        Ok(CopyPlan::To { query: Box::new(query), form, file })
    }

    /// The same query, whose rows come in the order of the folders that they go to.
    async fn prepare_partitions(&mut self, query: Prepared, file: &mut CopyFile) -> SqlResult<Prepared> {
        let columns = query.columns.clone();
        let has = |name: &str| columns.as_ref().is_some_and(|columns| columns.field_with_name(name).is_ok());
        let quoted = |name: &str| Ident::with_quote('"', name).to_string();
        let mut day = String::new();
        for name in &file.partitions {
            match &**name {
                name if has(name) => {}
                DAY if has(TIME) => {
                    let field = columns.as_ref().and_then(|columns| columns.field_with_name(TIME).ok());
                    let has_zone = field
                        .is_some_and(|field| matches!(field.data_type(), DataType::Timestamp(_, Some(_))));
                    let zone = if has_zone { " AT TIME ZONE 'UTC'" } else { "" };
                    day = format!(", CAST({}{zone} AS date) AS {DAY}", quoted(TIME));
                }
                DAY => {
                    let message =
                        format!("there is neither a column \"{DAY}\" nor one \"{TIME}\" to partition by");
                    return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, message));
                }
                name => {
                    let message = format!("column \"{name}\" does not exist");
                    return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, message));
                }
            }
        }
        let order: Vec<String> = file.partitions.iter().map(|name| quoted(name)).collect();
        let Statement { ast, as_of, .. } = &query.statement;
        let as_of = as_of.as_ref().map_or_else(String::new, |moment| format!(" AS OF {moment}"));
        let text = format!("SELECT *{day} FROM ({ast}) AS copied ORDER BY {}{as_of}", order.join(", "));
        let sorted = Statement::parse(&text)?.pop();
        let sorted = sorted.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the query has no text"))?;
        self.try_prepare(sorted, &[]).await.map_err(SqlError::without_place)
    }

    /// The query of the rows of a table, and the columns that the table has.
    async fn table_query(
        &mut self,
        name: &ObjectName,
        columns: &[Ident],
    ) -> SqlResult<(Statement, Vec<String>)> {
        let place = self.place(name)?;
        let catalog = self.server.catalog.clone();
        let mut named: Vec<String> = Vec::with_capacity(columns.len());
        for column in columns.iter().map(folded) {
            if named.contains(&column) {
                let message = format!("column \"{column}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            named.push(column);
        }
        let may_read = self.may(Privilege::Read, &place.database);
        let found = may_read.then(|| place.target(&catalog, self.relations())).and_then(Result::ok);
        let (mut all, mut is_known) = (Vec::new(), true);
        match found {
            Some(Target::Relation(relation)) => {
                let Some(table) = relation.table() else {
                    let message = format!("cannot copy from view \"{}\"", relation.name);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT, message)
                        .with_hint("Try the COPY (SELECT ...) TO variant."));
                };
                all.extend(table.columns.iter().map(|column| column.name.clone()));
            }
            Some(Target::Measurement { policy }) => {
                let found = catalog.measurement(&place.database, &policy, &place.name).await?;
                let measurement = found.ok_or_else(|| place.unknown())?;
                let table = MeasurementTable::of(measurement, &place.database, &policy, false);
                all.extend(table.columns().map(|(name, _)| name.to_owned()));
                if named.is_empty() {
                    // Those that COPY FROM takes, with one of the times.
                    let shown = table.columns().filter(|(_, source)| **source != Source::TimeNs);
                    named = shown.map(|(name, _)| name.to_owned()).collect();
                }
            }
            // If there is none, the planner says so; it knows the tables of the system, too.
            None => is_known = false,
        }
        if let Some(unknown) = named.iter().find(|column| is_known && !all.contains(column)) {
            return Err(unknown_column(unknown, &name.to_string()));
        }
        let selected: Vec<String> =
            named.iter().map(|name| Ident::with_quote('"', name).to_string()).collect();
        let selected = if selected.is_empty() { "*".to_owned() } else { selected.join(", ") };
        let query = Statement::parse(&format!("SELECT {selected} FROM {name}"))?.pop();
        let query = query.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the table has no query"))?;
        Ok((query, all))
    }

    /// Begins to copy; `None` if a table was altered since the statement was prepared.
    pub(super) async fn execute_copy(
        &mut self,
        statement: &Statement,
        plan: &CopyPlan,
    ) -> SqlResult<Option<Outcome>> {
        match plan {
            CopyPlan::To { query, form, file } => match self.try_execute(query, Arc::default()).await? {
                Outcome::Rows(rows) => Ok(Some(match file {
                    None => Outcome::CopyOut(rows, Box::new(form.clone())),
                    Some(file) => Outcome::FileOut(Box::new(file.out(rows, form.clone())?)),
                })),
                _ => Err(SqlError::new(SqlState::INTERNAL, "the query gives no rows")),
            },
            CopyPlan::From { target, form, file } => {
                if !target.is_temporary() {
                    self.check_writable("COPY FROM")?;
                }
                let Some(copy) = self.begin_copy(statement, target, form).await? else { return Ok(None) };
                let copy = Box::new(copy);
                Ok(Some(match file {
                    None => Outcome::CopyIn(copy),
                    Some(file) => {
                        let path = file.path.clone();
                        Outcome::FileIn(Box::new(FileIn { copy, file: file.clone(), path }))
                    }
                }))
            }
        }
    }
}
