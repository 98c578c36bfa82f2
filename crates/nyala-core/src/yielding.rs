//! How a future says that what it does next takes long.
//!
//! A light query is cheapest where it was received; a heavy one must not hold up its neighbours there. Only the
//! layers below know which it is, so they say it by being pending once: a server polls a query once in place
//! and moves it to its pool of threads if that did not finish it.

use std::future::poll_fn;
use std::task::Poll;

/// Is pending once, and ready when polled again, wherever that is.
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
