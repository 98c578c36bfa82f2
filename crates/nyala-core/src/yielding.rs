//! How a future says what it is pending for.
//!
//! A light query is cheapest on the thread that received it, but a heavy query must not block other connections there.
//! Only the layers below know which kind a query is. They announce a heavy one by being pending once: a server polls a
//! query in place, and moves it to its thread pool when it is pending. A wait after which little is left to do, such as
//! that of a small write for the log, says so, and stays: to move it would wake two threads more.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

thread_local! {
    /// Whether what was polled last is pending for a short wait.
    static WAITS_SHORTLY: Cell<bool> = const { Cell::new(false) };
}

/// Returns pending once, and is ready when polled again, on whatever thread.
pub async fn before_long_work() {
    let mut polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for something after which little is left to do.
pub async fn short_wait<F: Future>(waited_for: F) -> F::Output {
    let mut waited_for = pin!(waited_for);
    poll_fn(|context| {
        let polled = waited_for.as_mut().poll(context);
        WAITS_SHORTLY.set(polled.is_pending());
        polled
    })
    .await
}

/// Polls a future on a thread that has others to serve. Ready with nothing if the future has to be moved: it has long work
/// to do, or waits for more than [`short_wait`] does.
pub fn poll_light<F: Future + ?Sized>(
    future: Pin<&mut F>,
    context: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    WAITS_SHORTLY.set(false);
    match future.poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if WAITS_SHORTLY.take() => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    }
}
