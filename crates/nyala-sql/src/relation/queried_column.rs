//! Columns that hold what a query gives, as they are written in definitions.

use crate::error::{SqlError, SqlResult};
use crate::pg_type::TYPE_KEY;
use arrow_schema::{DataType, Field, TimeUnit};
use datafusion::sql::sqlparser::ast::Ident;

/// The name and the type of a column that holds what a query gives.
///
/// # Errors
/// Unsupported if no column has such values.
pub(crate) fn queried_column(field: &Field) -> SqlResult<String> {
    let name = Ident::with_quote('"', field.name());
    let own = field.metadata().get(TYPE_KEY).filter(|own| ["uuid", "json", "jsonb"].contains(&own.as_str()));
    match own {
        Some(own) => Ok(format!("{name} {own}")),
        None => Ok(format!("{name} {}", type_of(&name, field.data_type())?)),
    }
}

fn type_of(name: &Ident, data_type: &DataType) -> SqlResult<String> {
    Ok(match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint".to_owned(),
        DataType::Int32 | DataType::UInt16 => "integer".to_owned(),
        DataType::Int64 | DataType::UInt32 => "bigint".to_owned(),
        DataType::UInt64 => "numeric(20,0)".to_owned(),
        DataType::Float16 | DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal64(precision, scale) => {
            format!("numeric({precision},{scale})")
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "text".to_owned(),
        DataType::Dictionary(_, values) => return type_of(name, values),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond | TimeUnit::Microsecond | TimeUnit::Millisecond, zone) => {
            if zone.is_some() { "timestamptz" } else { "timestamp" }.to_owned()
        }
        other => {
            return Err(SqlError::unsupported(format!("a column of type {other}"))
                .with_hint(format!("Cast column {name} of the query.")));
        }
    })
}
