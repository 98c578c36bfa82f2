//! What a table takes on disk, column by column: bytes and values from the indexes of its rowsets, encodings from a few of
//! their blocks.
//!
//! The work is bounded, however large the table is: of many rowsets, or of many index pages, every n-th is read. Then the
//! figures are those of the sample times its share of the rows.

use crate::files::rowset::Rowset;
use crate::files::rowset::block::ValuesBlock;
use crate::files::rowset::format::{ColumnEntry, GroupEntry};
use crate::files::rowset::reader::{LoadedFooter, Use};
use crate::memory::version::TableVersion;
use nyala_core::store::{PartStorage, TablePart, TableStorage};
use nyala_core::{Result, TableSchema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rowsets whose indexes are read at most.
const ROWSETS_MAX: usize = 256;
/// Index pages that are read at most, counted for each column. One has the entries of up to 256 groups.
const PAGES_MAX: usize = 4096;
/// Blocks that are read at most, of all columns together …
const BLOCKS_MAX: usize = 1024;
/// … and of one column.
const COLUMN_BLOCKS_MAX: usize = 16;

/// What a table takes.
pub(crate) fn table_storage(table: &TableVersion) -> Result<TableStorage> {
    let rowsets: Vec<&Arc<Rowset>> =
        table.partitions.iter().flat_map(|partition| &partition.rowsets).collect();
    let memtables = || table.partitions.iter().flat_map(|partition| partition.memtables());
    let mut storage = TableStorage {
        rows: rowsets.iter().map(|rowset| rowset.meta.rows).sum(),
        disk_bytes: rowsets.iter().map(|rowset| rowset.meta.length_bytes).sum(),
        memory_rows: memtables().map(|memtable| memtable.rows()).sum(),
        memory_bytes: memtables().map(|memtable| memtable.memory_bytes()).sum(),
        parts: Vec::new(),
    };
    let mut sample = Sample::of(&rowsets, &table.schema)?;
    sample.read(&table.schema)?;
    let scaled = |count: u64| match sample.rows {
        0 => 0,
        rows => (u128::from(count) * u128::from(storage.rows) / u128::from(rows)) as u64,
    };
    let mut named_bytes = 0;
    for (part, Part { values, disk_bytes, encodings }) in std::mem::take(&mut sample.parts) {
        let mut encodings: Vec<_> = encodings.into_iter().collect();
        encodings.sort_by_key(|(_, values)| std::cmp::Reverse(*values));
        let (values, disk_bytes) = (scaled(values), scaled(disk_bytes));
        named_bytes += disk_bytes;
        storage.parts.push(PartStorage { part, values, disk_bytes, encodings });
    }
    if storage.disk_bytes > 0 {
        let disk_bytes = storage.disk_bytes.saturating_sub(named_bytes);
        let (part, encodings) = (TablePart::Other, Vec::new());
        storage.parts.push(PartStorage { part, values: 0, disk_bytes, encodings });
    }
    Ok(storage)
}

#[derive(Default)]
struct Part {
    values: u64,
    disk_bytes: u64,
    encodings: BTreeMap<&'static str, u64>,
}

/// The index pages that are read, and what they say.
struct Sample<'a> {
    pages: Vec<(&'a Arc<Rowset>, Arc<LoadedFooter>, usize)>,
    /// A block of each column is read in every so many groups.
    block_step: usize,
    rows: u64,
    parts: BTreeMap<TablePart, Part>,
}

impl<'a> Sample<'a> {
    fn of(rowsets: &[&'a Arc<Rowset>], schema: &TableSchema) -> Result<Self> {
        let mut pages = Vec::new();
        for rowset in every(rowsets, rowsets.len().div_ceil(ROWSETS_MAX)) {
            let footer = rowset.footer()?;
            pages.extend((0..footer.pages.len()).map(|page| (*rowset, footer.clone(), page)));
        }
        let columns = schema.columns.len().max(1);
        let step = (pages.len() * columns).div_ceil(PAGES_MAX);
        let pages: Vec<_> = every(&pages, step).cloned().collect();
        let groups: usize = pages.iter().map(|(_, footer, page)| footer.pages[*page].groups as usize).sum();
        let blocks = (BLOCKS_MAX / columns).clamp(1, COLUMN_BLOCKS_MAX);
        Ok(Self { pages, block_step: groups.div_ceil(blocks).max(1), rows: 0, parts: BTreeMap::new() })
    }

    fn read(&mut self, schema: &TableSchema) -> Result<()> {
        let mut first_group = 0;
        for (rowset, footer, page) in std::mem::take(&mut self.pages) {
            let page = &footer.pages[page];
            let groups = rowset.index_page(&footer, page)?;
            let entries: Vec<GroupEntry> =
                (0..page.groups as usize).map(|group| GroupEntry::at(groups.bytes(), group)).collect();
            let keys = self.parts.entry(TablePart::Keys).or_default();
            for entry in &entries {
                self.rows += u64::from(entry.rows);
                keys.values += u64::from(entry.rows);
                keys.disk_bytes += u64::from(entry.directory.length);
            }
            for (position, (id, stored)) in footer.columns.iter().enumerate() {
                // Columns that were dropped, and sequences for reading the past.
                if schema.column(*id).is_none() {
                    continue;
                }
                let part = self.parts.entry(TablePart::Column(*id)).or_default();
                let Some(column) = rowset.column_page(page, position)? else { continue };
                for (group, entry) in entries.iter().enumerate() {
                    let found = ColumnEntry::at(column.bytes(), group);
                    part.values += u64::from(found.values);
                    part.disk_bytes += u64::from(found.block.length);
                    if (first_group + group).is_multiple_of(self.block_step) && found.block.length > 0 {
                        let block = rowset.column_block(found.block, stored.0, entry.rows, Use::Once)?;
                        let parsed = block.parse(stored.0, entry.rows);
                        let parsed = parsed.map_err(|error| rowset.corrupt_block(found.block, error))?;
                        count_encodings(&parsed.values, &mut part.encodings);
                    }
                }
            }
            first_group += entries.len();
        }
        Ok(())
    }
}

/// Every n-th of some things; 0 is as 1.
fn every<T>(all: &[T], step: usize) -> impl Iterator<Item = &T> {
    all.iter().step_by(step.max(1))
}

fn count_encodings(values: &ValuesBlock<'_>, counts: &mut BTreeMap<&'static str, u64>) {
    let mut count = |name: &'static str, values: usize| *counts.entry(name).or_default() += values as u64;
    match values {
        // Times and numbers of 32 bits are such integers, too.
        ValuesBlock::Integers(block) | ValuesBlock::Unsigned(block) => {
            block.vectors().for_each(|vector| count(vector.encoding.name(), vector.rows.len()));
        }
        ValuesBlock::Floats(block) => {
            block.vectors().for_each(|vector| count(vector.encoding.name(), vector.rows.len()));
        }
        ValuesBlock::Booleans(block) => count("bits", block.len() as usize),
        // The high halves of decimals are mostly constant.
        ValuesBlock::Wide { low, .. } => {
            low.vectors().for_each(|vector| count(vector.encoding.name(), vector.rows.len()));
        }
        ValuesBlock::Bytes(block) => count(block.form_name(), block.len() as usize),
    }
}
