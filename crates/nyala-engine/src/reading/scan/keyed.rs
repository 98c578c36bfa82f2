//! Scans of tables with any key: batches of [`KeyedRows`], the next one read by a worker thread while the caller has the
//! one before.

use super::keyed_rows::KeyedRows;
use super::scan_spec::ScanSpec;
use crate::memory::version::TableVersion;
use crate::rows::key::KeyRange;
use crate::runtime::block_on;
use crate::runtime::worker_pool::{Worker, WorkerResult};
use async_trait::async_trait;
use nyala_core::Result;
use nyala_core::memory::{Charge, MemoryBudget};
use nyala_core::store::{Batch, Direction, RowStream};
use std::sync::Arc;

/// Batches after which the next one is read ahead.
const BATCHES_IN_PLACE: usize = 2;

/// A scan under way.
pub(crate) struct KeyedScan {
    source: BatchSource,
    /// For the batch that was returned last.
    returned: Option<Charge>,
    /// How many batches were returned.
    batches: usize,
    is_limited: bool,
}

/// The next batch, if there is one, and what reads on from there.
type ReadAhead = (Box<KeyedRows>, Result<Option<(Batch, Charge)>>);

/// Where the next batch comes from.
enum BatchSource {
    Inline(Box<KeyedRows>),
    /// A worker thread reads it while the second value is held.
    Prefetched(WorkerResult<ReadAhead>, Arc<()>),
    Ended,
}

impl KeyedScan {
    pub(crate) fn new(
        table: &TableVersion,
        visible: (u64, &Arc<MemoryBudget>),
        spec: ScanSpec,
        range: &KeyRange,
        direction: Direction,
        limit: Option<usize>,
        limit_per_prefix: Option<usize>,
    ) -> Result<Self> {
        let rows = KeyedRows::new(table, visible, spec, range, direction, limit, limit_per_prefix)?;
        let source = BatchSource::Inline(Box::new(rows));
        Ok(Self { source, returned: None, batches: 0, is_limited: limit.is_some() })
    }

    /// Lets a worker thread read the next batch, if one is free.
    fn read_ahead(&mut self) {
        self.source = match std::mem::replace(&mut self.source, BatchSource::Ended) {
            BatchSource::Inline(mut rows) => match Worker::take() {
                None => BatchSource::Inline(rows),
                Some(worker) => {
                    let wanted = Arc::new(());
                    let still_wanted = Arc::downgrade(&wanted);
                    let result = worker.run(move || {
                        let batch = block_on::while_wanted(rows.next(), &still_wanted);
                        (rows, batch)
                    });
                    BatchSource::Prefetched(result, wanted)
                }
            },
            source => source,
        };
    }
}

#[async_trait]
impl RowStream for KeyedScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        // A caller that stops waiting loses nothing: the batch under way stays here.
        let batch = match &mut self.source {
            BatchSource::Inline(rows) => rows.next().await,
            BatchSource::Prefetched(result, _wanted) => {
                let result = result.wait().await;
                self.source = BatchSource::Ended;
                let (rows, batch) = result?;
                self.source = BatchSource::Inline(rows);
                batch
            }
            BatchSource::Ended => return Ok(None),
        };
        self.returned = None;
        let Some((batch, charge)) = batch? else {
            self.source = BatchSource::Ended;
            return Ok(None);
        };
        self.returned = Some(charge);
        self.batches += 1;
        if self.batches >= BATCHES_IN_PLACE && !self.is_limited {
            self.read_ahead();
        }
        Ok(Some(batch))
    }
}
