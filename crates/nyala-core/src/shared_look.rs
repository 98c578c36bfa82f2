//! Reading what others change, once for all callers that wait for it.

use crate::error::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// Lets callers share a look at something that others change. A look counts for a caller only if it began after the
/// call, so that the caller sees everything that was there before.
#[derive(Debug, Default)]
pub struct SharedLook {
    looking: Mutex<()>,
    begun: AtomicU64,
    done: AtomicU64,
}

impl SharedLook {
    /// Returns after a look that began after this call has succeeded. `look` is called unless another caller's look
    /// did.
    pub async fn run(&self, look: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let _looking = self.looking.lock().await;
        if self.done.load(Ordering::SeqCst) <= begun_before {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            look().await?;
            self.done.store(number, Ordering::SeqCst);
        }
        Ok(())
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
                    looks.fetch_add(1, Ordering::SeqCst);
                    go_on.notified().await;
                    Ok(())
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
        first.await.unwrap().unwrap();
        while looks.load(Ordering::SeqCst) == 1 {
            tokio::task::yield_now().await;
        }
        go_on.notify_one();
        for other in others {
            other.await.unwrap().unwrap();
        }
        assert_eq!(looks.load(Ordering::SeqCst), 2);
    }
}
