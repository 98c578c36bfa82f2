//! The rows of a request body, grouped by measurement, as columns.
//!
//! A group has one column per (field, type). Within a group, rows are in the order of their lines. Of two groups of one
//! measurement, the later one has the later lines. So if groups and rows are applied in order, the later line wins, as
//! it must.
//!
//! Memory is proportional to the input. Columns of a group with irregular rows are padded, so when the cells of a group
//! outgrow its values ([`MAX_PADDING`]), the group is closed, and the next row of the measurement opens another one.
//! Groups of regular rows are kept for the next batch, empty, with their columns and memory.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::column::{FieldColumn, FieldKind};
use super::column_slice::FieldSlice;
use super::known_fields::{NameMatcher, append_fields, take_back};
use super::number::fast_digits;
use super::options::{MAX_TIME_NS, MIN_TIME_NS};
use super::series_cache::{FoundSeries, SeriesCache, SeriesHandle};
use super::slow_path::ParsedField;

/// A group is closed when it has this many cells per value, …
const MAX_PADDING: usize = 8;
/// … apart from its first cells. In the worst case, each row has a field of its own and takes 512 bytes.
const FREE_CELLS: usize = 4_096;
/// Groups with more columns than this find them by a hash table.
const MAX_SEARCHED_COLUMNS: usize = 16;

const NO_GROUP: u32 = u32::MAX;

/// A row whose series had no id when it was parsed.
#[derive(Clone, Copy, Debug)]
struct UnresolvedRow {
    row: u32,
    handle: SeriesHandle,
}

/// Rows of one measurement. All vectors, and the values of each column, have the same length. Each column has a value
/// in some row.
#[derive(Debug)]
pub struct RowGroup {
    measurement: Box<[u8]>,
    /// Series id of each row; [`super::UNRESOLVED_SERIES`] until [`ParsedBatch::resolve`].
    pub series_ids: Vec<u32>,
    /// Time of each row.
    pub times_ns: Vec<i64>,
    /// The line of the body in which each row begins, counted from 1 (the lowest 32 bits).
    pub lines: Vec<u32>,
    /// The fields.
    pub columns: Vec<FieldColumn>,
    unresolved: Vec<UnresolvedRow>,
    /// How the name of each column is spelled.
    matchers: Vec<NameMatcher>,
    /// Whether the last batch had rows of it. The caller may have taken its columns.
    used: bool,
    /// Whether some row lacks a column. Only then is `value_count` maintained.
    sparse: bool,
    value_count: usize,
    column_table: HashTable<u32>,
}

/// What is the same for all rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRules {
    pub(super) unit_ns: i64,
    pub(super) default_time_ns: i64,
    pub(super) max_line_bytes: usize,
}

impl RowGroup {
    fn new(measurement: &[u8]) -> Self {
        Self {
            measurement: measurement.into(),
            series_ids: Vec::new(),
            times_ns: Vec::new(),
            lines: Vec::new(),
            columns: Vec::new(),
            unresolved: Vec::new(),
            matchers: Vec::new(),
            used: false,
            sparse: false,
            value_count: 0,
            column_table: HashTable::new(),
        }
    }

    /// Name of the measurement, unescaped. It need not be UTF-8.
    pub fn measurement(&self) -> &[u8] {
        &self.measurement
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.times_ns.len()
    }

    /// Parses the rest of `line` behind the key as a row, if it is plain. Returns the end of the line (at its newline
    /// or at the end of the body) and the number of newlines in strings. If it returns `None`, nothing was changed.
    #[inline(always)]
    pub(super) fn append_quick(
        &mut self,
        line: &[u8],
        found: &FoundSeries,
        line_number: u64,
        rules: &RowRules,
    ) -> Option<(usize, u64)> {
        if self.sparse && self.is_too_sparse(0, 1) {
            return None;
        }
        let row = self.times_ns.len();
        let matched = append_fields(line, found.key_bytes, &self.matchers, &mut self.columns, row)?;
        let irregular = matched.count != self.columns.len();
        let time = fast_time(line, matched.end, rules).filter(|(_, end)| *end <= rules.max_line_bytes);
        // The columns of a group without rows are a guess from the last batch. The first row confirms them.
        let (Some((time_ns, end)), false) = (time, irregular && row == 0) else {
            take_back(&mut self.columns, row);
            return None;
        };
        if irregular || self.sparse {
            self.value_count = self.count_values() + matched.count;
            self.sparse = true;
        }
        self.push_row(found, time_ns, line_number);
        Some((end, matched.newlines))
    }

    /// Appends a row that the slow path has parsed.
    fn append_parsed(
        &mut self,
        found: &FoundSeries,
        time_ns: i64,
        line_number: u64,
        fields: &[ParsedField<'_>],
        hasher: &RandomState,
    ) {
        let row = self.times_ns.len();
        let (old_values, old_columns) = (self.count_values(), self.columns.len());
        let columns: Vec<usize> = fields.iter().map(|field| self.find_or_add_column(field, hasher)).collect();
        for (field, &column) in fields.iter().zip(&columns) {
            self.columns[column].set(row, field.value);
        }
        let values = self.columns.iter().filter(|column| column.values().len() > row).count();
        if self.sparse || values != self.columns.len() || (row > 0 && self.columns.len() > old_columns) {
            self.value_count = old_values + values;
            self.sparse = true;
        }
        self.push_row(found, time_ns, line_number);
    }

    #[inline(always)]
    fn push_row(&mut self, found: &FoundSeries, time_ns: i64, line_number: u64) {
        if found.series_id == super::UNRESOLVED_SERIES {
            // A body is smaller than 2 GiB, so the number of rows fits.
            self.unresolved.push(UnresolvedRow { row: self.times_ns.len() as u32, handle: found.handle });
        }
        self.series_ids.push(found.series_id);
        self.times_ns.push(time_ns);
        self.lines.push(line_number as u32);
    }

    fn count_values(&self) -> usize {
        if self.sparse { self.value_count } else { self.times_ns.len() * self.columns.len() }
    }

    /// Whether a row with this many fields, of which this many are new, would pad the group too much.
    fn is_too_sparse(&self, new_columns: usize, fields: usize) -> bool {
        let cells = (self.times_ns.len() + 1) * (self.columns.len() + new_columns);
        cells > FREE_CELLS + MAX_PADDING * (self.count_values() + fields)
    }

    /// Whether its columns are those of some fields, in this order.
    fn has_fields(&self, fields: &[FieldSlice<'_>]) -> bool {
        let is_same = |(column, field): (&FieldColumn, &FieldSlice<'_>)| {
            column.name() == field.name && column.kind() == field.values.kind()
        };
        self.columns.len() == fields.len() && self.columns.iter().zip(fields).all(is_same)
    }

    fn count_new_columns(&self, fields: &[ParsedField<'_>], hasher: &RandomState) -> usize {
        let new =
            |field: &&ParsedField<'_>| self.find_column(&field.name, field.value.kind(), hasher).is_none();
        fields.iter().filter(new).count()
    }

    /// Whether a row with these fields has a value for every column and no other values.
    fn is_filled_by(&self, fields: &[ParsedField<'_>], hasher: &RandomState) -> bool {
        let column = |field: &ParsedField<'_>| self.find_column(&field.name, field.value.kind(), hasher);
        let Some(mut columns) = fields.iter().map(column).collect::<Option<Vec<usize>>>() else {
            return false;
        };
        // A line may name a field more than once.
        columns.sort_unstable();
        columns.dedup();
        columns.len() == self.columns.len()
    }

    fn find_column(&self, name: &[u8], kind: FieldKind, hasher: &RandomState) -> Option<usize> {
        let same = |column: &FieldColumn| column.kind() == kind && column.name() == name;
        if self.columns.len() <= MAX_SEARCHED_COLUMNS {
            return self.columns.iter().position(same);
        }
        let found = self
            .column_table
            .find(hasher.hash_one((name, kind)), |&index| same(&self.columns[index as usize]));
        found.map(|&index| index as usize)
    }

    fn find_or_add_column(&mut self, field: &ParsedField<'_>, hasher: &RandomState) -> usize {
        let kind = field.value.kind();
        if let Some(index) = self.find_column(&field.name, kind, hasher) {
            return index;
        }
        let index = self.columns.len();
        self.columns.push(FieldColumn::new(&field.name, kind));
        self.matchers.push(NameMatcher::new(field.written_name));
        let columns = &self.columns;
        let hash = |&index: &u32| {
            let column: &FieldColumn = &columns[index as usize];
            hasher.hash_one((column.name(), column.kind()))
        };
        // The table is filled from the start, which costs little and avoids rebuilding it.
        self.column_table.insert_unique(hash(&(index as u32)), index as u32, hash);
        index
    }

    /// Whether the group can be kept for the next batch.
    fn is_reusable(&self) -> bool {
        // A caller may have taken the columns.
        !self.sparse && self.columns.len() == self.matchers.len()
    }

    fn memory_bytes(&self) -> usize {
        let row_vectors =
            self.series_ids.capacity() * 4 + self.times_ns.capacity() * 8 + self.lines.capacity() * 4;
        let unresolved = self.unresolved.capacity() * size_of::<UnresolvedRow>();
        let columns = self.columns.iter().map(FieldColumn::memory_bytes).sum::<usize>();
        size_of::<Self>()
            + self.measurement.len()
            + row_vectors
            + unresolved
            + columns
            + self.column_table.allocation_size()
            + self.matchers.iter().map(NameMatcher::memory_bytes).sum::<usize>()
    }

    fn clear(&mut self) {
        self.series_ids.clear();
        self.times_ns.clear();
        self.lines.clear();
        self.unresolved.clear();
        for column in &mut self.columns {
            column.clear();
        }
    }
}

/// The timestamp behind the fields and the end of the line.
#[inline(always)]
fn fast_time(line: &[u8], at: usize, rules: &RowRules) -> Option<(i64, usize)> {
    match line.get(at) {
        None | Some(b'\n') => return Some((rules.default_time_ns, at)),
        Some(b' ') => {}
        Some(_) => return None,
    }
    let negative = line.get(at + 1) == Some(&b'-');
    let (magnitude, end) = fast_digits(line, at + 1 + usize::from(negative))?;
    if !matches!(line.get(end), None | Some(b'\n')) {
        return None;
    }
    let magnitude = i64::try_from(magnitude).ok()?.checked_mul(rules.unit_ns)?;
    let time_ns = if negative { -magnitude } else { magnitude };
    (MIN_TIME_NS..=MAX_TIME_NS).contains(&time_ns).then_some((time_ns, end))
}

/// The rows of a request, or of as much of it as fits. It is reused and keeps its memory. A caller for whom
/// [`Self::memory_bytes`] is too large makes a new one.
#[derive(Debug, Default)]
pub struct ParsedBatch {
    groups: Vec<RowGroup>,
    /// The open group of each measurement of the series cache.
    group_of: Vec<u32>,
    column_count: usize,
    row_count: usize,
    hasher: RandomState,
}

impl ParsedBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.groups.iter().map(RowGroup::memory_bytes).sum::<usize>() + self.group_of.capacity() * 4
    }

    /// The groups, in the order in which they must be applied.
    pub fn groups(&self) -> impl Iterator<Item = &RowGroup> {
        self.groups.iter().filter(|group| group.row_count() > 0)
    }

    /// All groups, including those without rows. Their vectors and columns may be taken and given back.
    pub fn groups_mut(&mut self) -> &mut [RowGroup] {
        &mut self.groups
    }

    /// Sets the series ids of rows whose series had none when they were parsed. The caller has given ids to
    /// [`SeriesCache::pending`] before.
    pub fn resolve(&mut self, cache: &SeriesCache) {
        for group in &mut self.groups {
            for unresolved in group.unresolved.drain(..) {
                group.series_ids[unresolved.row as usize] = cache.series_id(unresolved.handle);
            }
        }
    }

    /// Begins a batch. Keeps the groups of the last batch if they are regular.
    pub(super) fn begin(&mut self, cache: &SeriesCache, max_columns: usize) {
        // The end of each request is a batch without rows, which says nothing about the next one.
        let keep_unused = std::mem::take(&mut self.row_count) == 0;
        self.group_of.clear();
        self.group_of.resize(cache.measurement_count(), NO_GROUP);
        let mut column_count = 0;
        let mut kept = 0_u32;
        let group_of = &mut self.group_of;
        self.groups.retain_mut(|group| {
            column_count += group.columns.len();
            let measurement = cache.find_measurement(&group.measurement);
            let used = keep_unused || group.used;
            let keep = used && group.is_reusable() && column_count <= max_columns / 8;
            match measurement.map(|measurement| &mut group_of[measurement]) {
                Some(slot) if keep && *slot == NO_GROUP => {
                    *slot = kept;
                    kept += 1;
                    group.clear();
                    true
                }
                _ => {
                    column_count -= group.columns.len();
                    false
                }
            }
        });
        self.column_count = column_count;
    }

    /// Ends a batch. All columns get their full length.
    pub(super) fn finish(&mut self) {
        for group in &mut self.groups {
            let rows = group.times_ns.len();
            group.used = rows > 0;
            if !group.sparse {
                continue;
            }
            for column in &mut group.columns {
                column.catch_up(rows);
            }
        }
    }

    /// The open group of a measurement.
    #[inline(always)]
    pub(super) fn open_group(&mut self, measurement: u32) -> Option<&mut RowGroup> {
        let index = *self.group_of.get(measurement as usize)?;
        self.groups.get_mut(index as usize)
    }

    #[inline(always)]
    pub(super) fn count_row(&mut self) {
        self.row_count += 1;
    }

    pub(super) fn count_rows(&mut self, rows: usize) {
        self.row_count += rows;
    }

    /// The group that rows with these fields are appended to: the open one of the measurement, if it has these fields and no
    /// others, otherwise a new one. The measurement has this number and name.
    pub(super) fn group_for_columns(
        &mut self,
        measurement: u32,
        name: &[u8],
        fields: &[FieldSlice<'_>],
    ) -> &mut RowGroup {
        let slot = measurement as usize;
        if self.group_of.len() <= slot {
            self.group_of.resize(slot + 1, NO_GROUP);
        }
        let open = self.groups.get(self.group_of[slot] as usize);
        if !open.is_some_and(|group| group.has_fields(fields)) {
            self.group_of[slot] = self.groups.len() as u32;
            self.groups.push(RowGroup::new(name));
        }
        &mut self.groups[self.group_of[slot] as usize]
    }

    /// Whether a row with these fields stays within `max_columns`.
    pub(super) fn has_room(
        &self,
        measurement: Option<usize>,
        fields: &[ParsedField<'_>],
        max_columns: usize,
    ) -> bool {
        if self.row_count == 0 || self.column_count + fields.len() <= max_columns {
            return true;
        }
        let index = measurement.and_then(|measurement| self.group_of.get(measurement));
        let new = index.and_then(|&index| self.groups.get(index as usize)).map_or(fields.len(), |group| {
            let new = group.count_new_columns(fields, &self.hasher);
            if group.is_too_sparse(new, fields.len()) { fields.len() } else { new }
        });
        self.column_count + new <= max_columns
    }

    /// Appends a row that the slow path has parsed.
    pub(super) fn append_parsed(
        &mut self,
        cache: &SeriesCache,
        found: &FoundSeries,
        time_ns: i64,
        line_number: u64,
        fields: &[ParsedField<'_>],
    ) {
        let measurement = found.measurement as usize;
        if self.group_of.len() <= measurement {
            self.group_of.resize(measurement + 1, NO_GROUP);
        }
        let open = self.groups.get_mut(self.group_of[measurement] as usize);
        let group = match open {
            Some(group) => {
                let new = group.count_new_columns(fields, &self.hasher);
                if group.row_count() == 0 && !group.is_filled_by(fields, &self.hasher) {
                    // This group was kept from the last batch but not used.
                    self.column_count -= group.columns.len();
                    *group = RowGroup::new(&group.measurement);
                    Some(group)
                } else {
                    Some(group).filter(|group| !group.is_too_sparse(new, fields.len()))
                }
            }
            None => None,
        };
        let group = match group {
            Some(group) => group,
            None => {
                self.group_of[measurement] = self.groups.len() as u32;
                self.groups.push(RowGroup::new(cache.measurement_name(found.measurement)));
                self.groups.last_mut().expect("just pushed")
            }
        };
        let old_count = group.columns.len();
        group.append_parsed(found, time_ns, line_number, fields, &self.hasher);
        self.column_count = self.column_count + group.columns.len() - old_count;
        self.row_count += 1;
    }
}
