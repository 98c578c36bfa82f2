//! Rows that come as columns, appended to a batch as if they had been parsed.

use super::batch::ParsedBatch;
use super::column::FieldColumn;
use super::column_slice::{FieldSlice, ValueSlice};
use super::key::{TagSpan, scan_key};
use super::options::{MAX_KEY_BYTES, MAX_TIME_NS, MIN_TIME_NS};
use super::series_cache::{SeriesCache, SeriesHandle, UNRESOLVED_SERIES};

/// The most tags of a series.
const TAGS_MAX: usize = 4096;

/// Rows of one series that are next to each other in a group of a batch.
#[derive(Debug)]
struct SeriesRows {
    group: usize,
    start: usize,
    end: usize,
    handle: SeriesHandle,
}

/// The rows of a batch that came as columns.
#[derive(Debug, Default)]
pub struct ColumnRows {
    runs: Vec<SeriesRows>,
    cells: usize,
    columns: usize,
    text_bytes: usize,
    spans: Vec<TagSpan>,
    line: Vec<u8>,
}

impl ColumnRows {
    /// The number of cells, with those that are absent.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The number of columns of all groups.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of strings.
    pub fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Appends rows of a series. The error says what is wrong with them; nothing was appended then.
    pub fn append(
        &mut self,
        cache: &mut SeriesCache,
        batch: &mut ParsedBatch,
        key: &[u8],
        times_ns: &[i64],
        fields: &[FieldSlice<'_>],
    ) -> Result<(), String> {
        self.check_key(key)?;
        if let Some(time_ns) = times_ns.iter().find(|time_ns| !(MIN_TIME_NS..=MAX_TIME_NS).contains(*time_ns))
        {
            return Err(format!("the time {time_ns} is beyond those that can be stored"));
        }
        let found = cache.find_or_insert(key);
        cache.advance(&found);
        let (index, group) = batch.group_for_columns(cache, found.measurement, fields);
        let start = group.row_count();
        let end = start + times_ns.len();
        group.times_ns.extend_from_slice(times_ns);
        group.series_ids.resize(end, UNRESOLVED_SERIES);
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
        let columns = group.columns.len();
        batch.count_rows(times_ns.len());
        self.cells += times_ns.len() * columns;
        self.runs.push(SeriesRows { group: index, start, end, handle: found.handle });
        Ok(())
    }

    /// Sets the ids of series, which have ids by now.
    pub fn resolve(&self, cache: &SeriesCache, batch: &mut ParsedBatch) {
        for run in &self.runs {
            batch.groups_mut()[run.group].series_ids[run.start..run.end].fill(cache.series_id(run.handle));
        }
    }

    /// Refuses a key that no line could have.
    fn check_key(&mut self, key: &[u8]) -> Result<(), String> {
        if key.len() > MAX_KEY_BYTES {
            return Err(format!(
                "a series key of {} bytes: at most {MAX_KEY_BYTES} can be stored",
                key.len()
            ));
        }
        self.line.clear();
        self.line.extend_from_slice(key);
        self.line.push(b' ');
        let end = scan_key(&self.line, 0, TAGS_MAX, &mut self.spans);
        let is_whole = end.is_ok_and(|end| end == key.len());
        is_whole.then_some(()).ok_or_else(|| format!("the series key {} is not valid", key.escape_ascii()))
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
