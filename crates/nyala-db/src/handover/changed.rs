//! Which times of which tables were changed, and when: the least that somebody has to read again who has read everything
//! before.
//!
//! When something was changed is told by numbers that only grow: those of [`Watch`](super::watch::Watch). A few ranges are
//! kept of each table. Where there would be more, those that lie close together become one with the greatest number, so
//! what is told is never too little.

use nyala_core::{TableId, TimeRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most ranges of a table. A move reads each of them by a scan.
const RANGES_MAX: usize = 128;

/// What was changed, by tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed(BTreeMap<u32, TableChanges>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TableChanges {
    rows: Ranges,
    /// When the records of its series were changed.
    series: Option<u64>,
}

/// Ranges that do not overlap, by their start: their end, and when they were changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ranges(BTreeMap<i64, (i64, u64)>);

impl Changed {
    /// Rows of a range of times were changed; of a table whose rows have no time, any.
    pub(super) fn add_rows(&mut self, table: TableId, range: TimeRange, number: u64) {
        if !range.is_empty() {
            self.0.entry(table.0).or_default().rows.add(range, number);
        }
    }

    /// The records of the series of a table were changed.
    pub(super) fn add_series(&mut self, table: TableId, number: u64) {
        let series = &mut self.0.entry(table.0).or_default().series;
        *series = (*series).max(Some(number));
    }

    /// All that another names was changed now.
    pub(super) fn add_all(&mut self, other: &Self, number: u64) {
        for (table, changes) in &other.0 {
            for (start_ns, (end_ns, _)) in &changes.rows.0 {
                self.add_rows(TableId(*table), TimeRange::new(*start_ns, *end_ns), number);
            }
            if changes.series.is_some() {
                self.add_series(TableId(*table), number);
            }
        }
    }

    /// The times within a range that were changed since a number, that number included.
    pub fn rows_since(&self, table: TableId, number: u64, within: TimeRange) -> Vec<TimeRange> {
        let mut found: Vec<TimeRange> = Vec::new();
        let all = self.0.get(&table.0).into_iter().flat_map(|changes| &changes.rows.0);
        for (start_ns, (end_ns, _)) in all.filter(|(_, (_, changed))| *changed >= number) {
            let range = TimeRange::new(*start_ns, *end_ns).intersect(within);
            match found.last_mut() {
                _ if range.is_empty() => {}
                Some(last) if last.end_ns == range.start_ns => last.end_ns = range.end_ns,
                _ => found.push(range),
            }
        }
        found
    }

    /// Whether the records of series of a table, or its rows, were changed since a number.
    pub fn is_series_changed(&self, table: TableId, number: u64) -> bool {
        let records = self.0.get(&table.0).and_then(|changes| changes.series);
        records.is_some_and(|changed| changed >= number)
            || !self.rows_since(table, number, TimeRange::ALL).is_empty()
    }
}

impl Ranges {
    /// Adds a range that was changed later than all before it.
    fn add(&mut self, range: TimeRange, number: u64) {
        let TimeRange { mut start_ns, mut end_ns } = range;
        if let Some((&before, &(until, older))) = self.0.range(..start_ns).next_back()
            && until >= start_ns
        {
            if older == number {
                start_ns = before;
                end_ns = end_ns.max(until);
            } else {
                self.0.insert(before, (start_ns, older));
                self.keep_rest((end_ns, until), older);
            }
        }
        while let Some((&next, &(until, older))) = self.0.range(start_ns..=end_ns).next() {
            if next == end_ns && older != number {
                break;
            }
            self.0.remove(&next);
            match older == number {
                true => end_ns = end_ns.max(until),
                false => self.keep_rest((end_ns, until), older),
            }
        }
        self.0.insert(start_ns, (end_ns, number));
        while self.0.len() > RANGES_MAX {
            self.join_nearest();
        }
    }

    /// What is left behind a range that was put over another.
    fn keep_rest(&mut self, (end_ns, until_ns): (i64, i64), number: u64) {
        if until_ns > end_ns {
            self.0.insert(end_ns, (until_ns, number));
        }
    }

    /// Joins the two ranges that have the least between them.
    fn join_nearest(&mut self) {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let nearest = pairs
            .min_by_key(|((_, (end_ns, _)), (start_ns, _))| i128::from(**start_ns) - i128::from(*end_ns));
        let Some(((&first, &(_, one)), (&second, &(end_ns, other)))) = nearest else { return };
        self.0.remove(&second);
        self.0.insert(first, (end_ns, one.max(other)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: TableId = TableId(3);

    proptest! {
        #[test]
        fn what_was_changed_is_never_left_out(
            changes in prop::collection::vec((-400_i64..400, 0_i64..20, 0_u64..3), 0..400)
        ) {
            let (mut changed, count) = (Changed::default(), changes.len());
            let (mut number, mut newest) = (1, BTreeMap::new());
            for (start_ns, width_ns, later) in changes {
                number += later;
                changed.add_rows(TABLE, TimeRange::new(start_ns, start_ns + width_ns), number);
                newest.extend((start_ns..start_ns + width_ns).map(|time_ns| (time_ns, number)));
            }
            let ranges = changed.0.get(&TABLE.0).map_or(0, |own| own.rows.0.len());
            prop_assert!(ranges <= RANGES_MAX);
            let was_never_joined = count * 2 < RANGES_MAX;
            for since in 0..=number + 1 {
                let told = changed.rows_since(TABLE, since, TimeRange::ALL);
                prop_assert!(told.is_sorted_by(|one, other| one.end_ns < other.start_ns));
                let is_told = |time_ns: i64| told.iter().any(|range| range.contains(time_ns));
                for (time_ns, number) in &newest {
                    prop_assert!(*number < since || is_told(*time_ns));
                    prop_assert!(*number >= since || !was_never_joined || !is_told(*time_ns), "nor is more told");
                }
            }
        }
    }

    #[test]
    fn it_is_told_to_others_as_it_is() {
        let mut changed = Changed::default();
        changed.add_rows(TABLE, TimeRange::ALL, u64::MAX);
        changed.add_rows(TableId(4), TimeRange::new(-5, 7), 2);
        changed.add_series(TableId(4), 1);
        let text = serde_json::to_string(&changed).expect("plain data");
        assert_eq!(serde_json::from_str::<Changed>(&text).expect("the same form"), changed);
        assert_eq!(changed.rows_since(TABLE, 9, TimeRange::new(1, 2)), [TimeRange::new(1, 2)]);
        assert_eq!(changed.rows_since(TableId(4), 3, TimeRange::ALL), []);
        assert!(changed.is_series_changed(TableId(4), 2) && !changed.is_series_changed(TableId(5), 0));
    }
}
