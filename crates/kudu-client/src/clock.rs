//! Kudu's hybrid clock, as far as a client uses it.
//!
//! A timestamp is microseconds since 1970 shifted left by 12 bits, with a counter in the low bits. The client keeps
//! the largest timestamp that any server returned and sends it with each request (the propagated timestamp), so that
//! its reads see its own writes.

use std::sync::atomic::{AtomicU64, Ordering};

const LOGICAL_BITS: u32 = 12;

/// A point in the cluster's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The timestamp of a wall clock time, in microseconds since 1970; beyond 2112 the last one that there is.
    pub fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1 << LOGICAL_BITS))
    }

    /// Its wall clock part, in microseconds since 1970.
    pub fn micros(self) -> u64 {
        self.0 >> LOGICAL_BITS
    }
}

/// The largest timestamp seen.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn observe(&self, timestamp: Option<u64>) {
        if let Some(timestamp) = timestamp {
            self.0.fetch_max(timestamp, Ordering::Relaxed);
        }
    }

    pub(crate) fn latest(&self) -> Option<u64> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            seen => Some(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let clock = Clock::default();
        assert_eq!(clock.latest(), None);
        clock.observe(Some(7));
        clock.observe(Some(3));
        clock.observe(None);
        assert_eq!(clock.latest(), Some(7));
        assert_eq!(Timestamp::from_micros(5).micros(), 5);
    }
}
