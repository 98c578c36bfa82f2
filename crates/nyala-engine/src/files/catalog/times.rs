//! When batches were written, in steps of time. They may be hundreds of thousands, and each edit of the manifest makes a new state of
//! the catalog: states share all of them but the last few.

use std::collections::VecDeque;
use std::sync::Arc;

/// Steps that are shared or copied together: 16 KiB.
const PART_STEPS: usize = 1024;

/// The last sequence of a step of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeStep {
    /// The beginning of the step.
    pub(crate) time_ns: i64,
    pub(crate) sequence: u64,
}

/// Steps in order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct TimeSteps {
    /// None is empty.
    parts: VecDeque<Arc<Vec<TimeStep>>>,
}

impl PartialEq for TimeSteps {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for TimeSteps {}

impl TimeSteps {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TimeStep> {
        self.parts.iter().flat_map(|part| part.iter().copied())
    }

    /// Adds steps; the first one may go on with the last one that is there.
    pub(crate) fn append(&mut self, more: &[TimeStep]) {
        for step in more {
            match self.parts.back_mut().map(Arc::make_mut) {
                Some(part) if part.last().is_some_and(|last| step.time_ns <= last.time_ns) => {
                    if let Some(last) = part.last_mut() {
                        last.sequence = last.sequence.max(step.sequence);
                    }
                }
                Some(part) if part.len() < PART_STEPS => part.push(*step),
                _ => self.parts.push_back(Arc::new(vec![*step])),
            }
        }
    }

    /// Forgets steps whose last sequence is before another one.
    pub(crate) fn forget_before(&mut self, sequence: u64) {
        let is_before = |step: &TimeStep| step.sequence < sequence;
        while self.parts.pop_front_if(|part| part.iter().all(is_before)).is_some() {}
        if let Some(first) = self.parts.front_mut().filter(|part| part.first().is_some_and(is_before)) {
            let first = Arc::make_mut(first);
            first.drain(..first.partition_point(is_before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_copy_shares_what_does_not_change() {
        let step = |number: u64| TimeStep { time_ns: number as i64, sequence: number };
        let all: Vec<_> = (1..=100_000).map(step).collect();
        let mut steps = TimeSteps::default();
        steps.append(&all);
        let (before, mut after) = (steps.clone(), steps);
        after.append(&[TimeStep { time_ns: 100_000, sequence: 100_007 }, step(100_008)]);
        assert!(before.iter().eq(all.iter().copied()), "it is as it was");
        let parts = before.parts.iter().zip(&after.parts);
        assert_eq!(parts.filter(|(before, after)| !Arc::ptr_eq(before, after)).count(), 1);
        let before = after.clone();
        after.forget_before(5000);
        assert_eq!(after.iter().next(), Some(step(5000)));
        let kept = before.parts.len() - after.parts.len();
        let parts = before.parts.iter().skip(kept).zip(&after.parts);
        assert_eq!(parts.filter(|(before, after)| !Arc::ptr_eq(before, after)).count(), 1);
        after.forget_before(u64::MAX);
        assert!(after.is_empty());
    }

    proptest! {
        #[test]
        fn they_are_what_a_list_would_be(
            changes in prop::collection::vec((prop::collection::vec(0_i64..3, 0..900), 0_u64..2000), 1..8),
        ) {
            let (mut steps, mut list) = (TimeSteps::default(), Vec::<TimeStep>::new());
            let (mut time_ns, mut sequence) = (0, 0);
            for (added, forgotten) in changes {
                for later in added {
                    (time_ns, sequence) = (time_ns + later, sequence + 1);
                    let step = TimeStep { time_ns, sequence };
                    steps.append(&[step]);
                    match list.last_mut() {
                        Some(last) if last.time_ns == time_ns => *last = step,
                        _ => list.push(step),
                    }
                }
                steps.forget_before(forgotten);
                list.retain(|step| step.sequence >= forgotten);
                prop_assert!(steps.iter().eq(list.iter().copied()));
                prop_assert_eq!(steps.is_empty(), list.is_empty());
            }
        }
    }
}
