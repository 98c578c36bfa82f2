//! PostgreSQL's types: their numbers, and which one the values of an Arrow column have.

use crate::error::Failure;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use nyala_sql::LENGTH_KEY;
pub use nyala_sql::TYPE_KEY;

/// Makes [`PgType`] and its table from lines of `variant: name, number, number of its arrays, bytes of a value`.
macro_rules! types {
    ($($variant:ident: $name:literal, $oid:literal, $array:literal, $bytes:literal;)*) => {
        /// A type of PostgreSQL that is no array.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "their names say what they are")]
        pub enum PgType { $($variant),* }

        impl PgType {
            /// All of them.
            pub const ALL: &'static [PgType] = &[$(PgType::$variant),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(PgType::$variant => $name),* }
            }

            /// Its number in `pg_type`.
            pub fn oid(self) -> u32 {
                match self { $(PgType::$variant => $oid),* }
            }

            /// The number of the type of its arrays.
            pub fn array_oid(self) -> u32 {
                match self { $(PgType::$variant => $array),* }
            }

            /// The bytes of a value, or -1 if values differ in size.
            pub fn size_bytes(self) -> i16 {
                match self { $(PgType::$variant => $bytes),* }
            }
        }
    };
}

types! {
    Bool: "bool", 16, 1000, 1;
    Bytea: "bytea", 17, 1001, -1;
    Char: "char", 18, 1002, 1;
    Name: "name", 19, 1003, 64;
    Int8: "int8", 20, 1016, 8;
    Int2: "int2", 21, 1005, 2;
    Int2vector: "int2vector", 22, 1006, -1;
    Int4: "int4", 23, 1007, 4;
    Regproc: "regproc", 24, 1008, 4;
    Text: "text", 25, 1009, -1;
    Oid: "oid", 26, 1028, 4;
    Xid: "xid", 28, 1011, 4;
    Oidvector: "oidvector", 30, 1013, -1;
    Json: "json", 114, 199, -1;
    PgNodeTree: "pg_node_tree", 194, 1009, -1;
    Float4: "float4", 700, 1021, 4;
    Float8: "float8", 701, 1022, 8;
    Inet: "inet", 869, 1041, -1;
    Aclitem: "aclitem", 1033, 1034, 16;
    Bpchar: "bpchar", 1042, 1014, -1;
    Varchar: "varchar", 1043, 1015, -1;
    Date: "date", 1082, 1182, 4;
    Time: "time", 1083, 1183, 8;
    Timestamp: "timestamp", 1114, 1115, 8;
    Timestamptz: "timestamptz", 1184, 1185, 8;
    Interval: "interval", 1186, 1187, 16;
    Numeric: "numeric", 1700, 1231, -1;
    Regclass: "regclass", 2205, 2210, 4;
    Regtype: "regtype", 2206, 2211, 4;
    Anyarray: "anyarray", 2277, 2277, -1;
    Uuid: "uuid", 2950, 2951, 16;
    PgLsn: "pg_lsn", 3220, 3221, 8;
    Jsonb: "jsonb", 3802, 3807, -1;
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnType {
    /// The type of its values, or of their elements.
    pub of: PgType,
    /// Whether its values are arrays.
    pub is_array: bool,
    /// The precision and scale of a `numeric`.
    pub digits: Option<(u8, i8)>,
    /// The most letters of a `varchar` or `char`.
    pub length: Option<u32>,
}

impl ColumnType {
    /// The type that the values of a field are sent as.
    ///
    /// # Errors
    /// Unsupported, if PostgreSQL has nothing like it.
    pub fn of_field(field: &Field) -> Result<Self, Failure> {
        let mut found = Self::of_values(field.data_type())?;
        if let Some(named) = field.metadata().get(TYPE_KEY).and_then(|name| PgType::of_name(name)) {
            found.of = named;
            // Arrays that are types of their own.
            found.is_array &= named.element() == named;
        }
        found.length = field.metadata().get(LENGTH_KEY).and_then(|length| length.parse().ok());
        Ok(found)
    }

    /// The type that values are sent as.
    ///
    /// # Errors
    /// Unsupported, if PostgreSQL has nothing like it.
    pub fn of_values(values: &DataType) -> Result<Self, Failure> {
        let mut digits = None;
        let of = match values {
            DataType::Boolean => PgType::Bool,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => PgType::Int2,
            DataType::Int32 | DataType::UInt16 => PgType::Int4,
            DataType::Int64 | DataType::UInt32 => PgType::Int8,
            DataType::UInt64 => {
                digits = Some((20, 0));
                PgType::Numeric
            }
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                digits = Some((*precision, *scale));
                PgType::Numeric
            }
            DataType::Float16 | DataType::Float32 => PgType::Float4,
            DataType::Float64 => PgType::Float8,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => PgType::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => PgType::Bytea,
            DataType::Date32 | DataType::Date64 => PgType::Date,
            DataType::Time32(_) | DataType::Time64(_) => PgType::Time,
            DataType::Timestamp(_, None) => PgType::Timestamp,
            DataType::Timestamp(_, Some(_)) => PgType::Timestamptz,
            DataType::Interval(_) | DataType::Duration(_) => PgType::Interval,
            DataType::Dictionary(_, inner) => return Self::of_values(inner),
            DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
                return Ok(Self { is_array: true, ..Self::of_field(inner)? });
            }
            other => {
                return Err(Failure::unsupported(format!("PostgreSQL's protocol has no type for {other}")));
            }
        };
        Ok(Self { of, is_array: false, digits, length: None })
    }

    /// Its number.
    pub fn oid(self) -> u32 {
        if self.is_array { self.of.array_oid() } else { self.of.oid() }
    }

    /// The bytes of a value, or -1 if values differ in size.
    pub fn size_bytes(self) -> i16 {
        if self.is_array { -1 } else { self.of.size_bytes() }
    }

    /// What `pg_attribute.atttypmod` says: precision and scale of a `numeric`, the length of a `varchar` or `char`, otherwise -1.
    pub fn modifier(self) -> i32 {
        let digits =
            self.digits.map(|(precision, scale)| i32::from(precision) << 16 | i32::from(scale) & 0x7ff);
        let length = self.length.and_then(|length| i32::try_from(length).ok());
        // PostgreSQL's own shift by the length of a header of long ago.
        digits.or(length).and_then(|own| own.checked_add(4)).unwrap_or(-1)
    }

    /// The type with a number.
    pub fn of_oid(oid: u32) -> Option<Self> {
        PgType::ALL.iter().find_map(|known| match oid {
            _ if oid == known.oid() => Some(Self { of: *known, is_array: false, digits: None, length: None }),
            _ if oid == known.array_oid() => {
                Some(Self { of: *known, is_array: true, digits: None, length: None })
            }
            _ => None,
        })
    }

    /// The type of values that its parameters become.
    pub fn values(self) -> DataType {
        let of = match self.of {
            PgType::Bool => DataType::Boolean,
            PgType::Int2 => DataType::Int16,
            PgType::Int4 => DataType::Int32,
            PgType::Int8
            | PgType::Oid
            | PgType::Xid
            | PgType::Regproc
            | PgType::Regclass
            | PgType::Regtype => DataType::Int64,
            PgType::Float4 => DataType::Float32,
            PgType::Float8 => DataType::Float64,
            PgType::Numeric => DataType::Decimal128(38, 0),
            PgType::Bytea => DataType::Binary,
            PgType::Date => DataType::Date32,
            PgType::Time => DataType::Time64(TimeUnit::Microsecond),
            PgType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
            PgType::Timestamptz => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            PgType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            _ => DataType::Utf8,
        };
        if self.is_array { DataType::List(Field::new_list_field(of, true).into()) } else { of }
    }
}

impl PgType {
    /// What its elements are if it is an array by itself, otherwise the type.
    pub(super) fn element(self) -> Self {
        match self {
            PgType::Int2vector => PgType::Int2,
            PgType::Oidvector => PgType::Oid,
            other => other,
        }
    }

    /// The type with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.name() == name)
    }
}
