//! Numbers of rows in tables that were declared without a primary key.
//!
//! A number is the time of its row, ns, or the one after the last number, whichever is greater. So rows are stored in the
//! order in which they came, numbers are new after a restart without anything being stored, and nobody counts.

use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Default)]
pub(super) struct RowIds {
    /// The first number that was not given out.
    next: AtomicI64,
}

impl RowIds {
    /// The first of `count` consecutive numbers.
    pub(super) fn take(&self, now_ns: i64, count: usize) -> i64 {
        let first = |next: i64| next.max(now_ns);
        let taken = self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| {
            Some(first(next).saturating_add(count as i64))
        });
        first(taken.unwrap_or_else(|next| next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_even_if_the_clock_does_not() {
        let ids = RowIds::default();
        assert_eq!([ids.take(100, 3), ids.take(100, 1), ids.take(90, 2)], [100, 103, 104]);
        assert_eq!(ids.take(1000, 1), 1000);
    }
}
