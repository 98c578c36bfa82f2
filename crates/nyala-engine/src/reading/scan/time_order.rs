//! Scans of series-keyed tables in order of time.
//!
//! Times are cut into slices; a slice is read series by series, sorted, and returned. A reader that goes on to the
//! third slice is expected to read all: from then on the next slice is read on a worker thread, when one is free, while
//! the one before is returned.

use super::BATCH_ROWS;
use super::scan_buffer::{ScanBuffer, batch_of};
use super::series::SeriesRequest;
use super::slices::Slices;
use super::sorting::{Band, Bands};
use crate::runtime::block_on;
use crate::runtime::worker_pool::{Worker, WorkerResult};
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
    /// The order of series that have rows at one time, by id; series that are not listed come last.
    ranks: Vec<(SeriesId, u32)>,
    rows_left: usize,
    source: SliceSource,
    /// How many slices were started.
    slices: usize,
    slice: Option<Bands>,
    band: Option<BandRows>,
    /// The buffer of an earlier slice, to be reused.
    spare: Option<ScanBuffer>,
}

/// Where the next slice comes from.
enum SliceSource {
    Inline(Box<Slices>),
    /// A worker thread reads it while the second value is held.
    Prefetched(WorkerResult<(Box<Slices>, Result<Option<ScanBuffer>>)>, Arc<()>),
    Ended,
}

/// The rows of a band, being handed out.
struct BandRows {
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
            source: SliceSource::Inline(Box::new(Slices::new(request.clone()))),
            request,
            slices: 0,
            slice: None,
            band: None,
            spare: None,
        }
    }

    /// The next rows of the slice at hand, or of the next one; false at the end.
    async fn next_band(&mut self) -> Result<bool> {
        loop {
            if self.rows_left == 0 {
                return Ok(false);
            }
            if let Some(slice) = &mut self.slice {
                while let Some(Band { batch, series }) = slice.next() {
                    let batch = batch_of(&self.request.spec, Vec::new(), batch)?;
                    if let Some(batch) = batch {
                        self.band = Some(BandRows { columns: batch.columns, series, given: 0 });
                        return Ok(true);
                    }
                }
            }
            if let Some(slice) = self.slice.take() {
                self.spare = Some(slice.into_buffer());
            }
            let Some(buffer) = self.next_slice().await? else { return Ok(false) };
            let backward = self.request.direction == Direction::Backward;
            let ranks = &self.ranks;
            let rank = |series: SeriesId| {
                let listed = ranks.binary_search_by_key(&series, |(listed, _)| *listed);
                listed.map_or(u32::MAX, |at| ranks[at].1)
            };
            self.slice = Some(Bands::new(buffer, rank, backward));
        }
    }

    async fn next_slice(&mut self) -> Result<Option<ScanBuffer>> {
        // A caller that stops waiting loses nothing: the slice under way stays here.
        let buffer = match &mut self.source {
            SliceSource::Inline(slices) => slices.next(std::mem::take(&mut self.spare)).await,
            SliceSource::Prefetched(result, _wanted) => {
                let result = result.wait().await;
                self.source = SliceSource::Ended;
                let (slices, buffer) = result?;
                self.source = SliceSource::Inline(slices);
                buffer
            }
            SliceSource::Ended => return Ok(None),
        };
        let Some(buffer) = buffer? else {
            self.source = SliceSource::Ended;
            return Ok(None);
        };
        self.slices += 1;
        if self.slices >= SLICES_IN_PLACE && self.request.limit.is_none() {
            self.read_ahead();
        }
        Ok(Some(buffer))
    }

    /// Lets a worker thread read the next slice, if there may be one and a worker is free.
    fn read_ahead(&mut self) {
        self.source = match std::mem::replace(&mut self.source, SliceSource::Ended) {
            SliceSource::Inline(mut slices) if !slices.is_at_end() => match Worker::take() {
                None => SliceSource::Inline(slices),
                Some(worker) => {
                    let wanted = Arc::new(());
                    let (still_wanted, spare) = (Arc::downgrade(&wanted), std::mem::take(&mut self.spare));
                    let result = worker.run(move || {
                        let buffer = block_on::while_wanted(slices.next(spare), &still_wanted);
                        (slices, buffer)
                    });
                    SliceSource::Prefetched(result, wanted)
                }
            },
            source => source,
        };
    }
}

impl BandRows {
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
