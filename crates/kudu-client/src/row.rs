//! Row operations, and their form on the wire.
//!
//! An operation is packed without alignment:
//!
//! ```text
//! u8       operation
//! bitmap   columns that are set, least significant bit first
//! bitmap   columns that are NULL; only if any column of the schema is nullable
//! cells    of the columns that are set and not NULL, in schema order; text and bytes as
//!          u64 offset and u64 length into the indirect data
//! ```

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::value::{Cell, Value};

/// What a row operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Adds a row; an existing key is an error.
    Insert = 1,
    /// Changes the columns that are set; a missing key is an error.
    Update = 2,
    /// Removes a row (only key columns are set); a missing key is an error.
    Delete = 3,
    /// Adds a row, or changes the columns that are set.
    Upsert = 5,
    /// Adds a row; an existing key is ignored.
    InsertIgnore = 10,
    /// Changes a row; a missing key is ignored.
    UpdateIgnore = 11,
    /// Removes a row; a missing key is ignored.
    DeleteIgnore = 12,
    /// As upsert; changes to immutable columns are ignored.
    UpsertIgnore = 13,
}

impl Operation {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        use Operation::*;
        let all = [Insert, Update, Delete, Upsert, InsertIgnore, UpdateIgnore, DeleteIgnore, UpsertIgnore];
        all.into_iter().find(|operation| operation.code() == code)
    }

    fn adds_rows(self) -> bool {
        matches!(self, Self::Insert | Self::InsertIgnore | Self::Upsert | Self::UpsertIgnore)
    }

    fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteIgnore)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellState {
    Unset,
    Null,
    Value { start: u32, length: u32 },
}

/// One row operation, made by [`Table::row`](crate::Table::row).
///
/// Columns left unset keep their value (updates, upserts of existing rows) or take their default.
#[derive(Clone, Debug)]
pub struct Row {
    schema: Arc<Schema>,
    operation: Operation,
    cells: Vec<CellState>,
    bytes: Vec<u8>,
}

impl Row {
    pub(crate) fn new(schema: Arc<Schema>, operation: Operation) -> Self {
        let cells = vec![CellState::Unset; schema.columns().len()];
        Self { schema, operation, cells, bytes: Vec::with_capacity(64) }
    }

    /// What it does.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The columns of its table.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Sets a column by name.
    ///
    /// # Errors
    /// When there is no such column or the value does not fit it.
    pub fn set<'a>(&mut self, column: &str, value: impl Into<Cell<'a>>) -> Result<&mut Self> {
        let index = self.schema.find(column)?;
        self.set_at(index, value)
    }

    /// Sets a column by its index, which is faster than by name.
    ///
    /// # Errors
    /// When there is no such column or the value does not fit it.
    pub fn set_at<'a>(&mut self, index: usize, value: impl Into<Cell<'a>>) -> Result<&mut Self> {
        let Some(column) = self.schema.columns().get(index) else {
            return Err(Error::invalid(format!("there is no column {index}")));
        };
        let state = match value.into() {
            Cell::Null if column.is_nullable => CellState::Null,
            Cell::Null => return Err(Error::invalid(format!("column {:?} cannot be NULL", column.name))),
            value => {
                let cell = value
                    .to_bytes(column.data_type)
                    .map_err(|error| error.context(&format!("column {:?}", column.name)))?;
                let cell = cell.as_slice();
                match self.cells[index] {
                    CellState::Value { start, length } if length as usize == cell.len() => {
                        self.bytes[start as usize..][..cell.len()].copy_from_slice(cell);
                        CellState::Value { start, length }
                    }
                    replaced => {
                        if replaced != CellState::Unset {
                            self.cells[index] = CellState::Unset;
                            self.drop_replaced_bytes();
                        }
                        let start = u32::try_from(self.bytes.len());
                        let start =
                            start.map_err(|_| Error::new(crate::ErrorKind::Limit, "a row beyond 4 GiB"))?;
                        self.bytes.extend_from_slice(cell);
                        CellState::Value { start, length: cell.len() as u32 }
                    }
                }
            }
        };
        self.cells[index] = state;
        Ok(self)
    }

    /// Unsets all columns, so that the row can be filled again without allocating.
    pub fn clear(&mut self) {
        self.cells.fill(CellState::Unset);
        self.bytes.clear();
    }

    /// A value that is replaced by a longer or shorter one leaves a hole. A row that is set again and again must not
    /// grow because of them.
    fn drop_replaced_bytes(&mut self) {
        // So few bytes are not worth packing.
        const FEW_BYTES: usize = 1024;
        let lengths = self.cells.iter().map(|state| match state {
            CellState::Value { length, .. } => *length as usize,
            CellState::Unset | CellState::Null => 0,
        });
        let live: usize = lengths.sum();
        if self.bytes.len() < FEW_BYTES.max(4 * live) {
            return;
        }
        let mut packed = Vec::with_capacity(live);
        for state in &mut self.cells {
            if let CellState::Value { start, length } = state {
                let from = *start as usize;
                *start = packed.len() as u32;
                packed.extend_from_slice(&self.bytes[from..from + *length as usize]);
            }
        }
        self.bytes = packed;
    }

    /// The value of a column; `None` if it is not set.
    pub fn get(&self, column: &str) -> Option<Value> {
        let index = self.schema.index_of(column)?;
        match self.cells[index] {
            CellState::Unset => None,
            CellState::Null => Some(Value::Null),
            CellState::Value { .. } => {
                Value::from_bytes(self.schema.columns()[index].data_type, self.cell(index)?).ok()
            }
        }
    }

    /// Refuses what would make the servers refuse the whole batch, so that only this row fails.
    pub(crate) fn check(&self) -> Result<()> {
        let operation = self.operation;
        let mut sets_values = false;
        for (column, state) in self.schema.columns().iter().zip(&self.cells) {
            let is_set = *state != CellState::Unset;
            if column.is_auto_incrementing {
                // The server assigns the value of an inserted row; any other operation names it.
                let must_not_set = matches!(operation, Operation::Insert | Operation::InsertIgnore);
                if is_set == must_not_set {
                    return Err(Error::invalid(format!(
                        "{operation:?} {} the auto-incrementing column {:?}",
                        if is_set { "must not set" } else { "must set" },
                        column.name
                    )));
                }
            } else if column.is_key {
                if !is_set {
                    return Err(Error::invalid(format!("the key column {:?} is not set", column.name)));
                }
            } else {
                if is_set && operation.is_delete() {
                    return Err(Error::invalid(format!(
                        "{operation:?} sets {:?}, which is no key",
                        column.name
                    )));
                }
                let must_be_set = !column.is_nullable && column.default_value.is_none();
                if !is_set && operation.adds_rows() && must_be_set {
                    return Err(Error::invalid(format!(
                        "{:?} is NOT NULL, has no default and is not set",
                        column.name
                    )));
                }
                sets_values |= is_set;
            }
        }
        if matches!(operation, Operation::Update | Operation::UpdateIgnore) && !sets_values {
            return Err(Error::invalid("an update that sets no column"));
        }
        Ok(())
    }

    pub(crate) fn encode_into(&self, batch: &mut EncodedRows) {
        self.encode_as(self.operation.code(), batch);
    }

    /// Appends the row under an operation code, which for partition bounds is none of [`Operation`].
    pub(crate) fn encode_as(&self, code: u8, batch: &mut EncodedRows) {
        let rows = &mut batch.rows;
        rows.push(code);
        let bitmap_len = self.cells.len().div_ceil(8);
        let set_at = rows.len();
        let bitmaps = if self.schema.has_nullable { 2 } else { 1 };
        rows.resize(set_at + bitmap_len * bitmaps, 0);
        for (index, (state, column)) in self.cells.iter().zip(self.schema.columns()).enumerate() {
            let bit = 1 << (index % 8);
            match *state {
                CellState::Unset => continue,
                CellState::Null => rows[set_at + bitmap_len + index / 8] |= bit,
                CellState::Value { start, length } => {
                    let cell = &self.bytes[start as usize..][..length as usize];
                    if column.data_type.fixed_bytes().is_some() {
                        rows.extend_from_slice(cell);
                    } else {
                        rows.extend_from_slice(&(batch.indirect.len() as u64).to_le_bytes());
                        rows.extend_from_slice(&u64::from(length).to_le_bytes());
                        batch.indirect.extend_from_slice(cell);
                    }
                }
            }
            rows[set_at + index / 8] |= bit;
        }
        batch.count += 1;
    }

    /// An upper bound of the bytes that the row adds to a batch.
    pub(crate) fn encoded_bytes(&self) -> usize {
        1 + 2 * self.cells.len().div_ceil(8) + 16 * self.cells.len() + self.bytes.len()
    }

    /// The bytes of a cell; `None` when it is not set or NULL.
    pub(crate) fn cell(&self, column: usize) -> Option<&[u8]> {
        match self.cells[column] {
            CellState::Value { start, length } => Some(&self.bytes[start as usize..][..length as usize]),
            CellState::Unset | CellState::Null => None,
        }
    }
}

/// Row operations in wire form.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedRows {
    pub(crate) rows: Vec<u8>,
    pub(crate) indirect: Vec<u8>,
    pub(crate) count: usize,
}

impl EncodedRows {
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() + self.indirect.len()
    }
}

/// Reads row operations in wire form: failed rows, rows to send to other tablets, and bounds that a master sent.
#[derive(Debug)]
pub(crate) struct RowReader<'a> {
    schema: &'a Arc<Schema>,
    rows: &'a [u8],
    indirect: &'a [u8],
}

impl<'a> RowReader<'a> {
    pub(crate) fn new(schema: &'a Arc<Schema>, rows: &'a [u8], indirect: &'a [u8]) -> Self {
        Self { schema, rows, indirect }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self
            .rows
            .split_at_checked(length)
            .ok_or_else(|| Error::protocol("row operations end in the middle of a row"))?;
        self.rows = rest;
        Ok(head)
    }

    /// The next row and its operation code.
    pub(crate) fn next_row(&mut self) -> Result<Option<(u8, Row)>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let code = self.take(1)?[0];
        let columns = self.schema.columns();
        let bitmap_len = columns.len().div_ceil(8);
        let set = self.take(bitmap_len)?;
        let null = if self.schema.has_nullable { self.take(bitmap_len)? } else { &[] };
        let mut row = Row::new(self.schema.clone(), Operation::from_code(code).unwrap_or(Operation::Insert));
        for (index, column) in columns.iter().enumerate() {
            let has = |bitmap: &[u8]| bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            if !has(set) {
                continue;
            }
            if has(null) {
                row.cells[index] = CellState::Null;
                continue;
            }
            let cell = match column.data_type.fixed_bytes() {
                Some(length) => self.take(length)?,
                None => {
                    let cell = self.take(INDIRECT_BYTES)?;
                    indirect_slice(cell, self.indirect)?
                }
            };
            let start = row.bytes.len() as u32;
            row.bytes.extend_from_slice(cell);
            row.cells[index] = CellState::Value { start, length: cell.len() as u32 };
        }
        Ok(Some((code, row)))
    }
}

/// The size of a text or binary cell: offset and length, 64 bits each.
pub(crate) const INDIRECT_BYTES: usize = 16;

/// The text or bytes that the offset and length in `cell` point to.
pub(crate) fn indirect_slice<'a>(cell: &[u8], indirect: &'a [u8]) -> Result<&'a [u8]> {
    let number = |bytes: &[u8]| {
        bytes.try_into().map(u64::from_le_bytes).ok().and_then(|value| usize::try_from(value).ok())
    };
    let range = number(&cell[..8]).zip(number(&cell[8..]));
    let slice = range.and_then(|(start, length)| indirect.get(start..)?.get(..length));
    slice.ok_or_else(|| Error::protocol("a cell lies outside the indirect data"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_type::DataType;
    use crate::schema::Column;
    use proptest::prelude::*;

    fn schema() -> Arc<Schema> {
        let columns = vec![
            Column::new("id", DataType::Int32).key(),
            Column::new("host", DataType::String).key(),
            Column::new("value", DataType::Double).nullable(),
            Column::new("note", DataType::Binary).nullable(),
        ];
        Arc::new(Schema::new(columns).unwrap())
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut row = Row::new(schema(), Operation::Upsert);
        row.set("id", 1).unwrap().set("host", "ab").unwrap().set("note", None::<&[u8]>).unwrap();
        let mut batch = EncodedRows::default();
        row.encode_into(&mut batch);
        let mut expected = vec![5, 0b1011, 0b1000, 1, 0, 0, 0];
        expected.extend([0; 8]);
        expected.extend([2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(batch.rows, expected);
        assert_eq!(batch.indirect, b"ab");
    }

    #[test]
    fn a_second_value_replaces_the_first() {
        let mut row = Row::new(schema(), Operation::Insert);
        row.set("host", "ab").unwrap().set("host", "cd").unwrap();
        assert_eq!(row.get("host"), Some(Value::String("cd".into())));
        row.set("host", "longer").unwrap();
        assert_eq!(row.get("host"), Some(Value::String("longer".into())));
    }

    #[test]
    fn a_row_used_again_and_again_does_not_grow() {
        let mut row = Row::new(schema(), Operation::Insert);
        row.set("id", 5).unwrap().set("note", &b"kept"[..]).unwrap();
        for length in 0..5000 {
            let text = "x".repeat(length % 100);
            row.set("host", &text).unwrap();
            assert_eq!(row.get("host"), Some(Value::String(text)));
        }
        assert!(row.bytes.len() < 3000, "{} bytes", row.bytes.len());
        assert_eq!(row.get("id"), Some(Value::Int32(5)));
        assert_eq!(row.get("note"), Some(Value::Binary(b"kept".to_vec())));
    }

    #[test]
    fn rows_the_servers_would_refuse_are_refused_here() {
        let check = |operation, columns: &[&str]| {
            let mut row = Row::new(schema(), operation);
            for column in columns {
                match *column {
                    "id" => row.set("id", 1).unwrap(),
                    "host" => row.set("host", "x").unwrap(),
                    other => row.set(other, 1.0).unwrap(),
                };
            }
            row.check().is_ok()
        };
        assert!(check(Operation::Insert, &["id", "host"]));
        assert!(!check(Operation::Insert, &["id"]));
        assert!(check(Operation::Delete, &["id", "host"]));
        assert!(!check(Operation::Delete, &["id", "host", "value"]));
        assert!(check(Operation::Update, &["id", "host", "value"]));
        assert!(!check(Operation::Update, &["id", "host"]));
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were_written(
            rows in proptest::collection::vec((any::<i32>(), ".{0,9}", any::<Option<f64>>(), any::<Option<Vec<u8>>>()), 0..20)
        ) {
            let schema = schema();
            let mut batch = EncodedRows::default();
            for (id, host, value, note) in &rows {
                let mut row = Row::new(schema.clone(), Operation::Upsert);
                row.set("id", *id).unwrap().set("host", host).unwrap();
                row.set("value", *value).unwrap().set("note", note.as_ref()).unwrap();
                row.encode_into(&mut batch);
            }
            let mut reader = RowReader::new(&schema, &batch.rows, &batch.indirect);
            for (id, host, value, note) in &rows {
                let (code, row) = reader.next_row().unwrap().unwrap();
                prop_assert_eq!(code, 5);
                prop_assert_eq!(row.get("id"), Some(Value::Int32(*id)));
                prop_assert_eq!(row.get("host"), Some(Value::String(host.clone())));
                prop_assert_eq!(row.get("value").map(|v| format!("{v:?}")), Some(format!("{:?}", Value::from(*value))));
                prop_assert_eq!(row.get("note"), Some(Value::from(note.as_ref())));
            }
            prop_assert!(reader.next_row().unwrap().is_none());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(
            rows in proptest::collection::vec(any::<u8>(), 0..80),
            indirect in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let schema = schema();
            let mut reader = RowReader::new(&schema, &rows, &indirect);
            while let Ok(Some(_)) = reader.next_row() {}
        }
    }
}
