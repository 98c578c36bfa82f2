//! Values that are assigned to fields.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::assign::{assigned, check_sizes};
use crate::relation::columns::data_type;
use crate::relation::input::Surroundings;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use nyala_core::store::Capabilities;
use nyala_db::catalog::FieldType;
use nyala_db::relations::DeclaredType;

/// The type that values are converted to before they become those of a field.
pub(super) fn declared(field_type: FieldType) -> DeclaredType {
    match field_type {
        FieldType::Float => DeclaredType::Float8,
        FieldType::Integer => DeclaredType::Int8,
        FieldType::Unsigned => DeclaredType::Numeric { precision: 20, scale: 0 },
        FieldType::String => DeclaredType::Text,
        FieldType::Boolean => DeclaredType::Bool,
    }
}

/// The type of a parameter that is assigned to a field.
pub(super) fn parameter_type(field_type: FieldType) -> DataType {
    data_type(declared(field_type))
}

/// What values are converted with.
pub(super) struct FieldRules {
    pub(super) around: Surroundings,
    pub(super) capabilities: Capabilities,
    /// Whether floats may be infinite, or no number: no writer but Prometheus has such.
    pub(super) accepts_all_floats: bool,
}

impl FieldRules {
    /// Values as a field stores them.
    pub(super) fn stored(
        &self,
        values: &ArrayRef,
        is_unknown: bool,
        name: &str,
        field_type: FieldType,
    ) -> SqlResult<ArrayRef> {
        let values = assigned(values, is_unknown, name, declared(field_type), &self.around)?;
        check_sizes(&values, name, false, &self.capabilities)?;
        match field_type {
            FieldType::Unsigned => unsigned(&values, name),
            FieldType::Float if !self.accepts_all_floats => finite(values, name),
            _ => Ok(values),
        }
    }
}

fn unsigned(values: &ArrayRef, name: &str) -> SqlResult<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, &DataType::UInt64, &options).map_err(|_| {
        let message = format!("a value is out of range of the unsigned integers of field \"{name}\"");
        SqlError::new(SqlState::OUT_OF_RANGE, message)
    })
}

fn finite(values: ArrayRef, name: &str) -> SqlResult<ArrayRef> {
    let floats = values.as_primitive::<Float64Type>();
    // Quick, and right unless what is below a NULL is no number.
    if floats.values().iter().all(|value| value.is_finite()) {
        return Ok(values);
    }
    let is_wrong = |row: &usize| floats.is_valid(*row) && !floats.value(*row).is_finite();
    match (0..floats.len()).find(is_wrong) {
        Some(row) => {
            let message =
                format!("field \"{name}\" cannot be {}: only finite numbers are stored", floats.value(row));
            Err(SqlError::new(SqlState::OUT_OF_RANGE, message))
        }
        None => Ok(values),
    }
}
