//! How fast a merge goes: beside writers it rests as long as it works.
//!
//! A large merge takes all that the disk and a processor give, for as long as it lasts, and whoever waits for the log waits for that, too.
//! Nobody needs it to be done at once. So it takes half of the time while they write, and all of it while they do not, or
//! when other merges wait for its thread.

use crate::runtime::signal::WorkSignal;
use crate::stats::Counters;
use nyala_core::Result;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A rest follows so much work.
const WORK: Duration = Duration::from_millis(10);
/// It is as long as that, and no longer than this: a step that had to wait for the disk is no reason to wait again.
const REST_MAX: Duration = Duration::from_millis(100);

/// The pace of one merge.
pub(crate) struct MergePace<'a> {
    signal: &'a WorkSignal,
    /// Tell whether somebody writes; `None` for a merge that somebody waits for.
    writers: Option<&'a Counters>,
    /// When the work since the last rest began, and how many batches had been written then.
    since: Cell<(Instant, u64)>,
}

impl<'a> MergePace<'a> {
    /// As fast as possible.
    pub(crate) fn full(signal: &'a WorkSignal) -> Self {
        Self { signal, writers: None, since: Cell::new((Instant::now(), 0)) }
    }

    /// With rests while batches are written.
    pub(crate) fn beside_writers(signal: &'a WorkSignal, writers: &'a Counters) -> Self {
        let since = Cell::new((Instant::now(), writers.batches.load(Ordering::Relaxed)));
        Self { writers: Some(writers), ..Self { since, ..Self::full(signal) } }
    }

    /// Is called after each step of the merge, and rests if that is due.
    ///
    /// # Errors
    /// The store is closing.
    pub(crate) fn step(&self) -> Result<()> {
        self.signal.check_running()?;
        let (Some(writers), Some(rest)) = (self.writers, self.due_rest()) else { return Ok(()) };
        std::thread::sleep(rest);
        self.since.set((Instant::now(), writers.batches.load(Ordering::Relaxed)));
        Ok(())
    }

    /// How long to rest after the work since the last rest, if it was long enough: not at all if nobody wrote meanwhile.
    fn due_rest(&self) -> Option<Duration> {
        let (writers, (begun, before)) = (self.writers?, self.since.get());
        let worked = begun.elapsed();
        (worked >= WORK).then(|| match writers.batches.load(Ordering::Relaxed) == before {
            true => Duration::ZERO,
            false => worked.min(REST_MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::add;
    use nyala_core::ErrorKind;

    #[test]
    fn a_merge_rests_only_while_somebody_writes() -> Result<()> {
        let (signal, counters) = (WorkSignal::default(), Counters::default());
        let rested = |pace: &MergePace<'_>, writes: bool| -> Result<Option<Duration>> {
            std::thread::sleep(WORK);
            add(&counters.batches, u64::from(writes));
            let (due, begun) = (pace.due_rest(), Instant::now());
            pace.step()?;
            assert!(begun.elapsed() >= due.unwrap_or_default());
            Ok(due)
        };
        let pace = MergePace::beside_writers(&signal, &counters);
        assert!(rested(&pace, true)? >= Some(WORK));
        assert_eq!(rested(&pace, false)?, Some(Duration::ZERO));
        assert!(rested(&pace, true)? >= Some(WORK));
        assert_eq!(rested(&MergePace::full(&signal), true)?, None);
        signal.stop();
        assert_eq!(pace.step().expect_err("it is over").kind(), ErrorKind::Cancelled);
        Ok(())
    }
}
