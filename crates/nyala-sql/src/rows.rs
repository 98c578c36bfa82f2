//! The rows of an answer, and how a statement ends early.

use crate::command_tag::CommandTag;
use crate::contained::contained;
use crate::dry_run::counted_columns;
use crate::error::{SqlError, SqlResult};
use crate::rewrite::named_fields;
use crate::waits::TransactionLocks;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array};
use arrow_schema::SchemaRef;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::running::QueryGuard;
use std::sync::Arc;

/// In the metadata of a schema: its row is what a statement did that gives no rows.
pub(crate) const COMMAND_KEY: &str = "nyala.command";

/// Commands that count the rows that they show.
const SELECT: &str = "SELECT";
pub(crate) const FETCH: &str = "FETCH";

/// The rows of an answer, which are computed as they are asked for. The statement runs until this is dropped.
pub struct Rows {
    stream: SendableRecordBatchStream,
    /// `None` if the rows are there already.
    running: Option<Running>,
    /// What a statement did that changed the rows that it returns.
    tag: Option<CommandTag>,
    /// The command that shows them, as PostgreSQL reports it.
    command: &'static str,
    /// What rows that are there take.
    _held: Option<MemoryCharge>,
}

/// What a statement holds as long as it runs. The fetches of a cursor share what its query holds.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) guard: Arc<QueryGuard>,
    pub(crate) memory: QueryMemory,
    pub(crate) text: Arc<str>,
    /// What is locked for the statement alone.
    pub(crate) _locks: Arc<TransactionLocks>,
}

impl Running {
    /// Waits for a step of the statement, unless it is stopped: killed, cancelled, or out of time.
    pub(crate) async fn unless_stopped<T, E: Into<SqlError>>(
        &self,
        step: impl Future<Output = Result<T, E>>,
    ) -> SqlResult<T> {
        let query = self.guard.query();
        tokio::select! {
            biased;
            error = query.stopped() => Err(error.into()),
            done = step => done.map_err(|error| error.into().placed_in(&self.text)),
        }
    }
}

impl Rows {
    pub(crate) fn of(stream: SendableRecordBatchStream, running: Running) -> Self {
        Self::part_of(stream, Some(running))
    }

    /// Rows that a statement gives which runs already; `None`: its rows were there at once.
    pub(crate) fn part_of(stream: SendableRecordBatchStream, running: Option<Running>) -> Self {
        Self { stream, running, tag: None, command: SELECT, _held: None }
    }

    /// The statement that gives them.
    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.as_ref()
    }

    /// The same rows, whose columns have the names that were announced.
    #[must_use]
    pub(crate) fn named(mut self, announced: Option<&SchemaRef>) -> Self {
        let computed = self.stream.schema();
        let Some(schema) = announced.map(|announced| named_fields(&computed, announced)) else { return self };
        if schema != computed {
            let shown = schema.clone();
            let renamed = self.stream.map(move |batch| {
                let options = RecordBatchOptions::new()
                    .with_row_count(Some(batch.as_ref().map_or(0, RecordBatch::num_rows)));
                let columns = batch?.columns().to_vec();
                Ok(RecordBatch::try_new_with_options(shown.clone(), columns, &options)?)
            });
            self.stream = Box::pin(RecordBatchStreamAdapter::new(schema, renamed));
        }
        self
    }

    /// The same rows, shown by another command than a query.
    #[must_use]
    pub(crate) fn shown_by(self, command: &'static str) -> Self {
        Self { command, ..self }
    }

    /// What was done when so many rows were taken, as PostgreSQL reports it.
    pub fn completed(&self, taken: u64) -> String {
        match (&self.tag, self.command) {
            (Some(tag), _) => tag.to_string(),
            (None, SELECT | FETCH) => format!("{} {taken}", self.command),
            (None, command) => command.to_owned(),
        }
    }

    /// Rows that are there already.
    pub(crate) fn ready(rows: RecordBatch) -> Self {
        let schema = rows.schema();
        let stream = RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(rows)]));
        Self::part_of(Box::pin(stream), None)
    }

    /// The rows that a change returns, and what it did.
    pub(crate) fn returned(
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
        tag: CommandTag,
        held: MemoryCharge,
    ) -> Self {
        Self::kept(schema, rows, Some(tag), held)
    }

    /// Rows that were gathered.
    pub(crate) fn kept(
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
        tag: Option<CommandTag>,
        held: MemoryCharge,
    ) -> Self {
        let stream = RecordBatchStreamAdapter::new(schema, futures::stream::iter(rows.into_iter().map(Ok)));
        Self { stream: Box::pin(stream), running: None, tag, command: SELECT, _held: Some(held) }
    }

    /// How many rows a change would change.
    pub(crate) fn counted(rows: u64) -> Self {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![rows as i64]));
        Self::ready(RecordBatch::try_new(counted_columns(), vec![counts]).expect("the column is as declared"))
    }

    /// What the statement did, if it changed the rows that it returns; otherwise it was a query.
    pub fn tag(&self) -> Option<&CommandTag> {
        self.tag.as_ref()
    }

    /// What a statement did that gives no rows, as a row. Its schema says so ([`COMMAND_KEY`]).
    pub fn of_command(tag: &CommandTag) -> Self {
        let command: ArrayRef = Arc::new(StringArray::from(vec![tag.command]));
        let affected: ArrayRef = Arc::new(UInt64Array::from(vec![tag.rows]));
        let mut columns = vec![("command", command, false), ("rows_affected", affected, true)];
        if let Some(change) = tag.change {
            columns.push(("change", Arc::new(UInt64Array::from(vec![change.0])), false));
        }
        let rows = RecordBatch::try_from_iter_with_nullable(columns).expect("the lengths are equal");
        let schema =
            rows.schema().as_ref().clone().with_metadata([(COMMAND_KEY.to_owned(), String::new())].into());
        Self::ready(rows.with_schema(schema.into()).expect("the columns are the same"))
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// The memory that the statement may use, which its answer is charged to as well; `None` for few rows.
    pub fn memory(&self) -> Option<&QueryMemory> {
        self.running.as_ref().map(|running| &running.memory)
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// What goes wrong while rows are computed. Cancelled if the statement was stopped.
    pub async fn next(&mut self) -> SqlResult<Option<RecordBatch>> {
        let Self { stream, running, .. } = self;
        let next = contained(async { Ok(stream.next().await.transpose()?) });
        match running {
            Some(running) => running.unless_stopped(next).await,
            None => next.await,
        }
    }
}
