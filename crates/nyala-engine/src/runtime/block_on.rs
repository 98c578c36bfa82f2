//! Waiting for a future on a thread that has nothing else to do.

use nyala_core::{Error, Result};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end. For maintenance threads, worker threads, and programs without a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs a future to its end, or until the last strong reference of `wanted` is dropped.
pub(crate) fn while_wanted<T>(future: impl Future<Output = Result<T>>, wanted: &Weak<()>) -> Result<T> {
    let mut future = pin!(future);
    block_on(poll_fn(|context| match wanted.strong_count() {
        0 => Poll::Ready(Err(Error::retry("the request was given up"))),
        _ => future.as_mut().poll(context),
    }))
}
