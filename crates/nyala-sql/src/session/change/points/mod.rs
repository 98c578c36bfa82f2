//! Statements that change points of a measurement.
//!
//! A point is what its tags and its time are: its fields can be given other values ([`correct`]), and it can be deleted. An
//! inserted point is written as line protocol ([`insert`], [`copy`]), with the rules that every writer has.

mod columns;
mod copy;
mod correct;
mod insert;
mod inserted_column;
mod returned;
mod value;

pub(crate) use copy::CopiedPoints;
pub(super) use copy::PointsIn;

use super::assignments::assigned_names;
use super::parameters::ParameterTypes;
use super::preparing::{
    Written, changed_measurement_name, column_of, first_word, is_default, named_item, query_of,
};
use super::returning::Returning;
use super::selection::Selection;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::measurement::{MeasurementTable, SERIES, Source, TIME, TIME_NS};
use crate::relation::literal::{is_literal, parameter};
use crate::session::Session;
use crate::target::Place;
use arrow_schema::{DataType, SchemaRef};
use datafusion::sql::sqlparser::ast::{self, Ident, SelectItem, TableWithJoins, UpdateTableFromKind};
use insert::{PointInsert, Rows};
use nyala_db::catalog::Field;
use nyala_db::users::Privilege;
use value::parameter_type;

/// A prepared change of points.
#[derive(Debug)]
pub(crate) struct PointChange {
    place: Place,
    policy: String,
    table: MeasurementTable,
    kind: PointChangeKind,
    returning: Option<Returning>,
}

#[derive(Debug)]
enum PointChangeKind {
    Insert(PointInsert),
    /// The query has the number of the series and the time, behind them the new values, and if something is returned all columns
    /// of the points.
    Update {
        selection: Selection,
        fields: Vec<AssignedField>,
        may_repeat: bool,
    },
    Delete {
        selection: Selection,
        may_repeat: bool,
    },
}

/// A field that is assigned.
#[derive(Debug)]
struct AssignedField {
    /// Its column is called so.
    name: String,
    field: Field,
    /// Whether texts become what it needs: they are literals.
    is_unknown: bool,
}

/// What the parts of a statement are planned with.
struct Preparing<'a> {
    session: &'a mut Session,
    place: &'a Place,
    table: &'a MeasurementTable,
    types: ParameterTypes,
}

/// Prepares a change of points of a measurement, and says which types its parameters have.
pub(super) async fn prepare(
    session: &mut Session,
    place: Place,
    policy: String,
    alias: Option<Ident>,
    written: &Written<'_>,
    types: ParameterTypes,
) -> SqlResult<(PointChange, Vec<DataType>)> {
    let catalog = session.server.catalog.clone();
    let found = catalog.measurement(&place.database, &policy, &place.name).await?;
    let measurement = found.ok_or_else(|| place.unknown())?;
    let table = MeasurementTable::of(measurement, &place.database, &policy, false);
    let mut preparing = Preparing { session, place: &place, table: &table, types };
    let name = changed_measurement_name(&place, &policy);
    let alias = alias.unwrap_or_else(|| Ident::with_quote('"', &place.name));
    let column = |name: &str| column_of(&alias, name);
    let key = || vec![named_item(column(SERIES), SERIES), named_item(column(table.time_ns()), TIME_NS)];
    // The columns of points of which something is returned.
    let returned = |is_wanted: bool| -> Vec<SelectItem> {
        let columns = table.columns().enumerate().filter(|_| is_wanted);
        columns.map(|(place, (name, _))| named_item(column(name), &format!("\u{0}{place}"))).collect()
    };
    let kind = match written.statement {
        ast::Statement::Insert(insert) => {
            PointChangeKind::Insert(insert::prepare(&mut preparing, written, insert).await?)
        }
        ast::Statement::Update(update) => {
            preparing.check_readable()?;
            let has_more = !update.order_by.is_empty() || update.limit.is_some() || update.output.is_some();
            if update.or.is_some() || has_more {
                return Err(SqlError::unsupported("UPDATE OR …, and UPDATE with ORDER BY, LIMIT or OUTPUT"));
            }
            let others: &[TableWithJoins] = match &update.from {
                None => &[],
                Some(UpdateTableFromKind::AfterSet(from)) => from,
                Some(UpdateTableFromKind::BeforeSet(_)) => {
                    return Err(SqlError::unsupported("UPDATE FROM … SET"));
                }
            };
            let (mut items, mut fields) = (key(), Vec::new());
            for (number, (name, value)) in assigned_names(&update.assignments)?.into_iter().enumerate() {
                let field = preparing.field(&name)?;
                let null = ast::Expr::value(ast::Value::Null);
                let value = if is_default(value) { &null } else { value };
                if let Some(number) = parameter(value) {
                    preparing.types.note(number, parameter_type(field.field_type));
                }
                items.push(named_item(value.clone(), &format!("\u{0}new{number}")));
                fields.push(AssignedField { name, field, is_unknown: is_literal(value) });
            }
            items.extend(returned(update.returning.is_some()));
            let query = query_of(name, &alias, written.with, items, others, update.selection.as_ref())?;
            let selection = Selection::of_query(preparing.session, &mut preparing.types, query).await?;
            PointChangeKind::Update { selection, fields, may_repeat: !others.is_empty() }
        }
        ast::Statement::Delete(delete) => {
            preparing.check_readable()?;
            if !delete.order_by.is_empty() || delete.limit.is_some() || delete.output.is_some() {
                return Err(SqlError::unsupported("DELETE with ORDER BY, LIMIT or OUTPUT"));
            }
            let others = delete.using.as_deref().unwrap_or_default();
            let items = [key(), returned(delete.returning.is_some())].concat();
            let query = query_of(name, &alias, written.with, items, others, delete.selection.as_ref())?;
            let selection = Selection::of_query(preparing.session, &mut preparing.types, query).await?;
            PointChangeKind::Delete { selection, may_repeat: !others.is_empty() }
        }
        other => {
            return Err(SqlError::unsupported(format!("{} of points of a measurement", first_word(other))));
        }
    };
    let items = match written.statement {
        ast::Statement::Insert(own) => own.returning.as_ref(),
        ast::Statement::Update(own) => own.returning.as_ref(),
        ast::Statement::Delete(own) => own.returning.as_ref(),
        _ => None,
    };
    let returning = match items {
        Some(items) => Some(returned::prepare(&mut preparing, &alias, items)?),
        None => None,
    };
    let parameters = preparing.types.finish();
    let kind = kind.with_types(&parameters)?;
    Ok((PointChange { place, policy, table, kind, returning }, parameters))
}

impl PointChange {
    /// The columns of what it returns.
    pub(super) fn answer(&self) -> Option<SchemaRef> {
        self.returning.as_ref().map(|own| own.schema().clone())
    }
}

impl Preparing<'_> {
    /// Fails unless points may be read.
    fn check_readable(&self) -> SqlResult<()> {
        match self.session.principal().may(Privilege::Read, &self.place.database) {
            true => Ok(()),
            false => {
                let message = format!("permission denied for database \"{}\"", self.place.database);
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .with_hint("The statement reads points, which needs the privilege READ."))
            }
        }
    }

    /// The field that the column of a name shows.
    fn field(&self, name: &str) -> SqlResult<Field> {
        match source_of(self.table, self.place, name)? {
            Source::Field(name, field_type, column) => Ok(Field { name, field_type, column }),
            _ => Err(SqlError::unsupported(format!("changing \"{name}\" of points")).with_hint(
                "A point is what its time and its tags are. Insert it with the others, and delete the old one.",
            )),
        }
    }
}

/// What the column of a name shows.
fn source_of(table: &MeasurementTable, place: &Place, name: &str) -> SqlResult<Source> {
    let found = table.columns().find(|(own, _)| *own == name);
    found.map(|(_, source)| source.clone()).ok_or_else(|| {
        let message = format!("column \"{name}\" of measurement \"{}\" does not exist", place.name);
        SqlError::new(SqlState::UNKNOWN_COLUMN, message)
            .with_hint("New tags and fields come with points that are written as line protocol.")
    })
}

impl PointChangeKind {
    /// The same, whose parameters have their types.
    fn with_types(self, types: &[DataType]) -> SqlResult<Self> {
        Ok(match self {
            Self::Insert(mut insert) => {
                if let Rows::Query(selection) = insert.rows {
                    insert.rows = Rows::Query(selection.with_types(types, None)?);
                }
                Self::Insert(insert)
            }
            Self::Update { selection, fields, may_repeat } => {
                Self::Update { selection: selection.with_types(types, None)?, fields, may_repeat }
            }
            Self::Delete { selection, may_repeat } => {
                Self::Delete { selection: selection.with_types(types, None)?, may_repeat }
            }
        })
    }
}

impl MeasurementTable {
    /// The name of the column of times as integers, which a field may have taken.
    fn time_ns(&self) -> &str {
        let mut columns = self.columns();
        columns.find(|(_, source)| **source == Source::TimeNs).map_or(TIME, |(name, _)| name)
    }
}
