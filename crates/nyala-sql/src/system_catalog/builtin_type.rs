//! The types that PostgreSQL has from the beginning, with its own numbers (`definitions/types.txt`).

use crate::pg_type::{LENGTH_KEY, TYPE_KEY};
use arrow_schema::{DataType, Field, TimeUnit};
use nyala_db::relations::DeclaredType;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What the modifier of a type is shifted by: the length of a header of long ago.
const MODIFIER_SHIFT: i32 = 4;

pub(crate) const BPCHAR: u32 = 1042;
pub(crate) const TIMESTAMP: u32 = 1114;
pub(crate) const TIMESTAMPTZ: u32 = 1184;
pub(crate) const VARCHAR: u32 = 1043;
pub(crate) const NUMERIC: u32 = 1700;

/// A type.
#[derive(Debug)]
pub(crate) struct BuiltinType {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    /// As it is written in SQL.
    pub(crate) sql_name: &'static str,
    pub(crate) length: i16,
    pub(crate) is_by_value: bool,
    /// `b`ase type, `d`omain, `p`seudo-type, `r`ange, `m`ultirange.
    pub(crate) kind: &'static str,
    pub(crate) category: &'static str,
    pub(crate) is_preferred: bool,
    /// The type of its elements, or 0.
    pub(crate) element: u32,
    /// The type of its arrays, or 0.
    pub(crate) array: u32,
    pub(crate) alignment: &'static str,
    pub(crate) storage: &'static str,
    /// The type that a domain restricts, or 0.
    pub(crate) base: u32,
    pub(crate) collation: u32,
    /// Its functions: input, output, receive, send, subscript, input and output of modifiers, analyze. `-`: there is none.
    pub(crate) functions: [&'static str; 8],
    pub(crate) delimiter: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) modifier: i32,
}

/// All of them, in order of number.
pub(crate) static TYPES: LazyLock<Vec<BuiltinType>> =
    LazyLock::new(|| include_str!("definitions/types.txt").lines().map(BuiltinType::read).collect());

static BY_OID: LazyLock<HashMap<u32, &'static BuiltinType>> =
    LazyLock::new(|| TYPES.iter().map(|own| (own.oid, own)).collect());

impl BuiltinType {
    fn read(line: &'static str) -> Self {
        let parts: Vec<&'static str> = line.split('|').collect();
        let number = |place: usize| parts[place].parse().expect("the file has numbers here");
        Self {
            oid: number(0),
            name: parts[1],
            sql_name: parts[2],
            length: parts[3].parse().expect("the file has numbers here"),
            is_by_value: parts[4] == "t",
            kind: parts[5],
            category: parts[6],
            is_preferred: parts[7] == "t",
            element: number(8),
            array: number(9),
            alignment: parts[10],
            storage: parts[11],
            base: number(12),
            collation: number(13),
            functions: [14, 15, 16, 17, 21, 22, 23, 24].map(|place| parts[place]),
            delimiter: parts[18],
            namespace: parts[19],
            modifier: parts[20].parse().expect("the file has numbers here"),
        }
    }

    /// The type with a number.
    pub(crate) fn of_oid(oid: u32) -> Option<&'static Self> {
        BY_OID.get(&oid).copied()
    }

    /// The type that a name means, with or without the schema `pg_catalog`, as people write it or as it is stored.
    pub(crate) fn of_name(name: &str) -> Option<&'static Self> {
        let name = name.trim();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        let folded = name.to_lowercase();
        let name = match &*folded {
            "int" => "integer",
            "decimal" => "numeric",
            "float" => "double precision",
            "varchar" => "character varying",
            "timestamp" => "timestamp without time zone",
            "time" => "time without time zone",
            other => other,
        };
        let is_named = |own: &&BuiltinType| own.sql_name == name || own.name == name.trim_matches('"');
        TYPES.iter().find(is_named)
    }

    /// Whether its values are arrays.
    pub(crate) fn is_array(&self) -> bool {
        self.category == "A" && self.element != 0
    }

    /// A field of such values.
    pub(crate) fn field(&self, name: &str) -> Field {
        if self.is_array()
            && let Some(element) = Self::of_oid(self.element)
        {
            let element = element.field(Field::LIST_FIELD_DEFAULT_NAME);
            let field = Field::new(name, DataType::List(element.into()), true);
            return match self.name {
                // They are shown otherwise than arrays.
                "int2vector" | "oidvector" => {
                    field.with_metadata([(TYPE_KEY.to_owned(), self.name.to_owned())].into())
                }
                _ => field,
            };
        }
        if let Some(base) = Self::of_oid(self.base) {
            return base.field(name);
        }
        let (data_type, shown) = match self.sql_name {
            "boolean" => (DataType::Boolean, None),
            "smallint" => (DataType::Int16, None),
            "integer" => (DataType::Int32, None),
            "bigint" => (DataType::Int64, None),
            "real" => (DataType::Float32, None),
            "double precision" => (DataType::Float64, None),
            "oid" => (DataType::Int64, Some("oid")),
            "xid" => (DataType::Int64, Some("xid")),
            // It is shown as the name of the function.
            "regproc" => (DataType::Int64, Some("regproc")),
            "name" => (DataType::Utf8, Some("name")),
            "\"char\"" => (DataType::Utf8, Some("char")),
            "regtype" => (DataType::Utf8, Some("regtype")),
            "character varying" => (DataType::Utf8, Some("varchar")),
            "bytea" => (DataType::Binary, None),
            "timestamp with time zone" => {
                (DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())), None)
            }
            "interval" => (DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano), None),
            "text" => (DataType::Utf8, None),
            // What has no form of its own here is a text that has its name.
            _ => (DataType::Utf8, Some(self.name)),
        };
        let field = Field::new(name, data_type, true);
        match shown {
            Some(shown) => field.with_metadata([(TYPE_KEY.to_owned(), shown.to_owned())].into()),
            None => field,
        }
    }

    /// It with a modifier, as it is written in SQL. `None`: the modifier does not matter.
    pub(crate) fn shown(&self, modifier: Option<i32>) -> String {
        if self.is_array()
            && let Some(element) = Self::of_oid(self.element)
            && self.sql_name.ends_with("[]")
        {
            return format!("{}[]", element.shown(modifier));
        }
        let Some(modifier) = modifier else { return self.sql_name.to_owned() };
        match (self.oid, modifier) {
            (BPCHAR, -1) => "bpchar".to_owned(),
            (TIMESTAMP, digits @ 0..) => format!("timestamp({digits}) without time zone"),
            (TIMESTAMPTZ, digits @ 0..) => format!("timestamp({digits}) with time zone"),
            (_, modifier) if modifier < MODIFIER_SHIFT => self.sql_name.to_owned(),
            (NUMERIC, modifier) => {
                let packed = modifier - MODIFIER_SHIFT;
                format!("numeric({},{})", packed >> 16, packed & 0x7ff)
            }
            (BPCHAR | VARCHAR, modifier) => format!("{}({})", self.sql_name, modifier - MODIFIER_SHIFT),
            _ => self.sql_name.to_owned(),
        }
    }
}

/// The number and the modifier of a type that a column was declared with.
pub(crate) fn of_declared(declared: DeclaredType) -> (u32, i32) {
    let length = |length: u32| i32::try_from(length).unwrap_or(i32::MAX).saturating_add(MODIFIER_SHIFT);
    match declared {
        DeclaredType::Bool => (16, -1),
        DeclaredType::Int2 => (21, -1),
        DeclaredType::Int4 => (23, -1),
        DeclaredType::Int8 => (20, -1),
        DeclaredType::Float4 => (700, -1),
        DeclaredType::Float8 => (701, -1),
        DeclaredType::Numeric { precision, scale } => (NUMERIC, of_digits(precision, scale.cast_signed())),
        DeclaredType::Text => (25, -1),
        DeclaredType::Varchar(own) => (VARCHAR, length(own)),
        DeclaredType::Char(own) => (BPCHAR, length(own)),
        DeclaredType::Bytea => (17, -1),
        DeclaredType::Date => (1082, -1),
        DeclaredType::Timestamp => (TIMESTAMP, -1),
        DeclaredType::TimestampDigits(digits) => (TIMESTAMP, digits.into()),
        DeclaredType::Timestamptz => (TIMESTAMPTZ, -1),
        DeclaredType::TimestamptzDigits(digits) => (TIMESTAMPTZ, digits.into()),
        DeclaredType::Uuid => (2950, -1),
        DeclaredType::Json => (114, -1),
        DeclaredType::Jsonb => (3802, -1),
    }
}

fn of_digits(precision: u8, scale: i8) -> i32 {
    (i32::from(precision) << 16 | i32::from(scale) & 0x7ff) + MODIFIER_SHIFT
}

/// The number and the modifier of the type that values of a field have.
pub(crate) fn of_field(field: &Field) -> (u32, i32) {
    if let Some(own) = field.metadata().get(TYPE_KEY).and_then(|name| BuiltinType::of_name(name)) {
        let length = field.metadata().get(LENGTH_KEY).and_then(|length| length.parse::<i32>().ok());
        return (own.oid, length.map_or(-1, |length| length.saturating_add(MODIFIER_SHIFT)));
    }
    of_values(field.data_type())
}

/// The type that values of a field have, as people write it.
pub(crate) fn shown_type(field: &Field) -> String {
    let (oid, modifier) = of_field(field);
    BuiltinType::of_oid(oid).map_or_else(|| "text".to_owned(), |own| own.shown(Some(modifier)))
}

/// Whether values of two fields have the same type but for its length and its digits, which those of a query have where it only
/// names a column.
pub(crate) fn has_same_type(own: &Field, other: &Field) -> bool {
    of_values(own.data_type()).0 == of_values(other.data_type()).0
}

fn of_values(values: &DataType) -> (u32, i32) {
    let oid = match values {
        DataType::Boolean => 16,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => 21,
        DataType::Int32 | DataType::UInt16 => 23,
        DataType::Int64 | DataType::UInt32 => 20,
        DataType::UInt64 => return (NUMERIC, of_digits(20, 0)),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return (NUMERIC, of_digits(*precision, *scale)),
        DataType::Float16 | DataType::Float32 => 700,
        DataType::Float64 => 701,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => 17,
        DataType::Date32 | DataType::Date64 => 1082,
        DataType::Time32(_) | DataType::Time64(_) => 1083,
        DataType::Timestamp(_, None) => 1114,
        DataType::Timestamp(_, Some(_)) => 1184,
        DataType::Interval(_) | DataType::Duration(_) => 1186,
        DataType::Dictionary(_, inner) => return of_values(inner),
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
            BuiltinType::of_oid(of_field(inner).0).map_or(1009, |element| element.array)
        }
        _ => 25,
    };
    (oid, -1)
}
