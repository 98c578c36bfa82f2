//! How a future announces that its next step takes long.
//!
//! A light query is cheapest on the thread that received it, but a heavy query must not block other connections there.
//! Only the layers below know which kind a query is. They announce a heavy one by being pending once: a server polls a
//! query once in place, and moves it to its thread pool if it did not finish.

use std::future::poll_fn;
use std::task::Poll;

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
