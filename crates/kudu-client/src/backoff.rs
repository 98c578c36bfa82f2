//! How long one operation waits between its attempts.

use std::time::Duration;

use rand::Rng;
use tokio::time::{Instant, sleep};

/// Exponential backoff with jitter.
#[derive(Debug)]
pub(crate) struct Backoff {
    attempt: u32,
    first: Duration,
    max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { attempt: 0, first: Duration::from_millis(8), max: Duration::from_secs(1) }
    }
}

impl Backoff {
    pub(crate) fn next_delay(&mut self) -> Duration {
        let ceiling = self.first.saturating_mul(1 << self.attempt.min(16)).min(self.max);
        self.attempt += 1;
        ceiling.mul_f64(rand::rng().random_range(0.5..1.0))
    }

    /// Waits; `false` when the deadline would pass first.
    pub(crate) async fn wait(&mut self, deadline: Instant) -> bool {
        let delay = self.next_delay();
        if Instant::now() + delay >= deadline {
            return false;
        }
        sleep(delay).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_rise_to_a_bound() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..20).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] <= Duration::from_millis(8));
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(1)));
        assert!(delays[19] >= Duration::from_millis(500));
    }
}
