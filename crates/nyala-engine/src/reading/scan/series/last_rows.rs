//! Last rows of series that lie next to each other in a rowset, appended at once.

use super::super::partition::Segment;
use super::super::scan_buffer::Gathered;
use super::{Ids, SeriesScan};
use crate::files::rowset::series::Part;
use crate::rows::column_buffer::VALUE;
use nyala_core::Result;

/// The last rows of neighbouring series in one rowset.
pub(super) struct LastRows {
    pub(super) partition: usize,
    pub(super) cursor: usize,
    pub(super) part: Part,
    /// Where the first of the series is found again.
    pub(super) first: Ids,
}

impl SeriesScan {
    /// Puts the last row of a series behind those that wait, which are appended if it does not lie next to them. False if
    /// one of them turned out not to be shown: the scan has gone back to them then.
    pub(super) fn await_others(&mut self, last: LastRows, gathered: &mut Gathered) -> Result<bool> {
        if let Some(waiting) = &mut self.waiting
            && (waiting.partition, waiting.cursor) == (last.partition, last.cursor)
            && (waiting.part.page, waiting.part.group) == (last.part.page, last.part.group)
            && waiting.part.rows.end == last.part.rows.start
        {
            waiting.part.rows.end = last.part.rows.end;
            return Ok(true);
        }
        let appended = self.append_waiting(gathered)?;
        if appended {
            self.waiting = Some(last);
        }
        Ok(appended)
    }

    /// Appends the rows that wait. False if one of them is not shown, because an older row of its series may be: then
    /// none is appended, and the scan has gone back to the first of their series.
    pub(super) fn append_waiting(&mut self, gathered: &mut Gathered) -> Result<bool> {
        let Some(LastRows { partition, cursor, part, first }) = self.waiting.take() else { return Ok(true) };
        let spec = self.request.spec.clone();
        let (before, rows) = (gathered.piece.rows(), part.rows.len());
        let segment = Segment::Last { cursor, part };
        let Some((cursor, part, _)) = self.reader(partition)?.rows_of_one(&segment) else {
            unreachable!("last rows are of one rowset")
        };
        cursor.append_piece(part, part.rows.clone(), &mut gathered.piece)?;
        let mut shown = vec![!spec.skip_empty_rows; rows];
        for column in spec.returned_cells(&gathered.piece.columns).filter(|_| spec.skip_empty_rows) {
            match &column.states {
                None => shown.fill(true),
                Some(states) => {
                    let cells = shown.iter_mut().zip(&states[before..]);
                    cells.for_each(|(shown, state)| *shown |= *state == VALUE);
                }
            }
        }
        if shown.iter().all(|shown| *shown) {
            return Ok(true);
        }
        gathered.piece.truncate(before);
        gathered.runs.truncate(gathered.runs.len() - rows);
        self.rows_left += rows;
        (self.has_gaps, self.ids) = (true, first);
        Ok(false)
    }
}
