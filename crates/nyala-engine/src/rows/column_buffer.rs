//! Column buffers: decoded values by physical kind, with the validity of every cell.
//!
//! A cell is a value, NULL or absent. The difference matters until all sources of a row are merged: a newer NULL hides
//! an older value, a newer absent cell does not. All types of up to 64 bits are kept as words, so that merging and
//! memtables know three kinds instead of fourteen types.

use crate::rows::byte_vec::ByteVec;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use nyala_core::store::{CellColumn, Comparison};
use nyala_core::{ColumnType, Error, Result, Value};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// The cell holds a value.
pub(crate) const VALUE: u8 = 0;
/// The cell was set to NULL.
pub(crate) const NULL: u8 = 1;
/// The write did not name the column.
pub(crate) const ABSENT: u8 = 2;

/// How values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In 64 bits: integers sign-extended, floats and booleans by their bits.
    Word,
    /// In 128 bits.
    Wide,
    /// As bytes.
    Bytes,
}

impl Kind {
    pub(crate) fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Decimal { .. } => Kind::Wide,
            ColumnType::String | ColumnType::Binary => Kind::Bytes,
            _ => Kind::Word,
        }
    }
}

/// Values of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    Word(Vec<u64>),
    Wide(Vec<i128>),
    Bytes(ByteVec),
}

/// A decoded column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) values: Values,
    /// [`VALUE`], [`NULL`] or [`ABSENT`] per cell; `None` when all are values.
    pub(crate) validity: Option<Vec<u8>>,
}

impl Column {
    /// An empty column of the same kind.
    pub(crate) fn same_kind(&self) -> Self {
        Self::new(match &self.values {
            Values::Word(_) => Kind::Word,
            Values::Wide(_) => Kind::Wide,
            Values::Bytes(_) => Kind::Bytes,
        })
    }

    pub(crate) fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Word => Values::Word(Vec::new()),
            Kind::Wide => Values::Wide(Vec::new()),
            Kind::Bytes => Values::Bytes(ByteVec::new()),
        };
        Self { values, validity: None }
    }

    /// A column of words that are all values.
    pub(crate) fn words(words: Vec<u64>) -> Self {
        Self { values: Values::Word(words), validity: None }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.values {
            Values::Word(words) => words.len(),
            Values::Wide(wides) => wides.len(),
            Values::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn state(&self, row: usize) -> u8 {
        self.validity.as_ref().map_or(VALUE, |validity| validity[row])
    }

    pub(crate) fn all_values(&self) -> bool {
        self.validity.as_ref().is_none_or(|validity| validity.iter().all(|state| *state == VALUE))
    }

    /// Bytes of the strings of some rows; 0 in a column of another kind.
    pub(crate) fn string_bytes(&self, rows: Range<usize>) -> usize {
        match &self.values {
            Values::Bytes(strings) => strings.bytes_of(rows),
            Values::Word(_) | Values::Wide(_) => 0,
        }
    }

    /// Makes room for bytes of more strings.
    pub(crate) fn reserve_string_bytes(&mut self, bytes: usize) {
        if let Values::Bytes(strings) = &mut self.values {
            strings.data.reserve(bytes);
        }
    }

    fn validity_mut(&mut self) -> &mut Vec<u8> {
        let rows = self.len();
        self.validity.get_or_insert_with(|| vec![VALUE; rows])
    }

    /// Appends a value of a word column.
    pub(crate) fn push_word(&mut self, word: u64) {
        if let Some(validity) = &mut self.validity {
            validity.push(VALUE);
        }
        match &mut self.values {
            Values::Word(words) => words.push(word),
            _ => unreachable!("not a column of words"),
        }
    }

    /// Appends values of a word column.
    pub(crate) fn extend_words(&mut self, added: impl ExactSizeIterator<Item = u64>) {
        if let Some(validity) = &mut self.validity {
            validity.resize(validity.len() + added.len(), VALUE);
        }
        match &mut self.values {
            Values::Word(words) => words.extend(added),
            _ => unreachable!("not a column of words"),
        }
    }

    /// Makes room for rows, except for the bytes of strings.
    pub(crate) fn reserve(&mut self, rows: usize) {
        match &mut self.values {
            Values::Word(words) => words.reserve(rows),
            Values::Wide(wides) => wides.reserve(rows),
            Values::Bytes(bytes) => bytes.ends.reserve(rows),
        }
    }

    /// Forgets all rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Word(words) => words.truncate(rows),
            Values::Wide(wides) => wides.truncate(rows),
            Values::Bytes(bytes) => {
                bytes.ends.truncate(rows);
                bytes.data.truncate(bytes.ends.last().map_or(0, |end| *end as usize));
            }
        }
        if let Some(validity) = &mut self.validity {
            validity.truncate(rows);
        }
    }

    /// Appends a value of a wide column.
    pub(crate) fn push_wide(&mut self, wide: i128) {
        if let Some(validity) = &mut self.validity {
            validity.push(VALUE);
        }
        match &mut self.values {
            Values::Wide(wides) => wides.push(wide),
            _ => unreachable!("not a wide column"),
        }
    }

    /// Appends a value of a column of bytes.
    pub(crate) fn push_bytes(&mut self, value: &[u8]) {
        if let Some(validity) = &mut self.validity {
            validity.push(VALUE);
        }
        match &mut self.values {
            Values::Bytes(bytes) => bytes.push(value),
            _ => unreachable!("not a column of bytes"),
        }
    }

    /// Appends cells without a value.
    pub(crate) fn push_state(&mut self, state: u8, count: usize) {
        if count == 0 {
            return;
        }
        let rows = self.len() + count;
        self.validity_mut().resize(rows, state);
        match &mut self.values {
            Values::Word(words) => {
                // The last value again costs encoders least.
                let last = words.last().copied().unwrap_or(0);
                words.resize(rows, last);
            }
            Values::Wide(wides) => wides.resize(rows, 0),
            Values::Bytes(bytes) => {
                let end = bytes.data.len() as u32;
                bytes.ends.resize(rows, end);
            }
        }
    }

    /// Appends rows of another column of the same kind.
    pub(crate) fn extend(&mut self, other: &Self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        match (&mut self.validity, &other.validity) {
            (None, None) => {}
            (Some(validity), None) => validity.resize(validity.len() + rows.len(), VALUE),
            (_, Some(theirs)) => {
                let theirs = &theirs[rows.clone()];
                if self.validity.is_some() || theirs.iter().any(|state| *state != VALUE) {
                    self.validity_mut().extend_from_slice(theirs);
                }
            }
        }
        match (&mut self.values, &other.values) {
            (Values::Word(mine), Values::Word(theirs)) => mine.extend_from_slice(&theirs[rows]),
            (Values::Wide(mine), Values::Wide(theirs)) => mine.extend_from_slice(&theirs[rows]),
            (Values::Bytes(mine), Values::Bytes(theirs)) => mine.extend(theirs, rows),
            _ => unreachable!("columns of different kinds"),
        }
    }

    /// Appends one cell of another column.
    pub(crate) fn push_from(&mut self, other: &Self, row: usize) {
        self.extend(other, row..row + 1);
    }

    /// The rows in the order given.
    pub(crate) fn take(&self, rows: &[u32]) -> Self {
        let values = match &self.values {
            Values::Word(words) => Values::Word(rows.iter().map(|row| words[*row as usize]).collect()),
            Values::Wide(wides) => Values::Wide(rows.iter().map(|row| wides[*row as usize]).collect()),
            Values::Bytes(bytes) => {
                let mut taken = ByteVec::new();
                rows.iter().for_each(|row| taken.push(bytes.get(*row as usize)));
                Values::Bytes(taken)
            }
        };
        let validity =
            self.validity.as_ref().map(|validity| rows.iter().map(|row| validity[*row as usize]).collect());
        Self { values, validity }
    }

    /// Puts rows in an order in which few have moved: those whose new place is listed, with their old one.
    pub(crate) fn move_rows(&mut self, moved: &[(u32, u32)], order: &[u32]) {
        match (&mut self.values, &self.validity) {
            (Values::Word(words), None) => {
                let taken: Vec<u64> = moved.iter().map(|(_, from)| words[*from as usize]).collect();
                moved.iter().zip(taken).for_each(|((to, _), word)| words[*to as usize] = word);
            }
            _ => *self = self.take(order),
        }
    }

    /// The rows in reverse.
    pub(crate) fn reversed(&self) -> Self {
        match (&self.values, &self.validity) {
            (Values::Word(words), None) => Self::words(words.iter().rev().copied().collect()),
            _ => self.take(&(0..self.len() as u32).rev().collect::<Vec<_>>()),
        }
    }

    /// The cell as a single value.
    pub(crate) fn value(&self, row: usize, column_type: ColumnType) -> Option<Value> {
        if self.state(row) != VALUE {
            return None;
        }
        Some(match &self.values {
            Values::Word(words) => word_to_value(words[row], column_type),
            Values::Wide(wides) => Value::Decimal(wides[row]),
            Values::Bytes(bytes) => bytes_to_value(bytes.get(row), column_type),
        })
    }

    /// Clears the flags of rows of which the cell does not satisfy a comparison.
    pub(crate) fn filter(&self, column_type: ColumnType, comparison: &Comparison, keep: &mut [bool]) {
        if let (Values::Word(words), true) = (&self.values, self.all_values()) {
            match comparison {
                Comparison::IsNotNull => return,
                Comparison::IsNull => return keep.fill(false),
                _ => {}
            }
            if let Some(()) = filter_words(words, column_type, comparison, keep) {
                return;
            }
        }
        if let (Values::Bytes(strings), Some(holds)) = (&self.values, bytes_test(comparison)) {
            for (row, keep) in keep.iter_mut().enumerate() {
                *keep = *keep && self.state(row) == VALUE && holds(strings.get(row));
            }
            return;
        }
        for (row, keep) in keep.iter_mut().enumerate() {
            *keep = *keep && comparison.holds(self.value(row, column_type).as_ref());
        }
    }

    /// The column as an array of its type; NULL and absent are invalid.
    pub(crate) fn into_array(self, column_type: ColumnType) -> Result<ArrayRef> {
        let rows = self.len();
        let nulls = self
            .validity
            .filter(|validity| validity.iter().any(|state| *state != VALUE))
            .map(|validity| NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| validity[row] == VALUE)));
        macro_rules! primitive {
            ($array:ident, $words:expr, $convert:expr) => {{
                let values: Vec<_> = $words.iter().map($convert).collect();
                Arc::new($array::new(ScalarBuffer::from(values), nulls)) as ArrayRef
            }};
        }
        let array = match (self.values, column_type) {
            (Values::Word(words), ColumnType::Bool) => {
                let bits = BooleanBuffer::collect_bool(rows, |row| words[row] != 0);
                Arc::new(BooleanArray::new(bits, nulls))
            }
            (Values::Word(words), ColumnType::Int8) => primitive!(Int8Array, words, |w| *w as i8),
            (Values::Word(words), ColumnType::Int16) => primitive!(Int16Array, words, |w| *w as i16),
            (Values::Word(words), ColumnType::Int32) => primitive!(Int32Array, words, |w| *w as i32),
            (Values::Word(words), ColumnType::Date) => primitive!(Date32Array, words, |w| *w as i32),
            (Values::Word(words), ColumnType::UInt32) => primitive!(UInt32Array, words, |w| *w as u32),
            (Values::Word(words), ColumnType::Float32) => {
                primitive!(Float32Array, words, |w| f32::from_bits(*w as u32))
            }
            (Values::Word(words), ColumnType::Int64) => {
                Arc::new(Int64Array::new(ScalarBuffer::from(Buffer::from_vec(words)), nulls))
            }
            (Values::Word(words), ColumnType::UInt64) => {
                Arc::new(UInt64Array::new(ScalarBuffer::from(Buffer::from_vec(words)), nulls))
            }
            (Values::Word(words), ColumnType::Float64) => {
                Arc::new(Float64Array::new(ScalarBuffer::from(Buffer::from_vec(words)), nulls))
            }
            (Values::Word(words), ColumnType::Timestamp) => {
                Arc::new(TimestampNanosecondArray::new(ScalarBuffer::from(Buffer::from_vec(words)), nulls))
            }
            (Values::Wide(wides), ColumnType::Decimal { precision, scale }) => {
                let array = Decimal128Array::new(ScalarBuffer::from(wides), nulls);
                Arc::new(array.with_precision_and_scale(precision, scale).map_err(arrow_error)?)
            }
            (Values::Bytes(bytes), ColumnType::String) => {
                let (offsets, data) = bytes.into_offsets()?;
                Arc::new(StringArray::try_new(offsets, data, nulls).map_err(arrow_error)?)
            }
            (Values::Bytes(bytes), ColumnType::Binary) => {
                let (offsets, data) = bytes.into_offsets()?;
                Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(arrow_error)?)
            }
            (_, other) => unreachable!("a {other:?} column of another kind"),
        };
        Ok(array)
    }
}

fn arrow_error(error: arrow_schema::ArrowError) -> Error {
    Error::invalid(error.to_string())
}

/// A word as a value of its type.
pub(crate) fn word_to_value(word: u64, column_type: ColumnType) -> Value {
    match column_type {
        ColumnType::Bool => Value::Bool(word != 0),
        ColumnType::UInt32 | ColumnType::UInt64 => Value::UInt(word),
        ColumnType::Float64 => Value::Float(f64::from_bits(word)),
        ColumnType::Float32 => Value::Float(f32::from_bits(word as u32).into()),
        _ => Value::Int(word as i64),
    }
}

/// Bytes as a value of their type.
pub(crate) fn bytes_to_value(bytes: &[u8], column_type: ColumnType) -> Value {
    match column_type {
        ColumnType::Binary => Value::Binary(bytes.to_vec()),
        _ => Value::String(String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn filter_words(
    words: &[u64],
    column_type: ColumnType,
    comparison: &Comparison,
    keep: &mut [bool],
) -> Option<()> {
    let (Comparison::Equal(value)
    | Comparison::NotEqual(value)
    | Comparison::Less(value)
    | Comparison::LessOrEqual(value)
    | Comparison::Greater(value)
    | Comparison::GreaterOrEqual(value)) = comparison
    else {
        return None;
    };
    macro_rules! compare {
        ($bound:expr, $convert:expr) => {{
            let bound = $bound;
            macro_rules! each {
                ($operator:tt) => {
                    keep.iter_mut().zip(words).for_each(|(keep, word)| *keep &= ($convert)(*word) $operator bound)
                };
            }
            match comparison {
                Comparison::Equal(_) => each!(==),
                Comparison::NotEqual(_) => each!(!=),
                Comparison::Less(_) => each!(<),
                Comparison::LessOrEqual(_) => each!(<=),
                Comparison::Greater(_) => each!(>),
                _ => each!(>=),
            }
            Some(())
        }};
    }
    match (column_type, value) {
        (
            ColumnType::Int8
            | ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::Date
            | ColumnType::Timestamp,
            Value::Int(bound),
        ) => compare!(*bound, |word: u64| word as i64),
        (ColumnType::UInt32 | ColumnType::UInt64, Value::UInt(bound)) => compare!(*bound, |word: u64| word),
        (ColumnType::Float64, Value::Float(bound)) => compare!(*bound, f64::from_bits),
        _ => None,
    }
}

type BytesTest<'a> = Box<dyn Fn(&[u8]) -> bool + 'a>;

/// A comparison with strings or bytes as a test of bytes: both are in the order of their bytes.
fn bytes_test(comparison: &Comparison) -> Option<BytesTest<'_>> {
    fn bytes(value: &Value) -> Option<&[u8]> {
        match value {
            Value::String(text) => Some(text.as_bytes()),
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }
    let (value, holds): (&Value, fn(Ordering) -> bool) = match comparison {
        Comparison::Equal(value) => (value, Ordering::is_eq),
        Comparison::NotEqual(value) => (value, Ordering::is_ne),
        Comparison::Less(value) => (value, Ordering::is_lt),
        Comparison::LessOrEqual(value) => (value, Ordering::is_le),
        Comparison::Greater(value) => (value, Ordering::is_gt),
        Comparison::GreaterOrEqual(value) => (value, Ordering::is_ge),
        Comparison::In(values) => {
            let values: Vec<&[u8]> = values.iter().map(bytes).collect::<Option<_>>()?;
            return Some(Box::new(move |cell| values.contains(&cell)));
        }
        Comparison::IsNull | Comparison::IsNotNull => return None,
    };
    let value = bytes(value)?;
    Some(Box::new(move |cell| holds(cell.cmp(value))))
}

/// The cells of a written column, to be read one by one as words, wides or bytes.
pub(crate) enum CellSource<'a> {
    Bool(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal(&'a [i128]),
    String(&'a StringArray),
    Binary(&'a BinaryArray),
}

impl<'a> CellSource<'a> {
    /// The cells of an array; its type was checked against the schema.
    pub(crate) fn of(array: &'a ArrayRef, column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Bool => CellSource::Bool(array.as_boolean()),
            ColumnType::Int8 => CellSource::Int8(array.as_primitive::<Int8Type>().values()),
            ColumnType::Int16 => CellSource::Int16(array.as_primitive::<Int16Type>().values()),
            ColumnType::Int32 => CellSource::Int32(array.as_primitive::<Int32Type>().values()),
            ColumnType::Date => CellSource::Int32(array.as_primitive::<Date32Type>().values()),
            ColumnType::Int64 => CellSource::Int64(array.as_primitive::<Int64Type>().values()),
            ColumnType::Timestamp => {
                CellSource::Int64(array.as_primitive::<TimestampNanosecondType>().values())
            }
            ColumnType::UInt32 => CellSource::UInt32(array.as_primitive::<UInt32Type>().values()),
            ColumnType::UInt64 => CellSource::UInt64(array.as_primitive::<UInt64Type>().values()),
            ColumnType::Float32 => CellSource::Float32(array.as_primitive::<Float32Type>().values()),
            ColumnType::Float64 => CellSource::Float64(array.as_primitive::<Float64Type>().values()),
            ColumnType::Decimal { .. } => {
                CellSource::Decimal(array.as_primitive::<Decimal128Type>().values())
            }
            ColumnType::String => CellSource::String(array.as_string()),
            ColumnType::Binary => CellSource::Binary(array.as_binary()),
        }
    }

    /// The cells as the words they are kept as, if they already lie so in the array.
    pub(crate) fn words_of(array: &'a ArrayRef, column_type: ColumnType) -> Option<&'a [u64]> {
        let values = match column_type {
            ColumnType::Int64 => array.as_primitive::<Int64Type>().values().inner(),
            ColumnType::Timestamp => array.as_primitive::<TimestampNanosecondType>().values().inner(),
            ColumnType::UInt64 => array.as_primitive::<UInt64Type>().values().inner(),
            ColumnType::Float64 => array.as_primitive::<Float64Type>().values().inner(),
            _ => return None,
        };
        Some(values.typed_data())
    }

    /// The kind of its values.
    #[inline(always)]
    pub(crate) fn kind(&self) -> Kind {
        match self {
            CellSource::Decimal(_) => Kind::Wide,
            CellSource::String(_) | CellSource::Binary(_) => Kind::Bytes,
            _ => Kind::Word,
        }
    }

    /// The cell as a word.
    #[inline(always)]
    pub(crate) fn word(&self, row: usize) -> u64 {
        match self {
            CellSource::Int64(values) => values[row] as u64,
            CellSource::Float64(values) => values[row].to_bits(),
            CellSource::Bool(values) => values.value(row).into(),
            CellSource::Int8(values) => values[row] as i64 as u64,
            CellSource::Int16(values) => values[row] as i64 as u64,
            CellSource::Int32(values) => values[row] as i64 as u64,
            CellSource::UInt32(values) => values[row].into(),
            CellSource::UInt64(values) => values[row],
            CellSource::Float32(values) => values[row].to_bits().into(),
            CellSource::Decimal(_) | CellSource::String(_) | CellSource::Binary(_) => {
                unreachable!("not a word")
            }
        }
    }

    /// The cell as 128 bits.
    pub(crate) fn wide(&self, row: usize) -> i128 {
        match self {
            CellSource::Decimal(values) => values[row],
            _ => unreachable!("not wide"),
        }
    }

    /// The cell as bytes.
    pub(crate) fn bytes(&self, row: usize) -> &'a [u8] {
        match self {
            CellSource::String(values) => values.value(row).as_bytes(),
            CellSource::Binary(values) => values.value(row),
            _ => unreachable!("not bytes"),
        }
    }
}

/// The state of a written cell.
pub(crate) fn written_state(cells: &CellColumn, row: usize) -> u8 {
    if cells.values.is_valid(row) {
        VALUE
    } else if cells.null_cells.as_ref().is_some_and(|nulls| nulls.value(row)) {
        NULL
    } else {
        ABSENT
    }
}
