//! Which sequence was the last at which time: what a moment of the past is.
//!
//! Every record of the log has the time at which it was submitted. The time of a sequence is the latest one among the
//! records up to it. So what was acknowledged before a moment belongs to it, and what was submitted after it does not.
//! Times are kept in steps: a moment is the whole step that it lies in.

use crate::files::catalog::TimeStep;
use nyala_core::env::ClockRef;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_core::time::shown_time;
use nyala_core::{Error, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// At most about so many steps are known.
const STEPS_MAX: i64 = 1 << 18;
/// What a step takes, here and in the catalog.
const STEP_BYTES: u64 = 2 * size_of::<TimeStep>() as u64;
/// The shortest step, ns.
const STEP_NS_MIN: i64 = 1_000_000;
/// The step of times that are noted for somebody else's server, ns: nothing is forgotten meanwhile.
const STEP_NS_LEFT: i64 = 10_000_000;
/// Each time that so many more steps are known, new ones are twice as long.
const STEPS_OF_A_LENGTH: usize = 2 * STEPS_MAX as usize;
/// They are doubled so often at most.
const DOUBLINGS_MAX: usize = 16;

/// The steps that are known, and how long the past is kept.
pub(crate) struct History {
    clock: ClockRef,
    kept_ns: i64,
    step_ns: i64,
    steps: Mutex<KnownSteps>,
}

struct KnownSteps {
    steps: VecDeque<TimeStep>,
    charge: Charge,
}

impl KnownSteps {
    fn new(known: impl IntoIterator<Item = TimeStep>, budget: &Arc<MemoryBudget>) -> Self {
        let charge = budget.charge(Component::RowsetIndex, 0);
        let mut known = Self { steps: known.into_iter().collect(), charge };
        known.account();
        known
    }

    fn account(&mut self) {
        self.charge.set(self.steps.len() as u64 * STEP_BYTES);
    }
}

impl History {
    /// A history that goes on from durable steps.
    pub(crate) fn new(
        clock: ClockRef,
        kept: Duration,
        known: impl IntoIterator<Item = TimeStep>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let kept_ns = i64::try_from(kept.as_nanos()).unwrap_or(i64::MAX);
        let step_ns = (kept_ns / STEPS_MAX).max(STEP_NS_MIN);
        Self { clock, kept_ns, step_ns, steps: Mutex::new(KnownSteps::new(known, budget)) }
    }

    /// A history of which nothing is forgotten: the server that keeps it is another one, and knows how long.
    pub(crate) fn left(
        clock: ClockRef,
        known: impl IntoIterator<Item = TimeStep>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let steps = Mutex::new(KnownSteps::new(known, budget));
        Self { clock, kept_ns: i64::MAX, step_ns: STEP_NS_LEFT, steps }
    }

    /// The time of a record that is submitted now.
    pub(crate) fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// Begins with the present, after a sequence, or after the last one whose record was noted since that was read.
    /// Returns where it begins.
    pub(crate) fn begin(&self, sequence: u64) -> TimeStep {
        let time_ns = self.step_of(self.now_ns(), 0);
        let mut known = self.steps.lock();
        let noted = known.steps.back().map_or(0, |last| last.sequence);
        let first = TimeStep { time_ns, sequence: sequence.max(noted) };
        known.steps = VecDeque::from([first]);
        known.account();
        first
    }

    /// The step that a time lies in, when so many are known.
    fn step_of(&self, time_ns: i64, known: usize) -> i64 {
        let step_ns = self.step_ns << (known / STEPS_OF_A_LENGTH).min(DOUBLINGS_MAX);
        time_ns.div_euclid(step_ns).saturating_mul(step_ns)
    }

    /// Notes the time of a record. Called in the order of sequences.
    pub(crate) fn note(&self, time_ns: i64, sequence: u64) {
        let mut known = self.steps.lock();
        let time_ns = self.step_of(time_ns, known.steps.len());
        match known.steps.back_mut() {
            Some(last) if time_ns <= last.time_ns => last.sequence = last.sequence.max(sequence),
            _ => {
                known.steps.push_back(TimeStep { time_ns, sequence });
                known.account();
            }
        }
    }

    /// The error of whoever asks for the past of a store that keeps none.
    pub(crate) fn not_kept() -> Error {
        Error::unsupported("this store has no reads of the past: it keeps no history (setting history)")
    }

    /// The last sequence at a moment. Missing if it lies before all that is known.
    pub(crate) fn sequence_at(&self, time_ns: i64) -> Result<u64> {
        let steps = &self.steps.lock().steps;
        match steps.partition_point(|step| step.time_ns <= time_ns) {
            0 => Err(Error::missing(match steps.front() {
                Some(first) => format!(
                    "what was at {} is not known any more: the history begins at {}",
                    shown_time(time_ns),
                    // Whoever asks for the time that is shown gets an answer.
                    shown_time(first.time_ns.saturating_add(999_999))
                ),
                None => format!("what was at {} is not known", shown_time(time_ns)),
            })),
            after => Ok(steps[after - 1].sequence),
        }
    }

    /// The time of the first moment that is known, ns.
    pub(crate) fn first_ns(&self) -> Option<i64> {
        self.steps.lock().steps.front().map(|step| step.time_ns)
    }

    /// Whether the last moment lies further ahead of the clock than anything is kept: the clock was set back, and times
    /// would stand still for long.
    pub(crate) fn is_ahead(&self) -> bool {
        let last_ns = self.steps.lock().steps.back().map_or(i64::MIN, |step| step.time_ns);
        last_ns > self.now_ns().saturating_add(self.kept_ns)
    }

    /// The last sequence of the moment before which nothing is kept, if it is known.
    pub(crate) fn horizon(&self) -> Option<u64> {
        self.sequence_at(self.now_ns().saturating_sub(self.kept_ns)).ok()
    }

    /// The steps of the sequences after one and up to another.
    pub(crate) fn between(&self, after: u64, last: u64) -> Vec<TimeStep> {
        let steps = &self.steps.lock().steps;
        let begin = steps.partition_point(|step| step.sequence <= after);
        let mut found = Vec::new();
        for step in steps.range(begin..) {
            found.push(TimeStep { sequence: step.sequence.min(last), ..*step });
            if step.sequence >= last {
                break;
            }
        }
        found
    }

    /// Forgets moments before a sequence was the last one.
    pub(crate) fn forget_before(&self, sequence: u64) {
        let mut known = self.steps.lock();
        let forgotten = known.steps.partition_point(|step| step.sequence < sequence);
        known.steps.drain(..forgotten);
        known.account();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::catalog::TimeSteps;
    use nyala_core::env::ManualClock;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_moment_has_what_was_acknowledged_before_it() {
        let clock = Arc::new(ManualClock::new(0));
        let budget = MemoryBudget::new(64 << 20);
        let history = History::new(clock.clone(), Duration::from_secs(10), [], &budget);
        // The second record was submitted with an older time, by another thread.
        for (time_ns, sequence) in
            [(5 * MS, 7), (3 * MS, 8), (9 * MS + 1, 9), (9 * MS + 2, 10), (20 * MS, 12)]
        {
            history.note(time_ns, sequence);
        }
        let at = |ms| history.sequence_at(ms * MS).ok();
        assert_eq!(
            [4, 5, 8, 9, 19, 20, 99].map(at),
            [None, Some(8), Some(8), Some(10), Some(10), Some(12), Some(12)]
        );
        let mut durable = TimeSteps::default();
        durable.append(&history.between(0, 9));
        durable.append(&history.between(9, 12));
        assert!(durable.iter().eq(history.between(0, u64::MAX)));
        assert_eq!(budget.used_bytes(Component::RowsetIndex), 3 * STEP_BYTES);
        assert_eq!(history.horizon(), None);
        clock.set(10_009 * MS);
        assert_eq!(history.horizon(), Some(10));
        assert!(!history.is_ahead());
        history.forget_before(10);
        let copy = History::new(clock, Duration::from_secs(10), history.between(0, u64::MAX), &budget);
        copy.note(30_000 * MS, 13);
        assert!(copy.is_ahead(), "of a clock that was set back");
        assert_eq!((copy.sequence_at(8 * MS).ok(), copy.sequence_at(9 * MS).ok()), (None, Some(10)));
    }

    #[test]
    fn a_history_that_is_left_to_a_server_forgets_nothing_and_tells_moments_apart() {
        let known = [TimeStep { time_ns: 5 * MS, sequence: 7 }];
        let clock = Arc::new(ManualClock::new(40 * MS));
        let history = History::left(clock.clone(), known, &MemoryBudget::new(64 << 20));
        history.note(40 * MS, 8);
        assert_eq!([5, 39, 40].map(|ms| history.sequence_at(ms * MS).ok()), [Some(7), Some(7), Some(8)]);
        clock.set(i64::MAX - 1);
        assert_eq!(history.horizon(), None);
        clock.set(0);
        assert!(!history.is_ahead());
        // However much is written, the steps have room.
        for step in 0..3 * STEPS_OF_A_LENGTH as i64 {
            history.note(step * STEP_NS_LEFT, 8 + step as u64);
        }
        assert!(history.steps.lock().steps.len() < 9 * STEPS_OF_A_LENGTH / 4);
    }

    #[test]
    fn a_history_that_begins_anew_has_records_that_were_noted_meanwhile() {
        let budget = MemoryBudget::new(64 << 20);
        let history = History::new(Arc::new(ManualClock::new(5 * MS)), Duration::from_secs(10), [], &budget);
        history.note(30_000 * MS, 100);
        // The sequence to begin with is read, then another record gets the next one.
        history.note(30_000 * MS, 101);
        assert_eq!(history.begin(100), TimeStep { time_ns: 5 * MS, sequence: 101 });
        assert_eq!(history.sequence_at(5 * MS).ok(), Some(101));
        history.note(6 * MS, 102);
        assert_eq!([5, 6].map(|ms| history.sequence_at(ms * MS).ok()), [Some(101), Some(102)]);
    }
}
