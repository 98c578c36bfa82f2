//! Rows that come as columns, appended to a batch as if they had been parsed.

use super::batch::ParsedBatch;
use super::column::FieldColumn;
use super::column_slice::{FieldSlice, ValueSlice};
use super::key::{TagSpan, measurement_of, scan_key};
use super::options::{MAX_TIME_NS, MIN_TIME_NS};
use super::series_cache::{SeriesCache, SeriesHandle};
use super::series_keys::{Keys, SeriesKeys, check_length};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A batch is full with so many cells, …
const CELLS_MAX: usize = 1 << 20;
/// … or so many bytes of strings, …
const TEXT_BYTES_MAX: usize = 16 << 20;
/// … or so many columns: a batch may create a certain number of names.
const COLUMNS_MAX: usize = 1 << 12;

/// Rows of columns that are collected for a batch. They have numbers of their keys in place of ids of series until
/// [`Self::resolve`].
#[derive(Debug, Default)]
pub struct ColumnBatch {
    rows: ParsedBatch,
    keys: Keys,
    /// The numbers of measurements.
    measurements: HashMap<Box<[u8]>, u32, RandomState>,
    /// Cells, with those that are absent.
    cells: usize,
    /// Columns of all groups.
    columns: usize,
    /// Bytes of strings.
    text_bytes: usize,
    spans: Vec<TagSpan>,
    line: Vec<u8>,
}

impl ColumnBatch {
    /// Whether it should be written before more rows are added.
    pub fn is_full(&self) -> bool {
        self.cells >= CELLS_MAX || self.text_bytes >= TEXT_BYTES_MAX || self.columns >= COLUMNS_MAX
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.row_count() == 0
    }

    /// The rows as if they had been parsed.
    pub fn rows(&mut self) -> &mut ParsedBatch {
        &mut self.rows
    }

    /// Appends rows of a series, whose key is written as in line protocol. The error says what is wrong with them; nothing was
    /// appended then.
    pub fn append(&mut self, key: &[u8], times_ns: &[i64], fields: &[FieldSlice<'_>]) -> Result<(), String> {
        self.check_key(key)?;
        check_times(times_ns)?;
        let key_number = self.keys.push(key);
        let key_numbers = std::iter::repeat_n(key_number, times_ns.len());
        self.append_checked(&measurement_of(key), key_numbers, times_ns, fields);
        Ok(())
    }

    /// Appends rows of some series of a measurement. `key_of_row` are numbers of keys. The error says what is wrong with the
    /// rows; nothing was appended then.
    pub fn append_rows(
        &mut self,
        keys: &SeriesKeys,
        key_of_row: &[u32],
        times_ns: &[i64],
        fields: &[FieldSlice<'_>],
    ) -> Result<(), String> {
        check_times(times_ns)?;
        let first = self.keys.extend(&keys.keys);
        let key_numbers = key_of_row.iter().map(|number| first + number);
        self.append_checked(keys.measurement().as_bytes(), key_numbers, times_ns, fields);
        Ok(())
    }

    fn append_checked(
        &mut self,
        measurement: &[u8],
        key_numbers: impl Iterator<Item = u32>,
        times_ns: &[i64],
        fields: &[FieldSlice<'_>],
    ) {
        let number = match self.measurements.get(measurement) {
            Some(number) => *number,
            None => {
                let number = self.measurements.len() as u32;
                self.measurements.insert(measurement.into(), number);
                number
            }
        };
        let group = self.rows.group_for_columns(number, measurement, fields);
        let end = group.row_count() + times_ns.len();
        group.times_ns.extend_from_slice(times_ns);
        group.series_ids.extend(key_numbers);
        group.lines.resize(end, 0);
        if group.columns.is_empty() {
            let new = |field: &FieldSlice<'_>| FieldColumn::new(field.name, field.values.kind());
            group.columns.extend(fields.iter().map(new));
            self.columns += 1 + fields.len();
        }
        for (column, field) in group.columns.iter_mut().zip(fields) {
            column.append_slice(field, times_ns.len());
            if let ValueSlice::String(ends, _, first) = field.values {
                self.text_bytes += ends.last().map_or(0, |end| *end as usize - first);
            }
        }
        self.cells += times_ns.len() * group.columns.len();
        self.rows.count_rows(times_ns.len());
    }

    /// Finds the keys in a cache, for which a request begins. Afterwards [`SeriesCache::pending`] lists the series without an
    /// id.
    pub fn find(&self, cache: &mut SeriesCache) -> Vec<SeriesHandle> {
        cache.begin_request();
        let mut handles = Vec::with_capacity(self.keys.count());
        handles.extend(self.keys.iter().map(|key| {
            let found = cache.find_or_insert(key);
            cache.advance(&found);
            found.handle
        }));
        handles
    }

    /// Sets the ids of series, which have ids by now, from what [`Self::find`] has found.
    pub fn resolve(&mut self, cache: &SeriesCache, handles: &[SeriesHandle]) {
        let ids: Vec<u32> = handles.iter().map(|handle| cache.series_id(*handle)).collect();
        for group in self.rows.groups_mut() {
            group.series_ids.iter_mut().for_each(|id| *id = ids[*id as usize]);
        }
    }

    /// Refuses a key that no line could have.
    fn check_key(&mut self, key: &[u8]) -> Result<(), String> {
        check_length(key.len())?;
        self.line.clear();
        self.line.extend_from_slice(key);
        self.line.push(b' ');
        let end = scan_key(&self.line, 0, usize::MAX, &mut self.spans);
        let is_whole = end.is_ok_and(|end| end == key.len());
        is_whole.then_some(()).ok_or_else(|| format!("the series key {} is not valid", key.escape_ascii()))
    }
}

fn check_times(times_ns: &[i64]) -> Result<(), String> {
    match times_ns.iter().find(|time_ns| !(MIN_TIME_NS..=MAX_TIME_NS).contains(*time_ns)) {
        Some(time_ns) => Err(format!("the time {time_ns} is beyond those that can be stored")),
        None => Ok(()),
    }
}

impl FieldColumn {
    /// Appends values to a column that has all rows before them.
    fn append_slice(&mut self, field: &FieldSlice<'_>, rows: usize) {
        let Some(present) = field.present else {
            self.values.append(field.values);
            self.mark_present_rows(rows);
            return;
        };
        let (mut row, mut value) = (0, 0);
        while row < rows {
            let length = present[row..].iter().take_while(|other| **other == present[row]).count();
            if present[row] {
                self.values.append(field.values.part(value, length));
                self.mark_present_rows(length);
                value += length;
            } else {
                let end = self.values().len() + length;
                self.catch_up(end);
            }
            row += length;
        }
    }
}
