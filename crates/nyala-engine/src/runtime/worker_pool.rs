//! A pool of worker threads for parts of heavy requests.
//!
//! A request that finds no free worker does everything itself.

use nyala_core::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Workers that are busy.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// The queue on which they wait. Threads live on because a new thread would begin with new memory pages.
static WORK: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let (work, waiting) = channel::<Job>();
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..workers_max() {
        let waiting = waiting.clone();
        let work_on = move || {
            loop {
                // Nothing under this lock can panic.
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = next else { return };
                job();
            }
        };
        // If no thread starts, requests get an error.
        drop(std::thread::Builder::new().name("helper".to_owned()).spawn(work_on));
    }
    work
});

fn workers_max() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get()) - 1
}

/// A reserved worker.
pub(crate) struct Worker;

/// The result that a worker will return.
pub(crate) struct WorkerResult<T>(oneshot::Receiver<std::thread::Result<T>>);

impl Worker {
    /// Reserves a worker, if one is free.
    pub(crate) fn take() -> Option<Self> {
        let most = workers_max();
        let taken =
            BUSY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |busy| (busy < most).then_some(busy + 1));
        // A worker that is made gives itself back when it is dropped, so it is made only when it was reserved.
        taken.is_ok().then(|| Worker)
    }

    /// Has the thread run something.
    pub(crate) fn run<T: Send + 'static>(self, task: impl FnOnce() -> T + Send + 'static) -> WorkerResult<T> {
        let (done, result) = oneshot::channel();
        let job = move || {
            let outcome = catch_unwind(AssertUnwindSafe(task));
            drop(self);
            drop(done.send(outcome));
        };
        drop(WORK.send(Box::new(job)));
        WorkerResult(result)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> WorkerResult<T> {
    /// Waits for it, once; panics if the task panicked.
    pub(crate) async fn wait(&mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::retry("no thread could be started to help with the request")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_are_not_free_are_not_given_back() {
        // Other tests take some and give them back meanwhile.
        let taken: Vec<Worker> = (0..workers_max() + 3).filter_map(|_| Worker::take()).collect();
        assert!(taken.len() <= workers_max());
        assert!((taken.len()..=workers_max()).contains(&BUSY.load(Ordering::Relaxed)));
        drop(taken);
        assert!(BUSY.load(Ordering::Relaxed) <= workers_max());
    }
}
