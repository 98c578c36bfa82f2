//! Requests to other machines, for callers that wait for them as they wait for a disk.
//!
//! A thread of its own sends them and hears the answers, so it does not matter what runtime the caller has, or whether it has
//! one.

use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use tokio::runtime::{Builder, Handle, Runtime};

/// Does something there, and waits for it.
pub(crate) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, outcome) = sync_channel(1);
    handle().spawn(async move { drop(done.send(work.await)) });
    outcome.recv().expect("the work neither panics nor is given up")
}

/// Where such work runs.
pub(crate) fn handle() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("objects").enable_all();
        builder.build().expect("the system gives a thread and an event queue")
    });
    runtime.handle()
}
