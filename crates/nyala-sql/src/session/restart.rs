//! Queries that begin anew before their first rows are there: with fewer rows at once if long texts fill the memory, with joins
//! that sort if one had no memory for its rows, and when what a function waits for has come.
//!
//! Operators gather as many rows as a batch may have, whatever these take, and only rows that were read say what they take.

use crate::contained::contained;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::execution::Execution;
use crate::long_values::cut;
use crate::plans::renewed;
use crate::sorted_joins::{has_hash_join, sorted_joins};
use arrow_schema::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::{StreamExt, TryStreamExt};
use nyala_core::before_long_work;
use std::sync::Arc;
use std::time::Duration;

/// How many rows a batch has if it is not known what fills the memory.
const FEW_ROWS: usize = 32;
/// So often a query begins anew that has no memory although it needs little, with pauses that double: two seconds in all.
const TIMES_FULL_MAX: u32 = 3;
/// How long to wait until the memory that was taken in vain is known to be free again.
const PAUSE: Duration = Duration::from_millis(300);

/// Executes a plan, with few rows in a batch if it has to be. `task` is its task with batches of so many rows. `may_wait`
/// says whether there may be functions in it that wait.
pub(super) fn execute(
    plan: Arc<dyn ExecutionPlan>,
    execution: Arc<Execution>,
    may_wait: bool,
    batch_rows: usize,
    task: impl Fn(usize) -> Result<TaskContext> + Send + 'static,
) -> Result<SendableRecordBatchStream> {
    let gathers_texts = gathers_texts(&plan)?;
    if !gathers_texts && !may_wait && !has_hash_join(&plan)? {
        return execute_stream(plan, Arc::new(task(batch_rows)?));
    }
    let schema = plan.schema();
    let rows = begun(plan, execution, gathers_texts, batch_rows, task);
    let rows = futures::stream::once(rows).try_flatten();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The rows when the first are there, in as few tries as it takes.
async fn begun(
    mut plan: Arc<dyn ExecutionPlan>,
    execution: Arc<Execution>,
    gathers_texts: bool,
    mut batch_rows: usize,
    task: impl Fn(usize) -> Result<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let (mut times_full, mut joins_sort) = (0, false);
    // Some operators begin to read, and to call functions, as soon as they are executed.
    let can_begin_anew = execution.waits().can_begin_anew();
    if gathers_texts {
        execution.long_texts().watch(batch_rows);
    }
    let mut stream = execute_stream(plan.clone(), Arc::new(task(batch_rows)?))?;
    loop {
        let error = match begin(stream).await {
            Ok(begun) => {
                execution.long_texts().ignore();
                return Ok(begun);
            }
            Err(error) => error,
        };
        let sorted = match is_of_memory(&error) && !joins_sort {
            true => sorted_joins(&plan)?,
            false => None,
        };
        batch_rows = match (execution.long_texts().fitting_rows(), sorted) {
            _ if can_begin_anew.wait_in_query().await? => batch_rows,
            (Some(rows), _) => rows,
            (None, Some(sorted)) => {
                (plan, joins_sort) = (sorted, true);
                rest().await;
                batch_rows
            }
            // Several sorts merge at once, each with a batch of every one of its files.
            (None, None) if is_of_memory(&error) && joins_sort && batch_rows > FEW_ROWS => {
                rest().await;
                (batch_rows / 8).max(FEW_ROWS)
            }
            // The memory of all may be full because of others, or of what was taken in vain and is not known to be free yet.
            (None, None) if needs_little(&error, joins_sort) && times_full < TIMES_FULL_MAX => {
                for _ in 0..1 << times_full {
                    rest().await;
                }
                times_full += 1;
                FEW_ROWS
            }
            (None, None) => return Err(error.into()),
        };
        execution.long_texts().watch(batch_rows);
        let task = task(batch_rows)?;
        let plan = cut(renewed(&plan, task.session_config().options())?, batch_rows)?;
        stream = execute_stream(plan, Arc::new(task))?;
    }
}

/// Waits until the memory that was taken in vain is free again.
async fn rest() {
    before_long_work().await;
    tokio::time::sleep(PAUSE).await;
}

/// Waits for the first rows.
async fn begin(mut stream: SendableRecordBatchStream) -> SqlResult<SendableRecordBatchStream> {
    let schema = stream.schema();
    let first = contained(async { Ok(stream.next().await.transpose()?) }).await?;
    let rows = futures::stream::iter(first.map(Ok)).chain(stream);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

fn is_of_memory(error: &SqlError) -> bool {
    [SqlState::OUT_OF_MEMORY, SqlState::TOO_FEW_RESOURCES].contains(&error.code)
}

/// Whether a query that does not get on needs little: few rows at once.
fn needs_little(error: &SqlError, joins_sort: bool) -> bool {
    is_of_long_texts(error) || (joins_sort && is_of_memory(error))
}

/// Whether less memory at once may help.
fn is_of_long_texts(error: &SqlError) -> bool {
    error.code == SqlState::TOO_FEW_RESOURCES || error.is_of_long_batch()
}

/// Whether operators hold rows that have texts.
fn gathers_texts(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        let schema = node.schema();
        let is_text = |own: &DataType| matches!(own, DataType::Utf8 | DataType::Binary | DataType::List(_));
        Ok(!node.children().is_empty() && schema.fields().iter().any(|own| is_text(own.data_type())))
    })
}
