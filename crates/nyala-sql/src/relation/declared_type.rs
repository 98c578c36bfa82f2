//! Types as they are written in definitions.

use crate::error::{SqlError, SqlResult, SqlState};
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};
use nyala_db::relations::DeclaredType;

/// The most digits of a number.
const DIGITS_MAX: u64 = 38;
/// Times have nanoseconds.
const SECOND_DIGITS_MAX: u8 = 9;
/// The longest text that a type can ask for, characters, as in PostgreSQL.
const LENGTH_MAX: u64 = 10_485_760;

/// The type that a definition asks for.
pub(crate) fn declared_type(written: &DataType) -> SqlResult<DeclaredType> {
    Ok(match written {
        DataType::Bool | DataType::Boolean => DeclaredType::Bool,
        DataType::SmallInt(None) | DataType::Int2(None) => DeclaredType::Int2,
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => DeclaredType::Int4,
        DataType::BigInt(None) | DataType::Int8(None) => DeclaredType::Int8,
        DataType::Real | DataType::Float4 => DeclaredType::Float4,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => DeclaredType::Float8,
        DataType::Float(length) => match length {
            ExactNumberInfo::Precision(1..=24) => DeclaredType::Float4,
            _ => DeclaredType::Float8,
        },
        DataType::Numeric(digits) | DataType::Decimal(digits) | DataType::Dec(digits) => numeric(digits)?,
        DataType::Text | DataType::String(None) => DeclaredType::Text,
        DataType::Uuid => DeclaredType::Uuid,
        DataType::JSON => DeclaredType::Json,
        DataType::JSONB => DeclaredType::Jsonb,
        DataType::Varchar(None) | DataType::CharacterVarying(None) | DataType::CharVarying(None) => {
            DeclaredType::Text
        }
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            DeclaredType::Varchar(characters(length.as_ref())?)
        }
        DataType::Char(length) | DataType::Character(length) => {
            DeclaredType::Char(characters(length.as_ref())?)
        }
        DataType::Bytea => DeclaredType::Bytea,
        DataType::Date => DeclaredType::Date,
        DataType::Timestamp(digits, zone) => {
            let has_zone = matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz);
            match digits.map(second_digits).transpose()? {
                None if has_zone => DeclaredType::Timestamptz,
                None => DeclaredType::Timestamp,
                Some(digits) if has_zone => DeclaredType::TimestamptzDigits(digits),
                Some(digits) => DeclaredType::TimestampDigits(digits),
            }
        }
        DataType::Custom(name, arguments) => {
            let name = name.to_string().to_lowercase();
            match &*name {
                "bpchar" if arguments.is_empty() => DeclaredType::Text,
                "name" if arguments.is_empty() => DeclaredType::Varchar(63),
                "serial" | "bigserial" | "smallserial" | "serial4" | "serial8" | "serial2" => {
                    return Err(SqlError::unsupported(format!("the type {name}")).with_hint(
                        "There are no sequences. A table without a primary key numbers its rows itself.",
                    ));
                }
                _ => return Err(unknown(&name)),
            }
        }
        other => return Err(unknown(&other.to_string().to_lowercase())),
    })
}

fn unknown(name: &str) -> SqlError {
    SqlError::unsupported(format!("the type {name} of a column")).with_hint(
        "Columns may be boolean, smallint, integer, bigint, real, double precision, numeric(p,s), text, varchar(n), \
         char(n), bytea, date, timestamp(p), timestamptz(p), uuid, json or jsonb.",
    )
}

fn numeric(digits: &ExactNumberInfo) -> SqlResult<DeclaredType> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => {
            return Err(SqlError::unsupported("numeric without a precision").with_hint(
                "Say how many digits there are: numeric(p,s), with at most 38 digits, such as numeric(38,9).",
            ));
        }
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=DIGITS_MAX).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {DIGITS_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    }
    if !(0..=precision as i64).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between 0 and precision {precision}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    }
    Ok(DeclaredType::Numeric { precision: precision as u8, scale: scale as u8 })
}

fn characters(length: Option<&CharacterLength>) -> SqlResult<u32> {
    let length = match length {
        None => 1,
        Some(CharacterLength::IntegerLength { length, unit: _ }) => *length,
        Some(CharacterLength::Max) => return Err(unknown("varchar(max)")),
    };
    match length {
        1..=LENGTH_MAX => Ok(length as u32),
        _ => {
            let message = format!("the length of a text type must be between 1 and {LENGTH_MAX}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER, message))
        }
    }
}

/// How many digits behind the seconds a type of times keeps. Nine is all that there are.
pub(crate) fn second_digits(written: u64) -> SqlResult<u8> {
    u8::try_from(written).ok().filter(|digits| *digits <= SECOND_DIGITS_MAX).ok_or_else(|| {
        let message = format!("timestamp({written}) precision must be between 0 and {SECOND_DIGITS_MAX}");
        SqlError::new(SqlState::INVALID_PARAMETER, message)
    })
}
