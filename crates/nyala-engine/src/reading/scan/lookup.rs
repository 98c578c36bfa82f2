//! One row of a table with any key, found by its whole key: from the newest source to the oldest, until no cell is
//! missing.

use super::filter::{test, test_empty};
use super::keyed_rows::{key_column, key_types};
use super::pending_batch::KeyColumns;
use super::scan_spec::ScanSpec;
use crate::files::rowset::lookup::SoughtKey;
use crate::memory::version::TableVersion;
use crate::rows::byte_vec::ByteVec;
use crate::rows::column_buffer::{Column, Values};
use crate::rows::newest_row::NewestRow;
use crate::rows::projection::Projection;
use crate::rows::tombstone::hidden_to;
use async_trait::async_trait;
use nyala_core::store::{Batch, RowStream};
use nyala_core::{ColumnType, Result};

/// The newest version of the row of a key, as far as it has the projected cells. Nothing where there is no row.
pub(crate) fn newest_row(
    table: &TableVersion,
    sequence: u64,
    key: &[u8],
    projection: &Projection,
) -> Result<Option<NewestRow>> {
    let Some(position) = table.partition_at(time_of(table, key)) else { return Ok(None) };
    let partition = &table.partitions[position];
    let mut newest = NewestRow::new(projection);
    let tombstones = &table.tombstones[..table.tombstones.partition_point(|each| each.sequence <= sequence)];
    let hidden_to = hidden_to(tombstones, key);
    let memtables: Vec<_> = partition.memtables().collect();
    for memtable in memtables.into_iter().rev() {
        memtable.check()?;
        let keyed = memtable.keyed().expect("a table not keyed by series");
        let visible = (memtable.visible_at(sequence), hidden_to);
        keyed.add_versions(key, projection, visible, &mut newest)?;
        if newest.is_settled() {
            return Ok(newest.exists().then_some(newest));
        }
    }
    let sought = SoughtKey::new(key);
    for rowset in partition.key_layers()?.around(key) {
        if rowset.hidden_from() <= hidden_to {
            continue;
        }
        rowset.add_version(&table.schema, sought, projection, &mut newest)?;
        if newest.is_settled() {
            break;
        }
    }
    Ok(newest.exists().then_some(newest))
}

/// The time in a key, if the table is partitioned by it; else any.
pub(crate) fn time_of(table: &TableVersion, key: &[u8]) -> i64 {
    let Some(position) = table.schema.time_key() else { return 0 };
    let types = key_types(&table.schema);
    let mut columns = KeyColumns::new(&types, |own| own == position);
    columns.push(key);
    match &columns.column(position).values {
        Values::Word(words) => words[0] as i64,
        _ => unreachable!("times are words"),
    }
}

/// The answer to a scan of one key: at most one row.
pub(crate) struct Lookup {
    row: Option<(Vec<u8>, Vec<Column>)>,
    spec: ScanSpec,
    key_types: Vec<ColumnType>,
}

impl Lookup {
    pub(crate) fn new(table: &TableVersion, sequence: u64, spec: ScanSpec, key: Vec<u8>) -> Result<Self> {
        let newest = newest_row(table, sequence, &key, &spec.projection)?;
        let row = newest.map(|newest| (key, newest.into_cells()));
        Ok(Self { row, spec, key_types: key_types(&table.schema) })
    }
}

#[async_trait]
impl RowStream for Lookup {
    async fn next(&mut self) -> Result<Option<Batch>> {
        let Some((key, cells)) = self.row.take() else { return Ok(None) };
        let mut keys = ByteVec::new();
        keys.push(&key);
        let of_key = |position: usize| key_column(&keys, &self.key_types, position);
        let mut keep = test(&self.spec, 1, &cells, of_key);
        test_empty(&self.spec, 1, &cells, &mut keep);
        if keep.is_some_and(|keep| !keep[0]) {
            return Ok(None);
        }
        let columns = self.spec.arrays(cells, of_key)?;
        Ok(Some(Batch { rows: 1, series: Vec::new(), columns }))
    }
}
