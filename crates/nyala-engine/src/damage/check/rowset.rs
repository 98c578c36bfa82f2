//! Checks one rowset: every byte of its file belongs to something, and everything the index says is true.

use super::{Check, last_rows, of_table};
use crate::files::catalog::CatalogTable;
use crate::files::rowset::block::Layout;
use crate::files::rowset::format::{
    BlockRef, ColumnEntry, GroupEntry, GroupList, GroupRuns, HEADER_BYTES, TAIL_BYTES,
};
use crate::files::rowset::keyed::KeyedCursor;
use crate::files::rowset::reader::{LoadedFooter, Use};
use crate::files::rowset::verified::VerifiedBlock;
use crate::files::rowset::{Rowset, RowsetKind, RowsetMeta, RowsetSource, bloom};
use crate::files::schema_format::{MARKER_COLUMN, SEQUENCE_COLUMN};
use crate::rows::column_buffer::{Column, Kind, NULL, VALUE, Values};
use crate::rows::key;
use crate::rows::projection::Projection;
use nyala_column::from_unsigned;
use nyala_core::{ColumnId, ColumnType, Error, Result};
use std::sync::Arc;

/// A rowset being checked.
struct RowsetCheck<'a, 'b> {
    check: &'a mut Check<'b>,
    rowset: Arc<Rowset>,
    footer: Arc<LoadedFooter>,
    table: Option<&'a CatalogTable>,
    /// Bytes that belong to something.
    bytes: u64,
    rows: u64,
    min_time_ns: i64,
    max_time_ns: i64,
    /// The series of the last row so far.
    last_series: u32,
    last_key: Option<Vec<u8>>,
    /// The filter of keys, if there is one that can be read.
    filter: Option<Arc<VerifiedBlock>>,
    /// Something could not be read, so totals say nothing.
    incomplete: bool,
}

/// Checks a rowset that the manifest describes by `meta`; without a manifest `table` is nothing and `meta` only
/// says its id and length.
pub(super) fn check(
    check: &mut Check<'_>,
    source: &Arc<RowsetSource>,
    meta: &RowsetMeta,
    table: Option<&CatalogTable>,
) {
    let rowset = Rowset::new(meta.clone(), source.clone());
    let begun = check.report.bytes;
    match rowset.footer() {
        Err(error) => {
            let rows = if table.is_some() {
                format!("its {} rows cannot be read", meta.rows)
            } else {
                "its rows cannot be read".to_owned()
            };
            check.report.failed(&rowset.path(), &format!("{}{rows}", of_table(table)), &error);
        }
        Ok(footer) => {
            let mut walk = RowsetCheck {
                check: &mut *check,
                rowset,
                footer,
                table,
                bytes: HEADER_BYTES + TAIL_BYTES,
                rows: 0,
                min_time_ns: i64::MAX,
                max_time_ns: i64::MIN,
                last_series: 0,
                last_key: None,
                filter: None,
                incomplete: false,
            };
            walk.walk();
        }
    }
    check.report.bytes = begun + meta.length_bytes;
    check.progress();
}

impl RowsetCheck<'_, '_> {
    fn walk(&mut self) {
        self.footer_against_manifest();
        self.origin();
        let bloom = self.footer.bloom;
        self.filter = self.block("filter of keys", bloom);
        if let Some(filter) = &self.filter
            && let Err(error) = bloom::check(filter.bytes())
        {
            let error = self.rowset.corrupt(bloom, &error);
            self.failed("filter of keys", &error);
        }
        for page in 0..self.footer.pages.len() {
            self.page(GroupList::All, page);
        }
        for page in 0..self.footer.last_pages.len() {
            self.page(GroupList::LastRows, page);
        }
        if !self.incomplete
            && let Err(error) = last_rows::check(&self.rowset, &self.footer)
        {
            self.failed("last rows of series", &error);
        }
        self.totals();
    }

    /// Compares the footer with the manifest and the schema.
    fn footer_against_manifest(&mut self) {
        let Some(table) = self.table else { return };
        let meta = &self.rowset.meta;
        let mut wrong = Vec::new();
        if self.footer.rows != meta.rows {
            wrong.push(format!("the footer says {} rows, the manifest {}", self.footer.rows, meta.rows));
        }
        let by_series = meta.kind == RowsetKind::Rows && table.schema.is_series_keyed();
        if self.footer.series_keyed != by_series {
            wrong.push("the footer says another kind of key than the table has".to_owned());
        }
        for (id, column_type) in &self.footer.columns {
            if let Some(column) = table.schema.column(*id)
                && column.column_type != column_type.0
            {
                wrong.push(format!("column {:?} has type {:?} in the footer", column.name, column_type.0));
            }
        }
        if let Some(range) = table.partitions.get(meta.partition) {
            if by_series && meta.rows > 0 && !range.covers(meta.time()) {
                wrong.push("its times are outside of its partition".to_owned());
            }
        } else {
            wrong.push(format!("its partition {} does not exist", meta.partition));
        }
        wrong.into_iter().for_each(|words| self.wrong(BlockRef::default(), &words));
    }

    /// Compares the origin in the file with the manifest.
    fn origin(&mut self) {
        let place = self.footer.origin;
        self.count(place);
        let (meta, table) = (self.rowset.meta.clone(), self.table);
        match (self.rowset.origin(), table) {
            (Err(error), _) => self.failed("where its rows come from", &error),
            (Ok(Some(origin)), Some(table)) => {
                let of_manifest = (meta.table, meta.partition, meta.min_sequence, meta.max_sequence);
                let of_file = (origin.table, origin.partition, origin.min_sequence, origin.max_sequence);
                if of_file != of_manifest || table.partitions.get(meta.partition) != Some(&origin.range) {
                    self.wrong(
                        place,
                        "the file says other sequences or another place of its rows than the manifest",
                    );
                }
            }
            (Ok(_), _) => {}
        }
    }

    fn page(&mut self, which: GroupList, number: usize) {
        let footer = self.footer.clone();
        let (page, what) = match which {
            GroupList::All => (&footer.pages[number], format!("index page {number}")),
            GroupList::LastRows => (&footer.last_pages[number], format!("index page {number} of last rows")),
        };
        let place_of_page = page.group_page;
        self.count(place_of_page);
        let groups = self.rowset.index_page(&footer, page);
        let column_pages: Vec<_> = (0..footer.columns.len())
            .map(|column| {
                self.count(page.column_pages[column]);
                self.rowset.column_page(page, column).unwrap_or_else(|error| {
                    let name = self.column_name(footer.columns[column].0);
                    self.failed(&format!("{what}: entries of {name}"), &error);
                    None
                })
            })
            .collect();
        let groups = match groups {
            Ok(groups) => groups,
            Err(error) => return self.failed(&format!("{what}: entries of {} groups", page.groups), &error),
        };
        let entries: Vec<_> =
            (0..page.groups as usize).map(|group| GroupEntry::at(groups.bytes(), group)).collect();
        for (group, entry) in entries.iter().enumerate() {
            let columns: Vec<_> = column_pages
                .iter()
                .map(|entries| entries.as_ref().map(|entries| ColumnEntry::at(entries.bytes(), group)))
                .collect();
            self.group(which, &format!("group {group} of {what}"), entry, &columns);
            if let Some(page) = groups.as_keyed_page().filter(|_| footer.version >= 4) {
                let is_same = |(column, entry): (usize, &Option<ColumnEntry>)| {
                    page.block(group, column) == entry.map_or(BlockRef::default(), |entry| entry.block)
                };
                if !columns.iter().enumerate().all(is_same) {
                    self.wrong(
                        place_of_page,
                        &format!("{what}: it says other places of blocks than its columns"),
                    );
                }
            }
            self.check.progress();
        }
        if footer.series_keyed {
            let bounds = (entries.iter().map(|entry| entry.min_time_ns).min())
                .zip(entries.iter().map(|entry| entry.max_time_ns).max());
            let series = (entries.first().map(|e| e.first_series), entries.last().map(|e| e.last_series));
            if bounds != Some((page.min_time_ns, page.max_time_ns))
                || series != (Some(page.first_series), Some(page.last_series))
            {
                self.wrong(page.group_page, &format!("{what}: the footer says other times or series"));
            }
        } else {
            self.keys(number);
        }
    }

    /// Checks the columns of a group, and for a series-keyed table the order of its rows.
    fn group(&mut self, which: GroupList, place: &str, entry: &GroupEntry, columns: &[Option<ColumnEntry>]) {
        let what = format!("{place} ({} rows)", entry.rows);
        self.count(entry.directory);
        let runs = match self.footer.series_keyed.then(|| self.rowset.runs(entry, Use::Once)).transpose() {
            Ok(runs) => runs.map(|block| match block.as_ref().and_then(|block| block.group_runs()) {
                Some(runs) => runs.clone(),
                None => GroupRuns::single(entry.first_series, entry.rows),
            }),
            Err(error) => {
                self.failed(&format!("{what}: directory of series"), &error);
                None
            }
        };
        let footer = self.footer.clone();
        for (position, (id, column_type)) in footer.columns.iter().enumerate() {
            let Some(column_entry) = columns[position].filter(|entry| entry.block.length > 0) else {
                if position == 0 && footer.series_keyed && columns[0].is_some() {
                    self.wrong(BlockRef::default(), &format!("{what}: it has no times"));
                }
                continue;
            };
            self.count(column_entry.block);
            let column = match self.column(entry, &column_entry, column_type.0) {
                Ok(column) => column,
                Err(error) => {
                    let name = self.column_name(*id);
                    self.failed(&format!("{what}: block of {name}"), &error);
                    continue;
                }
            };
            self.check.report.column_blocks += 1;
            let found = statistics(&column, column_type.0);
            if (ColumnEntry { block: column_entry.block, ..found }) != column_entry {
                let name = self.column_name(*id);
                self.wrong(column_entry.block, &format!("{what}: the index says other values of {name}"));
            }
            if position == 0
                && footer.series_keyed
                && let Some(runs) = &runs
                && let Some(words) = self.times(which, entry, runs, &column)
            {
                self.wrong(column_entry.block, &format!("{what}: {words}"));
            }
        }
    }

    fn column(
        &self,
        entry: &GroupEntry,
        column_entry: &ColumnEntry,
        column_type: ColumnType,
    ) -> Result<Column> {
        let block = self.rowset.column_block(column_entry.block, column_type, entry.rows, Use::Once)?;
        let mut column = Column::new(Kind::of(column_type));
        let parsed = block.parse(column_type, entry.rows);
        let decoded = parsed.and_then(|block| block.decode(0..entry.rows, &mut column));
        decoded.map_err(|error| self.rowset.corrupt_block(column_entry.block, error))?;
        Ok(column)
    }

    /// What is wrong with the times of a group.
    fn times(
        &mut self,
        which: GroupList,
        entry: &GroupEntry,
        runs: &GroupRuns,
        column: &Column,
    ) -> Option<&'static str> {
        let Values::Word(times) = &column.values else { return Some("its times are no times") };
        let mut start = 0;
        for end in &runs.ends {
            let run = &times[start..*end as usize];
            if !run.is_sorted_by(|a, b| (*a as i64) < (*b as i64)) {
                return Some("the rows of a series are not in order of time");
            }
            start = *end as usize;
        }
        let bounds = times.iter().map(|time| *time as i64);
        let (min, max) = (bounds.clone().min().unwrap_or(i64::MAX), bounds.max().unwrap_or(i64::MIN));
        if (min, max) != (entry.min_time_ns, entry.max_time_ns) {
            return Some("the index says other times");
        }
        if which == GroupList::LastRows {
            return None;
        }
        if self.rows > 0 && entry.first_series < self.last_series {
            return Some("its series are before those of the group before");
        }
        self.last_series = entry.last_series;
        self.rows += u64::from(entry.rows);
        self.min_time_ns = self.min_time_ns.min(min);
        self.max_time_ns = self.max_time_ns.max(max);
        None
    }

    /// Checks the keys of a page of a table with another key: their order, the first one of every group, and that
    /// the filter knows them.
    fn keys(&mut self, page: usize) {
        let Some(table) = self.table else { return };
        let (projection, all) = (Projection::keys_only(), key::KeyRange::all());
        let cursor = KeyedCursor::new(self.rowset.clone(), &table.schema, projection, all, false, Use::Once);
        let checked = || -> Result<()> {
            let mut cursor = cursor?;
            let page_entry = &self.footer.pages[page];
            let place = page_entry.group_page;
            let block = self.rowset.keyed_page(&self.footer, page_entry)?;
            let index = block.as_keyed_page().expect("was checked");
            for group in 0..index.groups() {
                let keys = cursor.read_group(page, group)?.keys;
                let wrong = |words: &str| {
                    self.rowset.corrupt(place, &Error::invalid(format!("group {group}: {words}")))
                };
                if keys.get(0) != index.first_key(group)
                    || (group == 0 && page_entry.first_key != keys.get(0))
                {
                    return Err(wrong("the index says another first key"));
                }
                for row in 0..keys.len() {
                    let key = keys.get(row);
                    if self.last_key.as_deref().is_some_and(|last| last >= key) {
                        return Err(wrong("its keys are not in order"));
                    }
                    let hash = bloom::hash(key);
                    let of_file = |filter: &Arc<VerifiedBlock>| bloom::may_contain(filter.bytes(), hash);
                    if !index.may_contain(hash) || !self.filter.as_ref().is_none_or(of_file) {
                        return Err(wrong("the filter does not know one of its keys"));
                    }
                    self.last_key = Some(key.to_vec());
                }
                self.rows += keys.len() as u64;
            }
            Ok(())
        };
        if let Err(error) = checked() {
            self.failed(&format!("keys of page {page}"), &error);
        }
    }

    fn totals(&mut self) {
        self.check.report.rows += self.rows;
        if self.incomplete {
            return;
        }
        let meta = self.rowset.meta.clone();
        let footer_bytes = self.footer.encode(self.footer.version).len() as u64;
        if self.bytes + footer_bytes != meta.length_bytes {
            self.wrong(
                BlockRef::default(),
                &format!(
                    "{} of its {} bytes belong to something",
                    self.bytes + footer_bytes,
                    meta.length_bytes
                ),
            );
        }
        if self.table.is_none() {
            return;
        }
        if self.rows != meta.rows {
            self.wrong(BlockRef::default(), &format!("{} rows found, not {}", self.rows, meta.rows));
        }
        let times = (self.min_time_ns, self.max_time_ns);
        if self.footer.series_keyed && times != (meta.min_time_ns, meta.max_time_ns) {
            self.wrong(BlockRef::default(), "the manifest says other times");
        }
        if !self.footer.series_keyed && self.last_key.as_deref().unwrap_or_default() != self.footer.last_key {
            self.wrong(BlockRef::default(), "the footer says another last key");
        }
    }

    fn block(&mut self, what: &str, place: BlockRef) -> Option<Arc<VerifiedBlock>> {
        if place.length == 0 {
            return None;
        }
        self.count(place);
        match self.rowset.block(place) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.failed(what, &error);
                None
            }
        }
    }

    fn count(&mut self, place: BlockRef) {
        self.bytes += u64::from(place.length);
        self.check.report.bytes += u64::from(place.length);
    }

    fn column_name(&self, id: ColumnId) -> String {
        if id == MARKER_COLUMN {
            return "the deletes".to_owned();
        }
        if id == SEQUENCE_COLUMN {
            return "the sequences".to_owned();
        }
        let column = self.table.and_then(|table| table.schema.column(id));
        column.map_or_else(|| format!("column {id}"), |column| format!("column {:?}", column.name))
    }

    fn failed(&mut self, what: &str, error: &Error) {
        self.incomplete = true;
        let path = self.rowset.path();
        self.check.report.failed(&path, &format!("{}{what}", of_table(self.table)), error);
    }

    fn wrong(&mut self, place: BlockRef, words: &str) {
        self.incomplete = true;
        let path = self.rowset.path();
        self.check.report.damaged(&path, place.offset, format!("{}{words}", of_table(self.table)));
    }
}

/// What an index should say of a column.
fn statistics(column: &Column, column_type: ColumnType) -> ColumnEntry {
    let count = |state| (0..column.len()).filter(|row| column.state(*row) == state).count() as u32;
    let mut entry = ColumnEntry {
        values: count(VALUE),
        nulls: count(NULL),
        min: i64::MAX,
        max: i64::MIN,
        ..ColumnEntry::default()
    };
    let layout = Layout::of(column_type);
    if let (Values::Word(words), Layout::Integers | Layout::Unsigned) = (&column.values, layout) {
        for (row, word) in words.iter().enumerate().filter(|(row, _)| column.state(*row) == VALUE) {
            debug_assert!(row < column.len());
            let (ordered, exact) = match layout {
                Layout::Unsigned => (from_unsigned(*word), i128::from(*word)),
                _ => (*word as i64, i128::from(*word as i64)),
            };
            entry.min = entry.min.min(ordered);
            entry.max = entry.max.max(ordered);
            entry.sum += exact;
        }
    }
    entry
}
