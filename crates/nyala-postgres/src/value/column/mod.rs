//! A column of an answer, ready to write its cells one by one: rows are sent row by row, and Arrow has columns.
//!
//! What the type of an array decides is decided once per batch ([`Cells`]); text and binary forms of a cell stand in
//! `text` and `binary`.

mod binary;
mod combinations;
mod integers;
mod rows;
mod text;

use crate::error::Failure;
use crate::value::time::write_exact_timestamp;
use crate::value::types::{ColumnType, PgType};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use nyala_exec::Zone;

pub(super) use binary::uuid;
pub use rows::{RowWriter, WrittenRows};

/// How a value is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// As PostgreSQL prints it.
    #[default]
    Text,
    /// As its type's own bytes.
    Binary,
}

impl Format {
    /// The format with a number of the protocol.
    pub fn of_code(code: i16) -> Result<Self, Failure> {
        match code {
            0 => Ok(Format::Text),
            1 => Ok(Format::Binary),
            _ => Err(Failure::new("22023", format!("unsupported format code: {code}"))),
        }
    }

    /// Its number.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

/// The cells of a column.
pub struct Column {
    cells: Cells,
    nulls: Option<NullBuffer>,
    /// The type of the cells, or of their elements.
    pub(super) of: PgType,
    format: Format,
    /// What texts of times are written in.
    pub(super) zone: Zone,
}

/// Values by the way in which they are written.
pub(super) enum Cells {
    Null,
    Bool(BooleanArray),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal32(Decimal32Array),
    Decimal64(Decimal64Array),
    Decimal128(Decimal128Array),
    Decimal256(Decimal256Array),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    Bytes(BinaryArray),
    LargeBytes(LargeBinaryArray),
    BytesView(BinaryViewArray),
    FixedBytes(FixedSizeBinaryArray),
    /// Days since 1970.
    Date(ScalarBuffer<i32>),
    /// Milliseconds since 1970.
    LongDate(ScalarBuffer<i64>),
    Time32(ScalarBuffer<i32>, TimeUnit),
    Time64(ScalarBuffer<i64>, TimeUnit),
    Timestamp(ScalarBuffer<i64>, TimeUnit),
    Months(ScalarBuffer<i32>),
    DaysAndTime(IntervalDayTimeArray),
    Span(IntervalMonthDayNanoArray),
    Duration(ScalarBuffer<i64>, TimeUnit),
    Dictionary(Keys, Box<Column>),
    List(Ends, Box<Column>),
}

/// The key of each row.
pub(super) enum Keys {
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
}

impl Keys {
    fn at(&self, row: usize) -> usize {
        match self {
            Keys::Int8(keys) => keys[row] as usize,
            Keys::Int16(keys) => keys[row] as usize,
            Keys::Int32(keys) => keys[row] as usize,
            Keys::Int64(keys) => keys[row] as usize,
            Keys::UInt8(keys) => keys[row].into(),
            Keys::UInt16(keys) => keys[row].into(),
            Keys::UInt32(keys) => keys[row] as usize,
            Keys::UInt64(keys) => keys[row] as usize,
        }
    }
}

/// Where the elements of each list begin and end.
pub(super) enum Ends {
    Offsets(ScalarBuffer<i32>),
    LongOffsets(ScalarBuffer<i64>),
    Equal(usize),
}

impl Ends {
    /// The elements of a row.
    pub(super) fn of(&self, row: usize) -> std::ops::Range<usize> {
        match self {
            Ends::Offsets(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Ends::LongOffsets(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Ends::Equal(length) => row * length..(row + 1) * length,
        }
    }
}

impl Column {
    /// The cells of an array, to be sent as a type.
    ///
    /// # Errors
    /// Unsupported, if the protocol has nothing like it.
    pub fn of(array: &dyn Array, column_type: ColumnType, format: Format) -> Result<Self, Failure> {
        let cells = Cells::of(array, column_type, format)?;
        Ok(Self { cells, nulls: array.nulls().cloned(), of: column_type.of, format, zone: Zone::UTC })
    }

    /// The same cells, whose times are written in a zone.
    #[must_use]
    pub fn in_zone(mut self, zone: Zone) -> Self {
        self.zone = zone;
        self.cells = match self.cells {
            Cells::Dictionary(keys, values) => Cells::Dictionary(keys, Box::new(values.in_zone(zone))),
            Cells::List(ends, values) => Cells::List(ends, Box::new(values.in_zone(zone))),
            cells => cells,
        };
        self
    }

    /// Appends a cell: its length and its bytes, or the length −1 for NULL.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        if self.is_null(row) {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            return Ok(());
        }
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        match self.format {
            Format::Text => text::write(self, row, out)?,
            Format::Binary => binary::write(self, row, out)?,
        }
        let length = i32::try_from(out.len() - begin - 4);
        let length = length.map_err(|_| Failure::new("54000", "a value is longer than 2 GiB"))?;
        out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Appends the text of a cell that is not NULL, without its length. Times have all digits that they have, so that a copy
    /// loses nothing.
    pub fn write_exactly(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        let (column, place) = self.resolve(row);
        match &column.cells {
            Cells::Timestamp(values, TimeUnit::Nanosecond) => {
                let zone = (column.of == PgType::Timestamptz).then_some(column.zone);
                write_exact_timestamp(values[place], zone, out);
                Ok(())
            }
            _ => text::write(self, row, out),
        }
    }

    /// Whether a row has no value.
    pub fn is_null(&self, row: usize) -> bool {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return true;
        }
        match &self.cells {
            Cells::Null => true,
            Cells::Dictionary(keys, values) => values.is_null(keys.at(row)),
            _ => false,
        }
    }

    /// The cells and the row that a row of a dictionary stands for.
    pub(super) fn resolve(&self, row: usize) -> (&Self, usize) {
        match &self.cells {
            Cells::Dictionary(keys, values) => values.resolve(keys.at(row)),
            _ => (self, row),
        }
    }

    pub(super) fn cells(&self) -> &Cells {
        &self.cells
    }
}

impl Cells {
    fn of(array: &dyn Array, column_type: ColumnType, format: Format) -> Result<Self, Failure> {
        macro_rules! values {
            ($type:ty) => {
                array.as_primitive::<$type>().values().clone()
            };
        }
        let element = ColumnType { of: column_type.of.element(), ..column_type };
        let inner = |values: &dyn Array| Column::of(values, element, format).map(Box::new);
        Ok(match array.data_type() {
            DataType::Null => Cells::Null,
            DataType::Boolean => Cells::Bool(array.as_boolean().clone()),
            DataType::Int8 => Cells::Int8(values!(Int8Type)),
            DataType::Int16 => Cells::Int16(values!(Int16Type)),
            DataType::Int32 => Cells::Int32(values!(Int32Type)),
            DataType::Int64 => Cells::Int64(values!(Int64Type)),
            DataType::UInt8 => Cells::UInt8(values!(UInt8Type)),
            DataType::UInt16 => Cells::UInt16(values!(UInt16Type)),
            DataType::UInt32 => Cells::UInt32(values!(UInt32Type)),
            DataType::UInt64 => Cells::UInt64(values!(UInt64Type)),
            DataType::Float16 => {
                Cells::Float32(values!(Float16Type).iter().map(|value| value.to_f32()).collect())
            }
            DataType::Float32 => Cells::Float32(values!(Float32Type)),
            DataType::Float64 => Cells::Float64(values!(Float64Type)),
            DataType::Decimal32(..) => Cells::Decimal32(array.as_primitive().clone()),
            DataType::Decimal64(..) => Cells::Decimal64(array.as_primitive().clone()),
            DataType::Decimal128(..) => Cells::Decimal128(array.as_primitive().clone()),
            DataType::Decimal256(..) => Cells::Decimal256(array.as_primitive().clone()),
            DataType::Utf8 => Cells::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Cells::LargeText(array.as_string().clone()),
            DataType::Utf8View => Cells::TextView(array.as_string_view().clone()),
            DataType::Binary => Cells::Bytes(array.as_binary().clone()),
            DataType::LargeBinary => Cells::LargeBytes(array.as_binary().clone()),
            DataType::BinaryView => Cells::BytesView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Cells::FixedBytes(array.as_fixed_size_binary().clone()),
            DataType::Date32 => Cells::Date(values!(Date32Type)),
            DataType::Date64 => Cells::LongDate(values!(Date64Type)),
            DataType::Time32(TimeUnit::Second) => Cells::Time32(values!(Time32SecondType), TimeUnit::Second),
            DataType::Time32(unit) => Cells::Time32(values!(Time32MillisecondType), *unit),
            DataType::Time64(TimeUnit::Microsecond) => {
                Cells::Time64(values!(Time64MicrosecondType), TimeUnit::Microsecond)
            }
            DataType::Time64(unit) => Cells::Time64(values!(Time64NanosecondType), *unit),
            DataType::Timestamp(unit, _) => {
                let values = match unit {
                    TimeUnit::Second => values!(TimestampSecondType),
                    TimeUnit::Millisecond => values!(TimestampMillisecondType),
                    TimeUnit::Microsecond => values!(TimestampMicrosecondType),
                    TimeUnit::Nanosecond => values!(TimestampNanosecondType),
                };
                Cells::Timestamp(values, *unit)
            }
            DataType::Duration(unit) => {
                let values = match unit {
                    TimeUnit::Second => values!(DurationSecondType),
                    TimeUnit::Millisecond => values!(DurationMillisecondType),
                    TimeUnit::Microsecond => values!(DurationMicrosecondType),
                    TimeUnit::Nanosecond => values!(DurationNanosecondType),
                };
                Cells::Duration(values, *unit)
            }
            DataType::Interval(IntervalUnit::YearMonth) => Cells::Months(values!(IntervalYearMonthType)),
            DataType::Interval(IntervalUnit::DayTime) => Cells::DaysAndTime(array.as_primitive().clone()),
            DataType::Interval(IntervalUnit::MonthDayNano) => Cells::Span(array.as_primitive().clone()),
            DataType::Dictionary(keys, _) => {
                let values = inner(array.as_any_dictionary().values())?;
                macro_rules! keys {
                    ($($name:ident: $type:ty),*) => {
                        match keys.as_ref() {
                            $(DataType::$name => {
                                Keys::$name(array.as_dictionary::<$type>().keys().values().clone())
                            })*
                            other => return Err(Failure::unsupported(format!("dictionaries with keys of {other}"))),
                        }
                    };
                }
                let keys = keys!(
                    Int8: Int8Type, Int16: Int16Type, Int32: Int32Type, Int64: Int64Type,
                    UInt8: UInt8Type, UInt16: UInt16Type, UInt32: UInt32Type, UInt64: UInt64Type
                );
                Cells::Dictionary(keys, values)
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Cells::List(Ends::Offsets(list.offsets().inner().clone()), inner(list.values())?)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Cells::List(Ends::LongOffsets(list.offsets().inner().clone()), inner(list.values())?)
            }
            DataType::FixedSizeList(_, length) => {
                let list = array.as_fixed_size_list();
                Cells::List(Ends::Equal(usize::try_from(*length).unwrap_or(0)), inner(list.values())?)
            }
            other => {
                return Err(Failure::unsupported(format!("PostgreSQL's protocol has no type for {other}")));
            }
        })
    }
}
