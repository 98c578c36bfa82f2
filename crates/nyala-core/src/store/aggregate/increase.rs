//! The increase of a counter.
//!
//! A counter only grows. It restarts at zero when the counting process restarts: a value that is less than the one
//! before it is the count since the restart. The first and last values and their times are returned too, for callers
//! that extrapolate to the ends of a window as Prometheus' `increase` and `rate` do.

/// Increases by slot. Where `counts` is 0, the other members mean nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Increases {
    /// The number of values.
    pub counts: Vec<u64>,
    /// The increase from the first value to the last.
    pub increases: Vec<f64>,
    /// The first values.
    pub first: Vec<f64>,
    /// Their times, ns.
    pub first_ns: Vec<i64>,
    /// The last values.
    pub last: Vec<f64>,
    /// Their times, ns.
    pub last_ns: Vec<i64>,
}

/// The increase from one value to the next.
fn step(from: f64, to: f64) -> f64 {
    if to < from { to } else { to - from }
}

impl Increases {
    /// Slots without values.
    pub fn empty(slots: usize) -> Self {
        Self {
            counts: vec![0; slots],
            increases: vec![0.0; slots],
            first: vec![0.0; slots],
            first_ns: vec![0; slots],
            last: vec![0.0; slots],
            last_ns: vec![0; slots],
        }
    }

    /// Adds the next value of a slot.
    pub fn add(&mut self, slot: usize, time_ns: i64, value: f64) {
        if self.counts[slot] == 0 {
            (self.first[slot], self.first_ns[slot]) = (value, time_ns);
        } else {
            self.increases[slot] += step(self.last[slot], value);
        }
        (self.last[slot], self.last_ns[slot]) = (value, time_ns);
        self.counts[slot] += 1;
    }

    /// Appends a slot of `later` to a slot. Its values are later than those of the slot.
    pub fn append_slot(&mut self, slot: usize, later: &Self, other: usize) {
        if later.counts[other] == 0 {
            return;
        }
        if self.counts[slot] == 0 {
            (self.first[slot], self.first_ns[slot]) = (later.first[other], later.first_ns[other]);
            self.increases[slot] = later.increases[other];
        } else {
            self.increases[slot] += step(self.last[slot], later.first[other]);
            self.increases[slot] += later.increases[other];
        }
        (self.last[slot], self.last_ns[slot]) = (later.last[other], later.last_ns[other]);
        self.counts[slot] += later.counts[other];
    }

    /// Appends slots.
    pub fn extend(&mut self, more: Self) {
        self.counts.extend(more.counts);
        self.increases.extend(more.increases);
        self.first.extend(more.first);
        self.first_ns.extend(more.first_ns);
        self.last.extend(more.last);
        self.last_ns.extend(more.last_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_restarts_continues_from_zero() {
        let values = [1.0, 4.0, 9.0, 2.0, 3.0, 0.0, 5.0];
        let mut whole = Increases::empty(1);
        values.iter().zip(0..).for_each(|(value, time_ns)| whole.add(0, time_ns, *value));
        assert_eq!((whole.increases[0], whole.counts[0]), (3.0 + 5.0 + 2.0 + 1.0 + 0.0 + 5.0, 7));
        for cut in 0..=values.len() {
            let mut parts = [Increases::empty(1), Increases::empty(1)];
            for (time_ns, value) in values.iter().enumerate() {
                parts[usize::from(time_ns >= cut)].add(0, time_ns as i64, *value);
            }
            let [mut first, second] = parts;
            first.append_slot(0, &second, 0);
            assert_eq!(first, whole, "cut at {cut}");
        }
    }
}
