//! How fast a backup may go: so that what is beside it on a disk or a network keeps its share.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Makes whoever moves bytes wait as long as they may take.
#[derive(Debug, Default)]
pub struct RateLimit {
    /// `None`: as fast as it goes.
    bytes_per_second: Option<u64>,
    /// When all that was moved so far may be there.
    due: Option<Instant>,
}

impl RateLimit {
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second, due: None }
    }

    /// Waits, after some bytes were moved, until they may be there.
    pub fn wait(&mut self, bytes: u64) {
        sleep(self.pause(bytes, Instant::now()));
    }

    /// Time that was spent otherwise is not caught up on: that would be faster than the limit.
    fn pause(&mut self, bytes: u64, now: Instant) -> Duration {
        let Some(bytes_per_second) = self.bytes_per_second else { return Duration::ZERO };
        let begin = self.due.map_or(now, |due| due.max(now));
        let due = begin + Duration::from_secs_f64(bytes as f64 / bytes_per_second.max(1) as f64);
        self.due = Some(due);
        due - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_as_long_as_the_limit_says() {
        let (mut limit, now) = (RateLimit::new(Some(1000)), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(limit.pause(500, now), Duration::from_millis(500));
        assert_eq!(limit.pause(1000, now), Duration::from_millis(1500));
        // What took long is not caught up on.
        assert_eq!(limit.pause(1000, after(10)), Duration::from_secs(1));
        assert_eq!(limit.pause(1000, after(10)), Duration::from_secs(2));
        assert_eq!(RateLimit::new(None).pause(u64::MAX, now), Duration::ZERO);
    }
}
