//! The points of a key that the log wrote, and what it deleted of them.
//!
//! A deletion concerns the points before it. All of them are applied at once, from the last to the first: a program that
//! deletes often costs no look at all points each time.

use crate::values::{Kind, Points};
use std::collections::BTreeMap;

/// Points in the order in which they were written, and deletions between them.
pub(super) struct Written {
    pub(super) points: Points,
    deletions: Vec<Deletion>,
}

/// Times that were deleted.
struct Deletion {
    /// Of so many points: those that had been written.
    points: usize,
    first_ns: i64,
    last_ns: i64,
}

impl Written {
    /// No points of a type.
    pub(super) fn new(kind: Kind) -> Self {
        Self { points: Points::new(kind), deletions: Vec::new() }
    }

    /// Deletes the points that were written so far between two times. Returns how many bytes it takes to know that.
    pub(super) fn delete(&mut self, first_ns: i64, last_ns: i64) -> usize {
        let points = self.points.len();
        if points == 0 || first_ns > last_ns {
            return 0;
        }
        self.deletions.push(Deletion { points, first_ns, last_ns });
        size_of::<Deletion>()
    }

    /// The points that are left, in the order in which they were written.
    pub(super) fn left(self) -> Points {
        let Self { points, mut deletions } = self;
        if deletions.is_empty() {
            return points;
        }
        let (mut deleted, mut is_left) = (Times::default(), vec![true; points.len()]);
        for index in (0..points.len()).rev() {
            while let Some(deletion) = deletions.pop_if(|deletion| deletion.points > index) {
                deleted.add(deletion.first_ns, deletion.last_ns);
            }
            is_left[index] = !deleted.contains(points.times_ns[index]);
        }
        let (mut left, mut start) = (Points::new(points.values.kind()), 0);
        for index in 0..=points.len() {
            if is_left.get(index) != Some(&true) {
                left.extend(&points, start..index);
                start = index + 1;
            }
        }
        left
    }
}

/// Ranges of times that have none in common: the first of each, and its last.
#[derive(Default)]
struct Times(BTreeMap<i64, i64>);

impl Times {
    fn add(&mut self, mut first_ns: i64, mut last_ns: i64) {
        while let Some((from, to)) = self.range_before(last_ns)
            && to >= first_ns
        {
            self.0.remove(&from);
            (first_ns, last_ns) = (first_ns.min(from), last_ns.max(to));
        }
        self.0.insert(first_ns, last_ns);
    }

    fn contains(&self, time_ns: i64) -> bool {
        self.range_before(time_ns).is_some_and(|(_, to)| to >= time_ns)
    }

    /// The last range that begins at a time or before.
    fn range_before(&self, time_ns: i64) -> Option<(i64, i64)> {
        self.0.range(..=time_ns).next_back().map(|(from, to)| (*from, *to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Values;

    /// Applied at once, deletions leave what they would have left one after the other.
    #[test]
    fn deletions_concern_the_points_before_them() {
        // Numbers that look random, always the same.
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as i64
        };
        for _ in 0..200 {
            let (mut written, mut expected) = (Written::new(Kind::Integer), Vec::new());
            for value in 0..60 {
                if next(3) == 0 {
                    let (first_ns, last_ns) = match next(12) {
                        0 => (i64::MIN, next(20)),
                        1 => (next(20), i64::MAX),
                        _ => (next(20), next(20)),
                    };
                    written.delete(first_ns, last_ns);
                    expected.retain(|(time_ns, _)| !(first_ns..=last_ns).contains(time_ns));
                } else {
                    let time_ns = next(20);
                    written.points.times_ns.push(time_ns);
                    let Values::Integer(values) = &mut written.points.values else { unreachable!() };
                    values.push(value);
                    expected.push((time_ns, value));
                }
            }
            let left = written.left();
            let Values::Integer(values) = left.values else { unreachable!() };
            let found: Vec<(i64, i64)> = left.times_ns.into_iter().zip(values).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn ranges_that_meet_are_one() {
        let mut times = Times::default();
        for _ in 0..1000 {
            (0..10).for_each(|first_ns| times.add(first_ns, first_ns + 1));
        }
        assert_eq!(times.0, BTreeMap::from([(0, 10)]));
        times.add(i64::MIN, i64::MAX);
        assert!(times.contains(i64::MIN) && times.contains(i64::MAX) && times.0.len() == 1);
    }
}
