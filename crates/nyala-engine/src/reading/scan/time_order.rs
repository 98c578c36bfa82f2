//! Scans of series-keyed tables in order of time.
//!
//! Times are cut into slices; a slice is read series by series, sorted, and handed out. A reader that goes on to the
//! third is taken to read them all: from then on a slice is read on another thread, where one is free, while the one
//! before is handed out.

use super::BATCH_ROWS;
use super::scan_buffer::{Gathered, batch_of};
use super::series::SeriesRequest;
use super::slices::{Room, Slices};
use super::sorting::{Band, Bands};
use crate::runtime::block_on;
use crate::runtime::worker_pool::{Helped, Helper};
use arrow_array::ArrayRef;
use async_trait::async_trait;
use nyala_core::store::{Batch, Direction, RowStream, SeriesRun};
use nyala_core::{Result, SeriesId};
use std::sync::Arc;

/// Slices after which the next are read ahead.
const SLICES_IN_PLACE: usize = 2;

/// A scan under way.
pub(crate) struct TimeScan {
    request: SeriesRequest,
    /// Where series stand at one time, by id; those that are not listed stand last.
    ranks: Vec<(SeriesId, u32)>,
    rows_left: usize,
    source: Source,
    /// How many slices were begun to be handed out.
    slices: usize,
    slice: Option<Bands>,
    band: Option<Rows>,
    /// Room for the rows of a slice to come.
    spare: Room,
}

/// Where the next slice comes from.
enum Source {
    Here(Box<Slices>),
    /// Another thread reads it, until nobody holds the second any more.
    Ahead(Helped<(Box<Slices>, Result<Option<Gathered>>)>, Arc<()>),
    Ended,
}

/// The rows of a band, being handed out.
struct Rows {
    columns: Vec<ArrayRef>,
    /// The series of each row.
    series: Vec<SeriesId>,
    /// How many were handed out.
    given: usize,
}

impl TimeScan {
    pub(crate) fn new(request: SeriesRequest, ties: &[SeriesId]) -> Self {
        let mut ranks: Vec<(SeriesId, u32)> = ties.iter().copied().zip(0..).collect();
        ranks.sort_unstable();
        Self {
            ranks,
            rows_left: request.limit.unwrap_or(usize::MAX),
            source: Source::Here(Box::new(Slices::new(request.clone()))),
            request,
            slices: 0,
            slice: None,
            band: None,
            spare: Room::default(),
        }
    }

    /// The next rows of the slice at hand, or of the next one; false at the end.
    async fn next_band(&mut self) -> Result<bool> {
        loop {
            if self.rows_left == 0 {
                return Ok(false);
            }
            if let Some(slice) = &mut self.slice {
                while let Some(Band { piece, series }) = slice.next() {
                    let batch = batch_of(&self.request.spec, Vec::new(), piece)?;
                    if let Some(batch) = batch {
                        self.band = Some(Rows { columns: batch.columns, series, given: 0 });
                        return Ok(true);
                    }
                }
            }
            if let Some(slice) = self.slice.take() {
                self.spare = Some(slice.into_room());
            }
            let Some(gathered) = self.next_slice().await? else { return Ok(false) };
            let backward = self.request.direction == Direction::Backward;
            let ranks = &self.ranks;
            let rank = |series: SeriesId| {
                let listed = ranks.binary_search_by_key(&series, |(listed, _)| *listed);
                listed.map_or(u32::MAX, |at| ranks[at].1)
            };
            self.slice = Some(Bands::new(gathered, rank, backward));
        }
    }

    async fn next_slice(&mut self) -> Result<Option<Gathered>> {
        // Whoever stops waiting loses nothing: what is under way stays in its place.
        let gathered = match &mut self.source {
            Source::Here(slices) => slices.next(std::mem::take(&mut self.spare)).await,
            Source::Ahead(helped, _wanted) => {
                let helped = helped.wait().await;
                self.source = Source::Ended;
                let (slices, gathered) = helped?;
                self.source = Source::Here(slices);
                gathered
            }
            Source::Ended => return Ok(None),
        };
        let Some(gathered) = gathered? else {
            self.source = Source::Ended;
            return Ok(None);
        };
        self.slices += 1;
        if self.slices >= SLICES_IN_PLACE && self.request.limit.is_none() {
            self.read_ahead();
        }
        Ok(Some(gathered))
    }

    /// Has another thread read the next slice, if there may be one and a thread is free.
    fn read_ahead(&mut self) {
        self.source = match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Here(mut slices) if !slices.is_at_end() => match Helper::take() {
                None => Source::Here(slices),
                Some(helper) => {
                    let wanted = Arc::new(());
                    let (still_wanted, room) = (Arc::downgrade(&wanted), std::mem::take(&mut self.spare));
                    let helped = helper.run(move || {
                        let gathered = block_on::while_wanted(slices.next(room), &still_wanted);
                        (slices, gathered)
                    });
                    Source::Ahead(helped, wanted)
                }
            },
            source => source,
        };
    }
}

impl Rows {
    /// The next rows, if any are left.
    fn next(&mut self, rows_max: usize) -> Option<Batch> {
        let rows = rows_max.min(self.series.len() - self.given);
        let columns = self.columns.iter().map(|column| column.slice(self.given, rows)).collect();
        let mut runs: Vec<SeriesRun> = Vec::with_capacity(rows);
        for series in &self.series[self.given..self.given + rows] {
            match runs.last_mut() {
                Some(run) if run.series == *series => run.rows += 1,
                _ => runs.push(SeriesRun { series: *series, rows: 1 }),
            }
        }
        self.given += rows;
        (rows > 0).then_some(Batch { rows, series: runs, columns })
    }
}

#[async_trait]
impl RowStream for TimeScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            let rows_max = BATCH_ROWS.min(self.rows_left);
            if let Some(batch) = self.band.as_mut().and_then(|rows| rows.next(rows_max)) {
                self.rows_left -= batch.rows;
                return Ok(Some(batch));
            }
            self.band = None;
            if !self.next_band().await? {
                return Ok(None);
            }
        }
    }
}
