//! The rows of a cursor: what is left of them waits until it is fetched. A cursor that can go back keeps what it has passed.

use super::kept::KeptRows;
use super::movement::{Movement, Position, Step, steps};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::rows::{Rows, Running};
use crate::spill::SpillSpace;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::take_record_batch;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;
use nyala_exec::memory::MemoryCharge;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A query whose rows are fetched.
#[derive(Clone)]
pub(crate) struct Cursor {
    schema: SchemaRef,
    fetched: Arc<Mutex<Fetched>>,
    /// What its fetches run as; `None` if its rows were there at once.
    running: Option<Running>,
    /// The query.
    pub(crate) query: Arc<ast::Statement>,
    /// Whether it can go back.
    pub(crate) scrolls: bool,
    /// Whether it outlives its transaction.
    pub(crate) is_holdable: bool,
    /// How many savepoints of its transaction it was declared behind, if that goes on.
    pub(crate) depth: Option<usize>,
    /// The text that declared it.
    pub(crate) text: Arc<str>,
    /// When it was declared, ns since 1970.
    pub(crate) declared_ns: i64,
}

/// How far it was fetched.
struct Fetched {
    rows: Rows,
    position: Position,
    /// All rows that were read, if it can go back.
    kept: Option<KeptRows>,
    /// Otherwise what is left of a batch, and its memory.
    left: Option<(RecordBatch, Option<MemoryCharge>)>,
    /// And the row that was passed last, alone.
    current: Option<RecordBatch>,
}

impl Cursor {
    /// A cursor before its first row. `space` is where it keeps rows that it has passed, if it can go back.
    pub(crate) fn of(rows: Rows, query: Arc<ast::Statement>, space: Option<Arc<SpillSpace>>) -> Self {
        let (schema, running) = (rows.schema(), rows.running().cloned());
        let kept = space.map(|space| KeptRows::new(space, rows.memory().cloned()));
        let scrolls = kept.is_some();
        let fetched = Fetched { rows, position: Position::default(), kept, left: None, current: None };
        Self {
            schema,
            fetched: Arc::new(Mutex::new(fetched)),
            running,
            query,
            scrolls,
            is_holdable: false,
            depth: None,
            text: "".into(),
            declared_ns: 0,
        }
    }

    /// The columns of its rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What its fetches run as: they are a part of its query.
    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// The rows of a movement, computed as they are asked for.
    pub(crate) fn fetch(&self, movement: Movement) -> SendableRecordBatchStream {
        let next = move |(fetched, left): (Arc<Mutex<Fetched>>, Option<Vec<Step>>)| async move {
            let mut own = fetched.lock().await;
            let mut left = left.unwrap_or_else(|| {
                let mut steps = steps(movement, own.position);
                steps.reverse();
                steps
            });
            let batch = own.next_shown(&mut left).await;
            drop(own);
            let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(batch.map(|batch| (batch, (fetched, Some(left)))))
        };
        let rows = futures::stream::try_unfold((self.fetched.clone(), None), next);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }

    /// The row that it stands on, alone.
    pub(crate) async fn current(&self) -> SqlResult<Option<RecordBatch>> {
        let mut own = self.fetched.lock().await;
        if !own.position.is_on_row() {
            return Ok(None);
        }
        let place = own.position.row - 1;
        match &mut own.kept {
            Some(kept) => {
                let (batch, within) = kept.around(place).await?;
                Ok(Some(batch.slice(within, 1)))
            }
            None => Ok(own.current.clone()),
        }
    }

    /// Moves without showing rows, and says how many a fetch would have shown.
    pub(crate) async fn skip(&self, movement: Movement) -> SqlResult<u64> {
        let mut own = self.fetched.lock().await;
        if movement.stays() {
            return Ok(own.position.is_on_row().into());
        }
        let mut passed = 0;
        for step in steps(movement, own.position) {
            match step {
                Step::Rewind => own.rewind()?,
                Step::Skip { is_forward, rows } => drop(own.skip(is_forward, rows).await?),
                Step::Show { is_forward, rows } => passed += own.skip(is_forward, rows).await?,
            }
        }
        Ok(passed)
    }
}

impl Fetched {
    /// The next rows that a movement shows. Its last step comes first; what is left of the steps stays.
    async fn next_shown(&mut self, left: &mut Vec<Step>) -> SqlResult<Option<RecordBatch>> {
        while let Some(step) = left.pop() {
            match step {
                Step::Rewind => self.rewind()?,
                Step::Skip { is_forward, rows } => drop(self.skip(is_forward, rows).await?),
                Step::Show { rows: 0, .. } => {}
                Step::Show { is_forward, rows } => {
                    let shown = match is_forward {
                        true => self.next(rows).await?,
                        false => self.before(rows).await?,
                    };
                    if let Some(batch) = shown {
                        left.push(Step::Show { is_forward, rows: rows - batch.num_rows() as u64 });
                        return Ok(Some(batch));
                    }
                }
            }
        }
        Ok(None)
    }

    fn rewind(&mut self) -> SqlResult<()> {
        if self.kept.is_none() && self.position != Position::default() {
            return Err(only_forward());
        }
        self.position = Position::default();
        Ok(())
    }

    /// Passes rows, at most so many, and says how many there were.
    async fn skip(&mut self, is_forward: bool, rows: u64) -> SqlResult<u64> {
        if !is_forward {
            return match self.kept {
                Some(_) => Ok(if rows == 0 { 0 } else { self.position.step_back(rows) }),
                None => Err(only_forward()),
            };
        }
        let mut passed = 0;
        while passed < rows {
            if let Some(kept) = &self.kept {
                // Those that were read need no second look.
                let known = (kept.rows() - self.position.row).min(rows - passed);
                if known > 0 && !self.position.is_after_end {
                    self.position.row += known;
                    passed += known;
                    continue;
                }
            }
            match self.next(rows - passed).await? {
                Some(batch) => passed += batch.num_rows() as u64,
                None => break,
            }
        }
        Ok(passed)
    }

    /// The next rows, at most so many, of which there is one at least.
    async fn next(&mut self, wanted: u64) -> SqlResult<Option<RecordBatch>> {
        if self.position.is_after_end {
            return Ok(None);
        }
        let found = match self.kept.is_some() {
            true => self.next_kept(wanted).await?,
            false => self.next_left(wanted).await?,
        };
        match &found {
            Some(batch) => self.position.row += batch.num_rows() as u64,
            None => self.position.is_after_end = true,
        }
        Ok(found)
    }

    async fn next_kept(&mut self, wanted: u64) -> SqlResult<Option<RecordBatch>> {
        let place = self.position.row;
        if self.kept.as_ref().is_some_and(|kept| kept.rows() == place) {
            let Some(batch) = self.read().await? else { return Ok(None) };
            if let Some(kept) = &mut self.kept {
                kept.push(batch)?;
            }
        }
        let Some(kept) = &mut self.kept else { return Ok(None) };
        let (batch, within) = kept.around(place).await?;
        let count = (batch.num_rows() - within).min(usize::try_from(wanted).unwrap_or(usize::MAX));
        Ok(Some(batch.slice(within, count)))
    }

    async fn next_left(&mut self, wanted: u64) -> SqlResult<Option<RecordBatch>> {
        let batch = match self.left.take() {
            Some((batch, _)) => Some(batch),
            None => self.read().await?,
        };
        let Some(batch) = batch else { return Ok(None) };
        let count = batch.num_rows().min(usize::try_from(wanted).unwrap_or(usize::MAX));
        if count < batch.num_rows() {
            let rest = batch.slice(count, batch.num_rows() - count);
            let held = self.rows.memory().map(|memory| {
                let mut held = memory.hold();
                held.charge(batch.get_array_memory_size()).map(|()| held)
            });
            self.left = Some((rest, held.transpose().map_err(SqlError::from)?));
        }
        // A copy, which does not hold the others.
        let last = UInt32Array::from(vec![count as u32 - 1]);
        self.current = Some(take_record_batch(&batch, &last).map_err(DataFusionError::from)?);
        Ok(Some(batch.slice(0, count)))
    }

    /// Rows that were not read yet.
    async fn read(&mut self) -> SqlResult<Option<RecordBatch>> {
        loop {
            match self.rows.next().await? {
                Some(batch) if batch.num_rows() == 0 => {}
                other => return Ok(other),
            }
        }
    }

    /// The rows before the current one, at most so many, the nearest first.
    async fn before(&mut self, wanted: u64) -> SqlResult<Option<RecordBatch>> {
        let Some(kept) = &mut self.kept else { return Err(only_forward()) };
        let Some(place) = self.position.before().checked_sub(1) else {
            self.position.step_back(1);
            return Ok(None);
        };
        let (batch, within) = kept.around(place).await?;
        let count = (within + 1).min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let backwards = UInt32Array::from_iter_values((0..count).map(|back| (within - back) as u32));
        let shown = take_record_batch(&batch, &backwards).map_err(DataFusionError::from)?;
        self.position.step_back(count as u64);
        Ok(Some(shown))
    }
}

fn only_forward() -> SqlError {
    SqlError::new(SqlState::WRONG_STATE, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}
