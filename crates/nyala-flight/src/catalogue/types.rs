//! The types that columns of tables may have, as drivers ask for them.

use arrow_flight::error::Result;
use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Nullable, Searchable, XdbcDataType};

/// A type: its name, its number, how many digits or letters it has, and what is written before and after its values.
type Described = (&'static str, XdbcDataType, Option<i32>, Option<&'static str>, Option<&'static str>);

const QUOTE: Option<&str> = Some("'");

const TYPES: [Described; 13] = [
    ("boolean", XdbcDataType::XdbcBit, Some(1), None, None),
    ("smallint", XdbcDataType::XdbcSmallint, Some(5), None, None),
    ("integer", XdbcDataType::XdbcInteger, Some(10), None, None),
    ("bigint", XdbcDataType::XdbcBigint, Some(19), None, None),
    ("real", XdbcDataType::XdbcReal, Some(8), None, None),
    ("double precision", XdbcDataType::XdbcDouble, Some(17), None, None),
    ("numeric", XdbcDataType::XdbcNumeric, Some(38), None, None),
    ("text", XdbcDataType::XdbcLongvarchar, None, QUOTE, QUOTE),
    ("varchar", XdbcDataType::XdbcVarchar, None, QUOTE, QUOTE),
    ("bytea", XdbcDataType::XdbcVarbinary, None, Some("'\\x"), QUOTE),
    ("date", XdbcDataType::XdbcDate, Some(13), Some("date '"), QUOTE),
    ("timestamp", XdbcDataType::XdbcTimestamp, Some(29), Some("timestamp '"), QUOTE),
    ("timestamptz", XdbcDataType::XdbcTimestamp, Some(35), Some("timestamptz '"), QUOTE),
];

/// All of them, in the order of their numbers, as the protocol wants them.
pub(super) fn all() -> Result<XdbcTypeInfoData> {
    let mut types = TYPES;
    types.sort_by_key(|(_, number, ..)| *number as i32);
    let mut all = XdbcTypeInfoDataBuilder::new();
    for (name, number, size, before, after) in types {
        let is_text = before == QUOTE;
        let is_number = before.is_none() && name != "boolean";
        all.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: number,
            column_size: size,
            literal_prefix: before.map(str::to_owned),
            literal_suffix: after.map(str::to_owned),
            create_params: match name {
                "numeric" => Some(vec!["precision".to_owned(), "scale".to_owned()]),
                "varchar" => Some(vec!["length".to_owned()]),
                _ => None,
            },
            nullable: Nullable::NullabilityNullable,
            case_sensitive: is_text,
            searchable: if is_text { Searchable::Full } else { Searchable::Basic },
            unsigned_attribute: is_number.then_some(false),
            fixed_prec_scale: false,
            auto_increment: is_number.then_some(false),
            local_type_name: Some(name.to_owned()),
            sql_data_type: number,
            num_prec_radix: is_number.then_some(10),
            ..XdbcTypeInfo::default()
        });
    }
    all.build()
}
