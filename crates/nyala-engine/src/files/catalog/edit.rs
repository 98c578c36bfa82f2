//! The edits of the manifest, and their bytes.

use super::TimeStep;
use crate::files::rowset::{RowsetKind, RowsetMeta};
use crate::files::schema_format::{put_schema, take_schema};
use crate::rows::tombstone::Tombstone;
use crate::rows::wire::{Reader, put_bytes, put_u32, put_u64};
use nyala_core::{ColumnId, Error, Result, TableId, TableSchema, TimeRange};
use std::sync::Arc;

/// A change of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// The numbers given out next are at least these.
    Counters {
        next_table: u32,
        next_partition: u64,
        next_rowset: u64,
    },
    PutTable {
        id: TableId,
        schema: Arc<TableSchema>,
        dropped_columns: Vec<ColumnId>,
    },
    DropTable(TableId),
    PutPartition {
        table: TableId,
        id: u64,
        range: TimeRange,
    },
    /// With the rowsets in it.
    DropPartition {
        table: TableId,
        id: u64,
    },
    PutRowset(RowsetMeta),
    DropRowset {
        table: TableId,
        id: u64,
    },
    /// All tombstones of a table from now on. Only checkpoints have it, and manifests of earlier programs.
    SetTombstones {
        table: TableId,
        tombstones: Vec<Arc<Tombstone>>,
    },
    /// Batches up to here are in rowsets.
    Flushed(u64),
    /// How far the log is.
    Log {
        segment: u64,
        sequence: u64,
    },
    /// All losses that nobody has accepted yet.
    SetLosses(Vec<String>),
    /// A rowset that a compaction made while the past is kept.
    PutCompacted(RowsetMeta),
    /// A rowset is kept only for reading what was before a sequence.
    Retire {
        table: TableId,
        id: u64,
        until_sequence: u64,
    },
    PutVersions(RowsetMeta),
    /// A rowset that was kept for reading the past is not any more.
    ForgetRowset {
        table: TableId,
        id: u64,
    },
    /// When batches were written that were flushed since.
    AddTimes(Vec<TimeStep>),
    /// What was before this sequence is forgotten. 0: the past is not kept.
    ForgetPast(u64),
    /// Tombstones of a table beside those that it has.
    AddTombstones {
        table: TableId,
        tombstones: Vec<Arc<Tombstone>>,
    },
    /// The tombstones of a table with these sequences are gone.
    DropTombstones {
        table: TableId,
        sequences: Vec<u64>,
    },
}

impl Edit {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Edit::Counters { next_table, next_partition, next_rowset } => {
                out.push(0);
                put_u32(out, *next_table);
                put_u64(out, *next_partition);
                put_u64(out, *next_rowset);
            }
            Edit::PutTable { id, schema, dropped_columns } => {
                out.push(1);
                put_u32(out, id.0);
                put_schema(out, schema, dropped_columns);
            }
            Edit::DropTable(id) => {
                out.push(2);
                put_u32(out, id.0);
            }
            Edit::PutPartition { table, id, range } => {
                out.push(3);
                put_u32(out, table.0);
                put_u64(out, *id);
                put_u64(out, range.start_ns as u64);
                put_u64(out, range.end_ns as u64);
            }
            Edit::DropPartition { table, id } => {
                out.push(4);
                put_u32(out, table.0);
                put_u64(out, *id);
            }
            Edit::PutRowset(meta) => {
                out.push(5);
                put_meta(out, meta);
            }
            Edit::DropRowset { table, id } => {
                out.push(6);
                put_u32(out, table.0);
                put_u64(out, *id);
            }
            Edit::SetTombstones { table, tombstones } => {
                out.push(7);
                put_tombstones(out, *table, tombstones);
            }
            Edit::Flushed(sequence) => {
                out.push(8);
                put_u64(out, *sequence);
            }
            Edit::Log { segment, sequence } => {
                out.push(9);
                put_u64(out, *segment);
                put_u64(out, *sequence);
            }
            Edit::SetLosses(losses) => {
                out.push(10);
                put_u32(out, losses.len() as u32);
                losses.iter().for_each(|loss| put_bytes(out, loss.as_bytes()));
            }
            Edit::PutCompacted(meta) => {
                out.push(11);
                put_meta(out, meta);
                put_u64(out, meta.since_sequence);
            }
            Edit::Retire { table, id, until_sequence } => {
                out.push(12);
                put_u32(out, table.0);
                put_u64(out, *id);
                put_u64(out, *until_sequence);
            }
            Edit::PutVersions(meta) => {
                out.push(13);
                put_meta(out, meta);
            }
            Edit::ForgetRowset { table, id } => {
                out.push(14);
                put_u32(out, table.0);
                put_u64(out, *id);
            }
            Edit::AddTimes(steps) => {
                out.push(15);
                put_u32(out, steps.len() as u32);
                for step in steps {
                    put_u64(out, step.time_ns as u64);
                    put_u64(out, step.sequence);
                }
            }
            Edit::ForgetPast(sequence) => {
                out.push(16);
                put_u64(out, *sequence);
            }
            Edit::AddTombstones { table, tombstones } => {
                out.push(17);
                put_tombstones(out, *table, tombstones);
            }
            Edit::DropTombstones { table, sequences } => {
                out.push(18);
                put_u32(out, table.0);
                put_u32(out, sequences.len() as u32);
                sequences.iter().for_each(|sequence| put_u64(out, *sequence));
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.u8()? {
            0 => Edit::Counters {
                next_table: reader.u32()?,
                next_partition: reader.u64()?,
                next_rowset: reader.u64()?,
            },
            1 => {
                let id = TableId(reader.u32()?);
                let (schema, dropped_columns) = take_schema(reader)?;
                Edit::PutTable { id, schema: Arc::new(schema), dropped_columns }
            }
            2 => Edit::DropTable(TableId(reader.u32()?)),
            3 => Edit::PutPartition {
                table: TableId(reader.u32()?),
                id: reader.u64()?,
                range: TimeRange::new(reader.i64()?, reader.i64()?),
            },
            4 => Edit::DropPartition { table: TableId(reader.u32()?), id: reader.u64()? },
            5 => Edit::PutRowset(take_meta(reader, RowsetKind::Rows)?),
            6 => Edit::DropRowset { table: TableId(reader.u32()?), id: reader.u64()? },
            7 => {
                let (table, tombstones) = take_tombstones(reader)?;
                Edit::SetTombstones { table, tombstones }
            }
            8 => Edit::Flushed(reader.u64()?),
            9 => Edit::Log { segment: reader.u64()?, sequence: reader.u64()? },
            10 => Edit::SetLosses((0..reader.u32()?).map(|_| reader.text()).collect::<Result<_>>()?),
            11 => {
                let meta = take_meta(reader, RowsetKind::Rows)?;
                Edit::PutCompacted(RowsetMeta { since_sequence: reader.u64()?, ..meta })
            }
            12 => Edit::Retire {
                table: TableId(reader.u32()?),
                id: reader.u64()?,
                until_sequence: reader.u64()?,
            },
            13 => Edit::PutVersions(take_meta(reader, RowsetKind::Versions)?),
            14 => Edit::ForgetRowset { table: TableId(reader.u32()?), id: reader.u64()? },
            15 => {
                let step = |reader: &mut Reader<'_>| -> Result<TimeStep> {
                    Ok(TimeStep { time_ns: reader.i64()?, sequence: reader.u64()? })
                };
                Edit::AddTimes((0..reader.u32()?).map(|_| step(reader)).collect::<Result<_>>()?)
            }
            16 => Edit::ForgetPast(reader.u64()?),
            17 => {
                let (table, tombstones) = take_tombstones(reader)?;
                Edit::AddTombstones { table, tombstones }
            }
            18 => Edit::DropTombstones {
                table: TableId(reader.u32()?),
                sequences: (0..reader.u32()?).map(|_| reader.u64()).collect::<Result<_>>()?,
            },
            other => return Err(Error::invalid(format!("unknown edit {other}"))),
        })
    }
}

/// The edit that names a new rowset.
pub(crate) fn put_rowset(meta: RowsetMeta) -> Edit {
    if meta.since_sequence > 0 { Edit::PutCompacted(meta) } else { Edit::PutRowset(meta) }
}

fn put_meta(out: &mut Vec<u8>, meta: &RowsetMeta) {
    put_u64(out, meta.id);
    put_u32(out, meta.table.0);
    let numbers = [
        meta.partition,
        meta.min_sequence,
        meta.max_sequence,
        meta.rows,
        meta.length_bytes,
        meta.min_time_ns as u64,
        meta.max_time_ns as u64,
    ];
    numbers.iter().for_each(|number| put_u64(out, *number));
}

fn take_meta(reader: &mut Reader<'_>, kind: RowsetKind) -> Result<RowsetMeta> {
    Ok(RowsetMeta {
        id: reader.u64()?,
        table: TableId(reader.u32()?),
        partition: reader.u64()?,
        kind,
        min_sequence: reader.u64()?,
        max_sequence: reader.u64()?,
        since_sequence: 0,
        rows: reader.u64()?,
        length_bytes: reader.u64()?,
        min_time_ns: reader.i64()?,
        max_time_ns: reader.i64()?,
    })
}

fn put_tombstones(out: &mut Vec<u8>, table: TableId, tombstones: &[Arc<Tombstone>]) {
    put_u32(out, table.0);
    put_u32(out, tombstones.len() as u32);
    tombstones.iter().for_each(|tombstone| tombstone.encode(out));
}

fn take_tombstones(reader: &mut Reader<'_>) -> Result<(TableId, Vec<Arc<Tombstone>>)> {
    let table = TableId(reader.u32()?);
    let count = reader.u32()?;
    let take = |_| Tombstone::decode(reader).map(Arc::new);
    Ok((table, (0..count).map(take).collect::<Result<_>>()?))
}
