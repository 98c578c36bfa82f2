//! Where calls are worked on: in the thread pool, so that a long statement holds up no connection.

use crate::error::panicked;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tonic::Status;

/// Does something in the thread pool. If this is dropped, the work ends at its next pause. A panic is an error of the call.
pub(crate) async fn in_pool<T: Send + 'static>(
    pool: &Handle,
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    // Dropping the set aborts the task.
    let mut tasks = JoinSet::new();
    tasks.spawn_on(work, pool);
    match tasks.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) if error.is_panic() => Err(panicked()),
        _ => Err(Status::unavailable("the server stops")),
    }
}
