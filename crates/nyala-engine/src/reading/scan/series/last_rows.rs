//! Last rows of series that lie next to each other in a rowset, appended at once.

use super::super::partition::Segment;
use super::super::scan_buffer::ScanBuffer;
use super::{Ids, SeriesScan};
use crate::files::rowset::series::Part;
use crate::rows::column_buffer::VALUE;
use nyala_core::Result;

/// The last rows of neighbouring series in one rowset.
pub(super) struct LastRowRun {
    pub(super) partition: usize,
    pub(super) cursor: usize,
    pub(super) part: Part,
    /// Where the first of these series is in the list of ids.
    pub(super) first: Ids,
}

impl SeriesScan {
    /// Adds the last row of a series to the waiting ones. If it does not lie next to them, they are appended first.
    /// False if one of them has no value to show: then the scan has gone back to it.
    pub(super) fn await_others(&mut self, last: LastRowRun, buffer: &mut ScanBuffer) -> Result<bool> {
        if let Some(waiting) = &mut self.waiting
            && (waiting.partition, waiting.cursor) == (last.partition, last.cursor)
            && (waiting.part.page, waiting.part.group) == (last.part.page, last.part.group)
            && waiting.part.rows.end == last.part.rows.start
        {
            waiting.part.rows.end = last.part.rows.end;
            return Ok(true);
        }
        let appended = self.append_waiting(buffer)?;
        if appended {
            self.waiting = Some(last);
        }
        Ok(appended)
    }

    /// Appends the waiting rows. False if one of them has no value to show, because an older row of its series may have
    /// one: then none is appended, and the scan has gone back to the first of their series.
    pub(super) fn append_waiting(&mut self, buffer: &mut ScanBuffer) -> Result<bool> {
        let Some(LastRowRun { partition, cursor, part, first }) = self.waiting.take() else {
            return Ok(true);
        };
        let spec = self.request.spec.clone();
        let (before, rows) = (buffer.batch.rows(), part.rows.len());
        let segment = Segment::Last { cursor, part };
        let Some((cursor, part, _)) = self.reader(partition)?.rows_of_one(&segment) else {
            unreachable!("last rows are of one rowset")
        };
        cursor.append_batch(part, part.rows.clone(), &mut buffer.batch)?;
        let mut shown = vec![!spec.skip_empty_rows; rows];
        for column in spec.returned_cells(&buffer.batch.columns).filter(|_| spec.skip_empty_rows) {
            match &column.validity {
                None => shown.fill(true),
                Some(validity) => {
                    let cells = shown.iter_mut().zip(&validity[before..]);
                    cells.for_each(|(shown, state)| *shown |= *state == VALUE);
                }
            }
        }
        if shown.iter().all(|shown| *shown) {
            return Ok(true);
        }
        buffer.batch.truncate(before);
        buffer.runs.truncate(buffer.runs.len() - rows);
        self.rows_left += rows;
        (self.has_gaps, self.ids) = (true, first);
        Ok(false)
    }
}
