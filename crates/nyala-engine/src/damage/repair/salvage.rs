//! Salvages a damaged rowset: writes what can be read of it as another one.
//!
//! The unit is the block. Where the block of a column cannot be read its cells are absent, and the rows stay; where
//! keys, the directory of series or the deletes of a group cannot, the group is left out: rows that were deleted would
//! come back, or values would stand beside the wrong times.

use crate::files::rowset::Rowset;
use crate::files::rowset::format::{ColumnEntry, GroupEntry, GroupRuns, PageEntry};
use crate::files::rowset::group_blocks::{GroupBlocks, Reason};
use crate::files::rowset::reader::{LoadedFooter, Use};
use crate::files::rowset::writer::{RowsetWriter, value_columns};
use crate::files::schema_format::MARKER_COLUMN;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{ABSENT, Column, Kind, Values};
use crate::rows::key;
use crate::rows::merge::RowBatch;
use nyala_core::{ColumnId, ColumnType, Error, ErrorKind, Result, SeriesId, TableSchema};
use std::sync::Arc;

/// What a salvage left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Rows of groups whose number of rows is known.
    pub(super) rows: u64,
    /// Index pages that cannot be read, with up to 256 groups each.
    pub(super) pages: u64,
    /// Cells of rows that are kept.
    pub(super) cells: u64,
}

/// Markers and columns of a group, without its keys.
struct Others {
    markers: Option<Vec<u8>>,
    columns: Vec<Column>,
}

struct Salvage<'a> {
    rowset: &'a Rowset,
    footer: Arc<LoadedFooter>,
    schema: &'a TableSchema,
    left_out: LeftOut,
}

/// Passes what can be read of a rowset to a writer of a rowset with this schema.
pub(super) fn salvage(rowset: &Rowset, schema: &TableSchema, writer: &mut RowsetWriter) -> Result<LeftOut> {
    let footer = rowset.footer()?;
    let mut salvage = Salvage { rowset, footer: footer.clone(), schema, left_out: LeftOut::default() };
    for page in &footer.pages {
        let Some(entries) = readable(rowset.index_page(&footer, page))? else {
            salvage.left_out.pages += 1;
            continue;
        };
        for group in 0..page.groups as usize {
            let entry = GroupEntry::at(entries.bytes(), group);
            let is_kept = match footer.series_keyed {
                true => salvage.series_group(page, group, &entry, writer)?,
                false => salvage.keyed_group(page, group, &entry, writer)?,
            };
            if !is_kept {
                salvage.left_out.rows += u64::from(entry.rows);
            }
        }
    }
    Ok(salvage.left_out)
}

/// `None` when the data is damaged.
fn readable<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Salvage<'_> {
    fn column(
        &self,
        page: &PageEntry,
        group: usize,
        rows: u32,
        (id, column_type): (ColumnId, ColumnType),
    ) -> Result<Option<Column>> {
        let mut column = Column::new(Kind::of(column_type));
        let Some(position) = self.footer.column(id) else {
            column.push_state(ABSENT, rows as usize);
            return Ok(Some(column));
        };
        let Some(entries) = readable(self.rowset.column_page(page, position))? else { return Ok(None) };
        let entry = entries.map(|entries| ColumnEntry::at(entries.bytes(), group));
        let Some(entry) = entry.filter(|entry| entry.block.length > 0) else {
            column.push_state(ABSENT, rows as usize);
            return Ok(Some(column));
        };
        let block = self.rowset.column_block(entry.block, column_type, rows, Use::Once);
        let Some(block) = readable(block)? else { return Ok(None) };
        let decoded = block.parse(column_type, rows).and_then(|block| block.decode(0..rows, &mut column));
        Ok(decoded.is_ok().then_some(column))
    }

    /// The markers and the columns outside the key; nothing if the markers cannot be read.
    fn others(&mut self, page: &PageEntry, group: usize, rows: u32) -> Result<Option<Others>> {
        let Some(markers) = self.column(page, group, rows, (MARKER_COLUMN, ColumnType::Int8))? else {
            return Ok(None);
        };
        let markers = match (markers.all_values(), &markers.values) {
            (true, Values::Word(words)) => Some(words.iter().map(|word| *word as u8).collect()),
            _ => None,
        };
        let mut columns = Vec::new();
        for (id, column_type) in value_columns(self.schema) {
            let read = self.column(page, group, rows, (id, column_type))?;
            columns.push(read.unwrap_or_else(|| {
                self.left_out.cells += u64::from(rows);
                let mut absent = Column::new(Kind::of(column_type));
                absent.push_state(ABSENT, rows as usize);
                absent
            }));
        }
        Ok(Some(Others { markers, columns }))
    }

    /// Whether the keys of a group could be read, and with them its rows.
    fn series_group(
        &mut self,
        page: &PageEntry,
        group: usize,
        entry: &GroupEntry,
        writer: &mut RowsetWriter,
    ) -> Result<bool> {
        let Some(runs) = readable(self.rowset.runs(entry, Use::Once))? else { return Ok(false) };
        let runs = match runs.as_ref().and_then(|runs| runs.group_runs()) {
            Some(runs) => runs.clone(),
            None => GroupRuns::single(entry.first_series, entry.rows),
        };
        let time = self.schema.key.get(1).copied().ok_or_else(|| Error::invalid("a key without a time"))?;
        let times = self.column(page, group, entry.rows, (time, ColumnType::Timestamp))?;
        let Some(Column { values: Values::Word(times), .. }) = times else { return Ok(false) };
        let Some(Others { markers, columns }) = self.others(page, group, entry.rows)? else {
            return Ok(false);
        };
        let whole = RowBatch { keys: times.iter().map(|time| *time as i64).collect(), markers, columns };
        let kinds: Vec<Kind> =
            value_columns(self.schema).iter().map(|(_, column_type)| Kind::of(*column_type)).collect();
        let mut start = 0;
        for (series, end) in runs.series.iter().zip(&runs.ends) {
            let mut batch = RowBatch::empty(&kinds);
            batch.append(&whole, start..*end as usize);
            writer.push_series(SeriesId(*series), &batch)?;
            start = *end as usize;
        }
        Ok(true)
    }

    fn keyed_group(
        &mut self,
        page: &PageEntry,
        group: usize,
        entry: &GroupEntry,
        writer: &mut RowsetWriter,
    ) -> Result<bool> {
        let Some(keys) = self.keys(page, group, entry)? else { return Ok(false) };
        let Some(Others { markers, columns }) = self.others(page, group, entry.rows)? else {
            return Ok(false);
        };
        writer.push_keyed(&RowBatch { keys, markers, columns })?;
        Ok(true)
    }

    fn keys(&self, page: &PageEntry, group: usize, entry: &GroupEntry) -> Result<Option<ByteVec>> {
        let type_of = |id: &ColumnId| self.schema.column(*id).expect("schemas are validated").column_type;
        let types: Vec<ColumnType> = self.schema.key.iter().map(type_of).collect();
        let mut keys = ByteVec::new();
        if self.footer.version >= 4 {
            // Other blocks may be damaged.
            let none = std::iter::empty();
            let blocks = GroupBlocks::new(self.rowset, *entry, none.clone(), none, Reason::Rewrite);
            let Some(blocks) = readable(blocks)? else { return Ok(None) };
            blocks.keys().decode(0..entry.rows, &mut keys);
            let is_sound = (0..keys.len()).all(|row| key::is_whole(keys.get(row), &types));
            return Ok(is_sound.then_some(keys));
        }
        let mut columns = Vec::new();
        for (id, column_type) in self.schema.key.iter().zip(&types) {
            match self.column(page, group, entry.rows, (*id, *column_type))? {
                Some(column) => columns.push(column),
                None => return Ok(None),
            }
        }
        let mut encoded = Vec::new();
        for row in 0..entry.rows as usize {
            encoded.clear();
            for (column, column_type) in columns.iter().zip(&types) {
                key::encode_decoded(&mut encoded, column, *column_type, row);
            }
            keys.push(&encoded);
        }
        Ok(Some(keys))
    }
}
