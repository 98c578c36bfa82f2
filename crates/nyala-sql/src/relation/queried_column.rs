//! Columns that hold what a query gives, as they are written in definitions.

use crate::error::{SqlError, SqlResult};
use crate::pg_type::TYPE_KEY;
use crate::type_name;
use arrow_schema::{DataType, Field};
use datafusion::sql::sqlparser::ast::Ident;

/// The name and the type of a column that holds what a query gives.
///
/// # Errors
/// Unsupported if no column has such values.
pub(crate) fn queried_column(field: &Field) -> SqlResult<String> {
    let name = Ident::with_quote('"', field.name());
    let own = field.metadata().get(TYPE_KEY).filter(|own| ["uuid", "json", "jsonb"].contains(&own.as_str()));
    let own = own.cloned().or_else(|| column_type(field.data_type()));
    own.map(|own| format!("{name} {own}")).ok_or_else(|| {
        SqlError::unsupported(format!("a column of type {}", field.data_type()))
            .with_hint(format!("Cast column {name} of the query."))
    })
}

/// The type of a column that holds values of Arrow's type, as it is written in definitions; `None` if there is none.
pub fn column_type(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::UInt64 => "numeric(20,0)".to_owned(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            format!("numeric({precision},{scale})")
        }
        DataType::Timestamp(_, None) => "timestamp".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamptz".to_owned(),
        DataType::Dictionary(_, values) => return column_type(values),
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Date64
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Null => type_name::of(data_type).to_owned(),
        _ => return None,
    })
}
