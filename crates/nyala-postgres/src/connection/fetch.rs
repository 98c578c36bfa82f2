//! Sends the rows of an answer, as many as are asked for. What is left of a batch waits with the rows that follow it.

use super::wire::{SEND_BYTES, Wire};
use super::{Stop, unless_closed};
use crate::error::Failure;
use crate::message::backend;
use crate::value::types::ColumnType;
use crate::value::{Column, Format, RowWriter, WrittenRows};
use arrow_array::RecordBatch;
use nyala_core::before_long_work;
use nyala_exec::Zone;
use nyala_exec::memory::MemoryCharge;
use nyala_sql::{CommandTag, Rows};
use std::ops::Range;

/// Writing so many cells takes about a millisecond.
const LIGHT_CELLS: usize = 16 << 10;

/// Rows that are being sent.
pub(super) struct Fetch {
    rows: Rows,
    columns: Vec<(ColumnType, Format)>,
    /// What times are shown in.
    zone: Zone,
    written: WrittenRows,
    /// What is left of a batch: the batch, its next row, and its memory.
    left: Option<Left>,
}

struct Left {
    batch: RecordBatch,
    next: usize,
    _charge: Option<MemoryCharge>,
}

/// What was sent.
pub(super) struct Sent {
    pub(super) rows: u64,
    /// Whether there are no more rows.
    pub(super) is_end: bool,
}

impl Fetch {
    /// Rows to be sent as columns of these types and formats, with times as clocks of a zone show them.
    pub(super) fn of(rows: Rows, columns: Vec<(ColumnType, Format)>, zone: Zone) -> Self {
        Self { rows, columns, zone, written: WrittenRows::default(), left: None }
    }

    /// Sends at most so many rows; 0: all. As in PostgreSQL, whether rows follow the last of them is not looked at.
    pub(super) async fn send(&mut self, wire: &mut Wire, most: usize) -> Result<Sent, Stop> {
        let most = if most == 0 { u64::MAX } else { most as u64 };
        let mut sent = 0;
        while sent < most {
            let Some((batch, first)) = self.next_batch(wire).await? else {
                return Ok(Sent { rows: sent, is_end: true });
            };
            let wanted = usize::try_from(most - sent).unwrap_or(usize::MAX);
            let end = batch.num_rows().min(first.saturating_add(wanted));
            self.send_batch(wire, &batch, first..end).await?;
            sent += (end - first) as u64;
            if end < batch.num_rows() {
                self.keep(batch, end)?;
            }
        }
        Ok(Sent { rows: sent, is_end: false })
    }

    /// What was done, as PostgreSQL reports it.
    pub(super) fn completed(&self, sent: &Sent) -> String {
        self.rows.completed(sent.rows)
    }

    /// What the statement did, if it changed the rows that it returns.
    pub(super) fn tag(&self) -> Option<&CommandTag> {
        self.rows.tag()
    }

    async fn send_batch(
        &mut self,
        wire: &mut Wire,
        batch: &RecordBatch,
        rows: Range<usize>,
    ) -> Result<(), Stop> {
        if rows.len() * self.columns.len() > LIGHT_CELLS {
            before_long_work().await;
        }
        let columns = batch.columns().iter().zip(&self.columns);
        let columns = columns.map(|(array, (column, format))| Column::of(array, *column, *format));
        let columns = columns.map(|own| Ok(own?.in_zone(self.zone))).collect::<Result<_, Failure>>()?;
        let mut writer = RowWriter::of(columns, batch.columns(), &mut self.written, self.rows.memory());
        let mut rows = rows;
        while !rows.is_empty() {
            write_rows(&mut wire.output, &mut writer, &mut rows)?;
            wire.send_if_many().await?;
        }
        Ok(())
    }

    async fn next_batch(&mut self, wire: &mut Wire) -> Result<Option<(RecordBatch, usize)>, Stop> {
        if let Some(left) = self.left.take() {
            return Ok(Some((left.batch, left.next)));
        }
        let next = unless_closed(wire, self.rows.next()).await??;
        Ok(next.map(|batch| (batch, 0)))
    }

    fn keep(&mut self, batch: RecordBatch, next: usize) -> Result<(), Stop> {
        let charge = match self.rows.memory() {
            Some(memory) => {
                let mut charge = memory.hold();
                charge.charge(batch.get_array_memory_size()).map_err(Failure::from)?;
                Some(charge)
            }
            None => None,
        };
        self.left = Some(Left { batch, next, _charge: charge });
        Ok(())
    }
}

/// Writes rows until there are enough bytes to send.
fn write_rows(out: &mut Vec<u8>, writer: &mut RowWriter<'_>, rows: &mut Range<usize>) -> Result<(), Failure> {
    while out.len() < SEND_BYTES
        && let Some(row) = rows.next()
    {
        backend::data_row(out, writer.columns(), |out| writer.write(row, out))?;
    }
    Ok(())
}
