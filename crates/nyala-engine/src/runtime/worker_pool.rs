//! Threads that help with heavy requests.
//!
//! They are counted: requests that find none do all themselves.

use nyala_core::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that help now.
static HELPING: AtomicUsize = AtomicUsize::new(0);

/// Where they wait for work, each with the memory it has used before: a fresh thread would begin with fresh pages.
static WORK: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let (work, waiting) = channel::<Job>();
    let waiting = Arc::new(Mutex::new(waiting));
    for _ in 0..helpers_max() {
        let waiting = waiting.clone();
        let work_on = move || {
            loop {
                // Nothing under this lock can panic.
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = next else { return };
                job();
            }
        };
        // Where no thread starts, whoever asks is told that nobody will answer.
        drop(std::thread::Builder::new().name("helper".to_owned()).spawn(work_on));
    }
    work
});

fn helpers_max() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get()) - 1
}

/// A thread that may help.
pub(crate) struct Helper;

/// What a helping thread will have made.
pub(crate) struct Helped<T>(oneshot::Receiver<std::thread::Result<T>>);

impl Helper {
    /// One that has nothing to do, if any.
    pub(crate) fn take() -> Option<Self> {
        let most = helpers_max();
        let taken = HELPING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |helping| {
            (helping < most).then_some(helping + 1)
        });
        taken.is_ok().then_some(Helper)
    }

    /// Has the thread run something.
    pub(crate) fn run<T: Send + 'static>(self, task: impl FnOnce() -> T + Send + 'static) -> Helped<T> {
        let (done, result) = oneshot::channel();
        let job = move || {
            let outcome = catch_unwind(AssertUnwindSafe(task));
            drop(self);
            drop(done.send(outcome));
        };
        drop(WORK.send(Box::new(job)));
        Helped(result)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        HELPING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Helped<T> {
    /// Waits for it, once; panics if the making did.
    pub(crate) async fn wait(&mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::retry("no thread could be started to help with the request")),
        }
    }
}
