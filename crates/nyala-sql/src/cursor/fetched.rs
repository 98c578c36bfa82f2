//! The rows of a cursor: what is left of them waits until it is fetched.

use crate::error::{SqlError, SqlResult};
use crate::rows::Rows;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use nyala_exec::memory::MemoryCharge;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A query whose rows are fetched.
#[derive(Clone)]
pub(crate) struct Cursor {
    schema: SchemaRef,
    left: Arc<Mutex<Left>>,
    /// Whether it outlives its transaction.
    pub(crate) is_holdable: bool,
    /// Whether its transaction goes on.
    pub(crate) is_of_transaction: bool,
}

struct Left {
    rows: Rows,
    /// What is left of a batch, and its memory.
    batch: Option<(RecordBatch, Option<MemoryCharge>)>,
}

impl Cursor {
    pub(crate) fn of(rows: Rows, is_holdable: bool) -> Self {
        let schema = rows.schema();
        Self {
            schema,
            left: Arc::new(Mutex::new(Left { rows, batch: None })),
            is_holdable,
            is_of_transaction: false,
        }
    }

    /// The columns of its rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows, at most so many, computed as they are asked for.
    pub(crate) fn fetch(&self, most: u64) -> SendableRecordBatchStream {
        let next = |(left, wanted): (Arc<Mutex<Left>>, u64)| async move {
            let found = left.lock().await.next(wanted).await;
            let batch = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(batch.map(|batch| {
                let wanted = wanted - batch.num_rows() as u64;
                (batch, (left, wanted))
            }))
        };
        let rows = futures::stream::try_unfold((self.left.clone(), most), next);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }

    /// Skips the next rows, at most so many, and says how many there were.
    pub(crate) async fn skip(&self, most: u64) -> SqlResult<u64> {
        let (mut left, mut skipped) = (self.left.lock().await, 0);
        while let Some(batch) = left.next(most - skipped).await? {
            skipped += batch.num_rows() as u64;
        }
        Ok(skipped)
    }
}

impl Left {
    /// The next rows, at most so many.
    async fn next(&mut self, wanted: u64) -> SqlResult<Option<RecordBatch>> {
        if wanted == 0 {
            return Ok(None);
        }
        let batch = loop {
            let next = match self.batch.take() {
                Some((batch, _)) => Some(batch),
                None => self.rows.next().await?,
            };
            match next {
                None => return Ok(None),
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => break batch,
            }
        };
        let count = batch.num_rows().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        if count < batch.num_rows() {
            let rest = batch.slice(count, batch.num_rows() - count);
            let held = self.rows.memory().map(|memory| {
                let mut held = memory.hold();
                held.charge(batch.get_array_memory_size()).map(|()| held)
            });
            self.batch = Some((rest, held.transpose().map_err(SqlError::from)?));
        }
        Ok(Some(batch.slice(0, count)))
    }
}
