//! A column of rows that become points: what it is in the measurement, and its values as points have them.

use super::source_of;
use super::value::{FieldRules, declared};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::measurement::{MeasurementTable, Source};
use crate::relation::assign::{assigned, column_of};
use crate::relation::columns::data_type;
use crate::relation::literal::datum;
use crate::relation::shown_as;
use crate::target::Place;
use arrow_array::ArrayRef;
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast;
use nyala_db::relations::DeclaredType;

/// A column that rows have values for.
#[derive(Debug)]
pub(super) struct InsertedColumn {
    pub(super) name: String,
    pub(super) source: Source,
    /// Whether texts become what is needed: they are literals.
    pub(super) is_unknown: bool,
}

impl InsertedColumn {
    /// A point has no time in this column.
    pub(super) fn without_time(&self) -> SqlError {
        let message = format!("null value in column \"{}\" of a point", self.name);
        SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
            .with_hint("Leave the column out: then the points get the time of the statement.")
    }

    /// A column of literals, as line protocol needs them.
    pub(super) fn literals(
        &self,
        cells: &[Vec<ast::Expr>],
        place: usize,
        parameters: &[ScalarValue],
        rules: &FieldRules,
    ) -> SqlResult<ArrayRef> {
        let declared = declared_of(&self.source);
        let data = cells.iter().map(|row| datum(&row[place], parameters, &rules.around));
        let values = column_of(data, &self.name, declared, &rules.around)?;
        self.stored(&shown_as(&values, &data_type(declared))?, rules)
    }

    /// Values as line protocol needs them.
    pub(super) fn stored(&self, values: &ArrayRef, rules: &FieldRules) -> SqlResult<ArrayRef> {
        if let Source::Field(_, field_type, _) = &self.source {
            return rules.stored(values, self.is_unknown, &self.name, *field_type);
        }
        let declared = declared_of(&self.source);
        let stored = assigned(values, self.is_unknown, &self.name, declared, &rules.around)?;
        match self.source {
            Source::Time => Ok(cast(&stored, &DataType::Int64).map_err(DataFusionError::from)?),
            _ => Ok(stored),
        }
    }
}

/// A point of a measurement has no value in any field.
pub(super) fn without_field(measurement: &str) -> SqlError {
    let message = format!("a point of \"{measurement}\" has no field with a value");
    SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
}

/// The columns that rows have values for, by their names; if there are none, those that `SELECT *` shows, but without the
/// second column of times.
pub(super) fn inserted_columns(
    table: &MeasurementTable,
    place: &Place,
    names: &[String],
) -> SqlResult<Vec<(String, Source)>> {
    let mut columns: Vec<(String, Source)> = Vec::new();
    for name in names {
        let source = source_of(table, place, name)?;
        if columns.iter().any(|(known, _)| known == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        columns.push((name.clone(), source));
    }
    if names.is_empty() {
        let shown = table.columns().filter(|(_, source)| **source != Source::TimeNs);
        columns = shown.map(|(name, source)| (name.to_owned(), source.clone())).collect();
    }
    let times = columns.iter().filter(|(_, source)| matches!(source, Source::Time | Source::TimeNs)).count();
    if times > 1 {
        let words = "a point has one time: give \"time\" or the integer, not both";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
    }
    Ok(columns)
}

/// The type that values of a column are converted to.
pub(super) fn declared_of(source: &Source) -> DeclaredType {
    match source {
        Source::Time => DeclaredType::Timestamptz,
        Source::TimeNs => DeclaredType::Int8,
        Source::Field(_, field_type, _) => declared(*field_type),
        Source::Tag(_) | Source::Series => DeclaredType::Text,
    }
}
