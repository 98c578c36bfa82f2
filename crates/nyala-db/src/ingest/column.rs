//! Columns of field values, as a batch collects them. They are flat vectors in Arrow's layout (bitmaps with the least
//! significant bit first, string offsets `i32`), so that they become arrays without a copy.
//!
//! While a group is filled, a column may be shorter than the group: the rows after its end lack the field. The column
//! is padded when its next value comes, or at the end, and then has a presence bitmap. A column without a bitmap has a
//! value in every row.

/// Type of a field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldKind {
    /// 64-bit float.
    Float,
    /// Signed 64-bit integer (suffix `i`).
    Integer,
    /// Unsigned 64-bit integer (suffix `u`).
    Unsigned,
    /// Boolean.
    Boolean,
    /// Bytes in double quotes. They need not be UTF-8.
    String,
}

impl FieldKind {
    /// Name in InfluxDB's messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned",
            Self::Boolean => "boolean",
            Self::String => "string",
        }
    }
}

/// Bits. The first is the lowest bit of the first word. Bits after the end are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bit at `index`.
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Number of bits set.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The words, to make an Arrow buffer of them.
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    pub(super) fn push(&mut self, bit: bool) {
        let offset = self.len % 64;
        if offset == 0 {
            self.words.push(u64::from(bit));
        } else if let Some(last) = self.words.last_mut() {
            *last |= u64::from(bit) << offset;
        }
        self.len += 1;
    }

    fn pop(&mut self) {
        self.len -= 1;
        let offset = self.len % 64;
        if offset == 0 {
            self.words.pop();
        } else {
            self.words[self.len / 64] &= !(1 << offset);
        }
    }

    fn extend(&mut self, bit: bool, count: usize) {
        let end = self.len + count;
        if bit {
            while self.len < end {
                self.push(true);
            }
        } else {
            self.words.resize(end.div_ceil(64), 0);
            self.len = end;
        }
    }

    fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }
}

/// Byte strings, one after the other: string `n` is `bytes[offsets[n]..offsets[n + 1]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    /// One element more than there are strings. The first is 0.
    pub offsets: Vec<i32>,
    /// All strings.
    pub bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Strings {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Ends the string whose bytes were appended to `bytes`.
    #[inline]
    pub(super) fn end_string(&mut self) {
        // A body is shorter than 2 GiB (`LineRequest::new`) and unescaping never makes it longer.
        self.offsets.push(i32::try_from(self.bytes.len()).expect("strings of a body below 2 GiB"));
    }

    fn pop(&mut self) {
        self.offsets.pop();
        self.bytes.truncate(self.offsets[self.len()] as usize);
    }
}

/// The values of one column. A row without the field has a zero, `false` or an empty string.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValues {
    /// Floats, always finite.
    Float(Vec<f64>),
    /// Signed integers.
    Integer(Vec<i64>),
    /// Unsigned integers.
    Unsigned(Vec<u64>),
    /// Booleans.
    Boolean(Bitmap),
    /// Strings.
    String(Strings),
}

impl FieldValues {
    pub(super) fn new(kind: FieldKind) -> Self {
        match kind {
            FieldKind::Float => Self::Float(Vec::new()),
            FieldKind::Integer => Self::Integer(Vec::new()),
            FieldKind::Unsigned => Self::Unsigned(Vec::new()),
            FieldKind::Boolean => Self::Boolean(Bitmap::default()),
            FieldKind::String => Self::String(Strings::default()),
        }
    }

    /// Type of the values.
    pub fn kind(&self) -> FieldKind {
        match self {
            Self::Float(_) => FieldKind::Float,
            Self::Integer(_) => FieldKind::Integer,
            Self::Unsigned(_) => FieldKind::Unsigned,
            Self::Boolean(_) => FieldKind::Boolean,
            Self::String(_) => FieldKind::String,
        }
    }

    /// Number of values.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Boolean(values) => values.len(),
            Self::String(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn extend_default(&mut self, count: usize) {
        match self {
            Self::Float(values) => values.resize(values.len() + count, 0.0),
            Self::Integer(values) => values.resize(values.len() + count, 0),
            Self::Unsigned(values) => values.resize(values.len() + count, 0),
            Self::Boolean(values) => values.extend(false, count),
            Self::String(values) => {
                let end = values.offsets[values.len()];
                values.offsets.resize(values.offsets.len() + count, end);
            }
        }
    }

    fn pop(&mut self) {
        match self {
            Self::Float(values) => drop(values.pop()),
            Self::Integer(values) => drop(values.pop()),
            Self::Unsigned(values) => drop(values.pop()),
            Self::Boolean(values) => values.pop(),
            Self::String(values) => values.pop(),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Float(values) => values.clear(),
            Self::Integer(values) => values.clear(),
            Self::Unsigned(values) => values.clear(),
            Self::Boolean(values) => values.clear(),
            Self::String(values) => {
                values.offsets.clear();
                values.offsets.push(0);
                values.bytes.clear();
            }
        }
    }
}

/// A value that is being added to a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldValue<'a> {
    Float(f64),
    Integer(i64),
    Unsigned(u64),
    Boolean(bool),
    /// The bytes between the quotes, still escaped.
    String(&'a [u8]),
}

impl FieldValue<'_> {
    pub(super) fn kind(self) -> FieldKind {
        match self {
            Self::Float(_) => FieldKind::Float,
            Self::Integer(_) => FieldKind::Integer,
            Self::Unsigned(_) => FieldKind::Unsigned,
            Self::Boolean(_) => FieldKind::Boolean,
            Self::String(_) => FieldKind::String,
        }
    }
}

/// All values of one field of one type within a group.
#[derive(Clone, Debug)]
pub struct FieldColumn {
    name: Box<[u8]>,
    pub(super) values: FieldValues,
    presence: Option<Bitmap>,
}

impl FieldColumn {
    pub(super) fn new(name: &[u8], kind: FieldKind) -> Self {
        Self { name: name.into(), values: FieldValues::new(kind), presence: None }
    }

    /// Name of the field, unescaped. It need not be UTF-8.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Type of the field.
    pub fn kind(&self) -> FieldKind {
        self.values.kind()
    }

    /// The values, one for each row of the group.
    pub fn values(&self) -> &FieldValues {
        &self.values
    }

    /// Which rows have the field; `None` means all.
    pub fn presence(&self) -> Option<&Bitmap> {
        self.presence.as_ref()
    }

    /// Whether `row` has the field.
    pub fn is_present(&self, row: usize) -> bool {
        self.presence.as_ref().is_none_or(|presence| presence.get(row))
    }

    /// Moves values and presence out, so that they are passed on without a copy.
    pub fn take(&mut self) -> (FieldValues, Option<Bitmap>) {
        let empty = FieldValues::new(self.kind());
        (std::mem::replace(&mut self.values, empty), self.presence.take())
    }

    /// Takes back values that were moved out, to reuse their memory.
    pub fn give_back(&mut self, mut values: FieldValues) {
        if values.kind() == self.kind() && self.values.is_empty() {
            values.clear();
            self.values = values;
        }
    }

    /// Pads up to `rows` with absent rows.
    pub(super) fn catch_up(&mut self, rows: usize) {
        let len = self.values.len();
        if len < rows {
            let presence = self.presence.get_or_insert_default();
            presence.extend(true, len - presence.len());
            presence.extend(false, rows - len);
            self.values.extend_default(rows - len);
        }
    }

    /// Whether adding a value for `row` needs the slow path: the column is too short, has a presence bitmap, or already
    /// has the row.
    #[inline(always)]
    pub(super) fn needs_care(&self, row: usize) -> bool {
        self.presence.is_some() || self.values.len() != row
    }

    /// Records that a value was added, if presence is recorded.
    #[inline]
    pub(super) fn mark_present(&mut self) {
        if let Some(presence) = &mut self.presence {
            presence.push(true);
        }
    }

    /// Records that values were added for so many rows, if presence is recorded.
    pub(super) fn mark_present_rows(&mut self, rows: usize) {
        if let Some(presence) = &mut self.presence {
            presence.extend(true, rows);
        }
    }

    /// Removes the last value.
    pub(super) fn pop(&mut self) {
        self.values.pop();
        if let Some(presence) = &mut self.presence {
            presence.pop();
        }
    }

    /// Sets the value of `row`. It is the next row, or the last one if a line names a field twice.
    pub(super) fn set(&mut self, row: usize, value: FieldValue<'_>) {
        if self.values.len() > row {
            self.pop();
        }
        self.catch_up(row);
        match (&mut self.values, value) {
            (FieldValues::Float(values), FieldValue::Float(value)) => values.push(value),
            (FieldValues::Integer(values), FieldValue::Integer(value)) => values.push(value),
            (FieldValues::Unsigned(values), FieldValue::Unsigned(value)) => values.push(value),
            (FieldValues::Boolean(values), FieldValue::Boolean(value)) => values.push(value),
            (FieldValues::String(values), FieldValue::String(value)) => {
                unescape_string(value, &mut values.bytes);
                values.end_string();
            }
            (values, value) => panic!("a {:?} for a column of {:?}", value.kind(), values.kind()),
        }
        self.mark_present();
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            FieldValues::Float(values) => values.capacity() * 8,
            FieldValues::Integer(values) => values.capacity() * 8,
            FieldValues::Unsigned(values) => values.capacity() * 8,
            FieldValues::Boolean(values) => values.words.capacity() * 8,
            FieldValues::String(values) => values.offsets.capacity() * 4 + values.bytes.capacity(),
        };
        let presence = self.presence.as_ref().map_or(0, |presence| presence.words.capacity() * 8);
        size_of::<Self>() + self.name.len() + values + presence
    }

    /// Removes all rows. Keeps name, type and memory.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.presence = None;
    }
}

/// Appends the content of a quoted string. Only `\"` and `\\` are escapes.
pub(super) fn unescape_string(escaped: &[u8], into: &mut Vec<u8>) {
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        match rest.get(at + 1) {
            Some(byte @ (b'"' | b'\\')) => {
                into.extend_from_slice(&rest[..at]);
                into.push(*byte);
                rest = &rest[at + 2..];
            }
            _ => {
                into.extend_from_slice(&rest[..=at]);
                rest = &rest[at + 1..];
            }
        }
    }
    into.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_column_gets_a_bitmap_when_it_is_padded() {
        let mut column = FieldColumn::new(b"a", FieldKind::Integer);
        column.set(0, FieldValue::Integer(1));
        column.set(1, FieldValue::Integer(2));
        assert!(column.presence().is_none());
        column.set(70, FieldValue::Integer(3));
        column.catch_up(72);
        let present: Vec<usize> = (0..72).filter(|row| column.is_present(*row)).collect();
        assert_eq!(present, [0, 1, 70]);
        assert_eq!(column.values().len(), 72);
        assert_eq!(column.presence().map(Bitmap::count_ones), Some(3));
    }

    #[test]
    fn the_later_of_two_values_in_a_line_wins() {
        let mut column = FieldColumn::new(b"a", FieldKind::String);
        column.set(2, FieldValue::String(b"first"));
        column.set(2, FieldValue::String(br#"say \"hi\" \\ \n"#));
        let FieldValues::String(strings) = column.values() else { panic!("strings") };
        assert_eq!(strings.len(), 3);
        assert_eq!(strings.get(1), b"");
        assert_eq!(strings.get(2), br#"say "hi" \ \n"#);
        assert!(!column.is_present(1) && column.is_present(2));
    }

    #[test]
    fn removing_the_last_value_leaves_no_trace() {
        for kind in
            [FieldKind::Float, FieldKind::Integer, FieldKind::Unsigned, FieldKind::Boolean, FieldKind::String]
        {
            let value = match kind {
                FieldKind::Float => FieldValue::Float(1.5),
                FieldKind::Integer => FieldValue::Integer(-1),
                FieldKind::Unsigned => FieldValue::Unsigned(1),
                FieldKind::Boolean => FieldValue::Boolean(true),
                FieldKind::String => FieldValue::String(b"x"),
            };
            let mut column = FieldColumn::new(b"a", kind);
            for row in 0..130 {
                column.set(row * 2, value);
            }
            let before = column.clone();
            column.set(259, value);
            column.pop();
            assert_eq!(column.values, before.values);
            assert_eq!(column.presence, before.presence);
        }
    }
}
