//! How PostgreSQL calls types in its messages.

use arrow_schema::DataType;

/// The name of the type that values of Arrow's type have.
pub(crate) fn of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        other if other.is_decimal() || *other == DataType::UInt64 => "numeric",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "bytea"
        }
        DataType::Dictionary(_, inner) => of(inner),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => "array",
        _ => "text",
    }
}

/// The same for a name that Arrow's messages have, such as `Int64`.
pub(crate) fn of_shown(shown: &str) -> Option<&'static str> {
    let data_type = match shown {
        _ if shown.starts_with("Decimal") => return Some("numeric"),
        _ if shown.starts_with("Interval") => return Some("interval"),
        "Int16" => DataType::Int16,
        "Int32" => DataType::Int32,
        "Int64" => DataType::Int64,
        "UInt64" => DataType::UInt64,
        "Float32" => DataType::Float32,
        "Float64" => DataType::Float64,
        "Boolean" => DataType::Boolean,
        "Date32" => DataType::Date32,
        _ => return None,
    };
    Some(of(&data_type))
}
