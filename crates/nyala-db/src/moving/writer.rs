//! Writes rows to the target, several batches at a time.

use nyala_core::store::{Operation, StoreRef, WriteBatch};
use nyala_core::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::task::JoinSet;

/// Batches under way at once, so that the next is read while others are written.
const AT_ONCE: usize = 4;
/// The most cells of a batch: 8 MB of numbers, which is little beside what either store holds.
const CELLS_MAX: usize = 1 << 20;
/// The most rows of a batch.
const ROWS_MAX: usize = 10_000;
/// How long the target may have no room, or not answer, before a move gives up.
const RETRY_TIMEOUT: Duration = Duration::from_secs(300);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Takes operations none of which concerns the key of another.
pub(super) struct Writer {
    store: StoreRef,
    running: JoinSet<Result<()>>,
}

impl Writer {
    pub(super) fn new(store: &StoreRef) -> Self {
        Self { store: store.clone(), running: JoinSet::new() }
    }

    /// Hands over an operation. An error may be that of an earlier one.
    pub(super) async fn write(&mut self, operation: Operation) -> Result<()> {
        let (rows, columns) = (operation.rows(), columns_of(&operation).max(1));
        let at_once = (CELLS_MAX / columns).clamp(1, ROWS_MAX);
        for begin in (0..rows).step_by(at_once) {
            while self.running.len() >= AT_ONCE {
                self.wait_for_one().await?;
            }
            let part = operation.slice(begin, at_once.min(rows - begin));
            self.running.spawn(write_patiently(self.store.clone(), WriteBatch { operations: vec![part] }));
        }
        Ok(())
    }

    /// Waits until everything is durable.
    pub(super) async fn finish(mut self) -> Result<()> {
        while !self.running.is_empty() {
            self.wait_for_one().await?;
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> Result<()> {
        match self.running.join_next().await {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(error)) => Err(Error::new(ErrorKind::Io, format!("a write ended early: {error}"))),
        }
    }
}

fn columns_of(operation: &Operation) -> usize {
    match operation {
        Operation::Upsert(upsert) => upsert.columns.len(),
        Operation::DeleteKeys { keys, .. } => keys.len(),
    }
}

/// Writes a batch again as long as there is hope. It sets the same cells each time.
async fn write_patiently(store: StoreRef, batch: WriteBatch) -> Result<()> {
    let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
    loop {
        match store.write(batch.clone()).await {
            Err(error)
                if matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unknown)
                    && waited < RETRY_TIMEOUT =>
            {
                tokio::time::sleep(pause).await;
                waited += pause;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            written => return written.map(drop),
        }
    }
}
