//! Reading what others change, once for all callers that wait for it.

use crate::error::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// Lets callers share a look at something that others change. A look counts for a caller only if it began after the
/// call, so that the caller sees everything that was there before.
#[derive(Debug)]
pub struct SharedLook<Seen> {
    begun: AtomicU64,
    /// The number of the last look that succeeded, and what it saw. Locked by whoever looks.
    last: Mutex<Option<(u64, Seen)>>,
}

impl<Seen> Default for SharedLook<Seen> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: Mutex::new(None) }
    }
}

impl<Seen: Clone> SharedLook<Seen> {
    /// What a look saw that began after this call. `look` is called unless another caller's look did.
    pub async fn run(&self, look: impl AsyncFnOnce() -> Result<Seen>) -> Result<Seen> {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((number, seen)) = &*last
            && *number > begun_before
        {
            return Ok(seen.clone());
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let seen = look().await?;
        *last = Some((number, seen.clone()));
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use tokio::sync::Notify;

    #[tokio::test]
    async fn callers_that_wait_share_the_next_look() {
        let (shared, looks, go_on) =
            (Arc::new(SharedLook::default()), Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let call = || {
            let (shared, looks, go_on) = (shared.clone(), looks.clone(), go_on.clone());
            tokio::spawn(async move {
                let look = async || {
                    let number = looks.fetch_add(1, Ordering::SeqCst);
                    go_on.notified().await;
                    Ok(number)
                };
                shared.run(look).await
            })
        };
        let first = call();
        while looks.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // The first look had begun before these calls, so it does not count for them.
        let others: Vec<_> = (0..5).map(|_| call()).collect();
        tokio::task::yield_now().await;
        go_on.notify_one();
        assert_eq!(first.await.unwrap().unwrap(), 0);
        while looks.load(Ordering::SeqCst) == 1 {
            tokio::task::yield_now().await;
        }
        go_on.notify_one();
        for other in others {
            assert_eq!(other.await.unwrap().unwrap(), 1);
        }
        assert_eq!(looks.load(Ordering::SeqCst), 2);
    }
}
