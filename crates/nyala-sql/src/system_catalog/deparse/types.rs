//! Types as they are written in expressions. Unlike those of columns they may have no limit where a column must have one.

use super::super::builtin_type::BuiltinType;
use super::node::{Kind, array_of};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo,
};

/// What the modifier of a type is shifted by.
const MODIFIER_SHIFT: i32 = 4;

/// The type that is written. `None`: it is not known here, or has a modifier that is not shown.
pub(super) fn written_type(written: &DataType) -> Option<Kind> {
    Some(match written {
        DataType::Bool | DataType::Boolean => Kind::of(16),
        DataType::SmallInt(None) | DataType::Int2(None) => Kind::of(21),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => Kind::of(23),
        DataType::BigInt(None) | DataType::Int8(None) => Kind::of(20),
        DataType::Real | DataType::Float4 | DataType::Float(ExactNumberInfo::Precision(1..=24)) => {
            Kind::of(700)
        }
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => {
            Kind::of(701)
        }
        DataType::Numeric(digits) | DataType::Decimal(digits) | DataType::Dec(digits) => {
            Kind { oid: 1700, modifier: digits_modifier(digits)? }
        }
        DataType::Text | DataType::String(None) => Kind::of(25),
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            Kind { oid: 1043, modifier: length_modifier(length.as_ref(), -1)? }
        }
        DataType::Char(length) | DataType::Character(length) => {
            Kind { oid: 1042, modifier: length_modifier(length.as_ref(), 1 + MODIFIER_SHIFT)? }
        }
        DataType::Bytea => Kind::of(17),
        DataType::Date => Kind::of(1082),
        DataType::Timestamp(digits, zone) => {
            let has_zone = matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz);
            let modifier = match digits {
                Some(digits) => i32::try_from(*digits).ok().filter(|digits| *digits <= 6)?,
                None => -1,
            };
            Kind { oid: if has_zone { 1184 } else { 1114 }, modifier }
        }
        DataType::Time(None, zone) => {
            let has_zone = matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz);
            Kind::of(if has_zone { 1266 } else { 1083 })
        }
        DataType::Interval { fields: None, precision: None } => Kind::of(1186),
        DataType::Uuid => Kind::of(2950),
        DataType::JSON => Kind::of(114),
        DataType::JSONB => Kind::of(3802),
        DataType::Regclass => Kind::of(2205),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            let element = written_type(element)?;
            Kind { oid: array_of(element.oid)?, modifier: element.modifier }
        }
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            let name = name.to_string().to_lowercase();
            Kind::of(BuiltinType::of_name(&name).filter(|own| own.kind == "b")?.oid)
        }
        _ => return None,
    })
}

fn digits_modifier(digits: &ExactNumberInfo) -> Option<i32> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => return Some(-1),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let (precision, scale) = (i32::try_from(precision).ok()?, i32::try_from(scale).ok()?);
    let are_right = (1..=1000).contains(&precision) && (0..=precision).contains(&scale);
    are_right.then_some((precision << 16 | scale) + MODIFIER_SHIFT)
}

fn length_modifier(length: Option<&CharacterLength>, without: i32) -> Option<i32> {
    match length {
        None => Some(without),
        Some(CharacterLength::IntegerLength { length, unit: None }) => {
            i32::try_from(*length).ok()?.checked_add(MODIFIER_SHIFT)
        }
        Some(_) => None,
    }
}
