//! Where the shards of a table begin.
//!
//! A shard is a partition of the store, and the types of fields are kept by its start. It is as wide as the policy says, unless it
//! was made when the policy said otherwise, or came between such ones: those stay as they are.

use nyala_core::TimeRange;
use nyala_core::time::{partition_time, window_of_width};
use std::sync::Arc;

/// Where the shards of a table begin, as long as none is dropped and the policy's width stays.
#[derive(Debug, Clone)]
pub(crate) struct ShardStarts {
    width_ns: i64,
    /// The shards that are not what the width says, in order.
    others: Arc<[TimeRange]>,
}

impl ShardStarts {
    /// Those of a table that has these partitions.
    pub(crate) fn of(width_ns: i64, partitions: impl Iterator<Item = TimeRange>) -> Self {
        let is_other = |range: &TimeRange| window_of_width(range.start_ns, width_ns) != *range;
        let mut others: Vec<TimeRange> = partitions.filter(is_other).collect();
        others.sort_unstable_by_key(|range| range.start_ns);
        Self { width_ns, others: others.into() }
    }

    /// Whether new shards have this width.
    pub(crate) fn is_of_width(&self, width_ns: i64) -> bool {
        self.width_ns == width_ns
    }

    /// The start of the shard of a time.
    pub(crate) fn start_of(&self, time_ns: i64) -> i64 {
        self.range_of(time_ns).start_ns
    }

    /// The shard of a time, or the one that would be made for it.
    pub(crate) fn range_of(&self, time_ns: i64) -> TimeRange {
        let time_ns = partition_time(time_ns);
        let mut range = window_of_width(time_ns, self.width_ns);
        if self.others.is_empty() {
            return range;
        }
        let after = self.others.partition_point(|other| other.start_ns <= time_ns);
        if let Some(before) = after.checked_sub(1).map(|position| self.others[position]) {
            if before.contains(time_ns) {
                return before;
            }
            range.start_ns = range.start_ns.max(before.end_ns);
        }
        if let Some(after) = self.others.get(after) {
            range.end_ns = range.end_ns.min(after.start_ns);
        }
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_another_width_stay_and_cut_their_neighbours() {
        let range = TimeRange::new;
        let starts = ShardStarts::of(10, [range(20, 30), range(33, 36), range(36, 40)].into_iter());
        let regular = window_of_width(0, 10).start_ns;
        assert_eq!(starts.range_of(25), window_of_width(25, 10));
        // The windows are counted from the year 1.
        let window = window_of_width(31, 10);
        assert_eq!(starts.range_of(34), range(33, 36));
        assert_eq!(starts.range_of(36), range(36, 40));
        assert_eq!(starts.start_of(32), window.start_ns);
        assert_eq!(starts.range_of(32).end_ns, 33);
        assert_eq!(starts.start_of(40), window_of_width(40, 10).start_ns.max(40));
        assert_eq!(starts.start_of(0), regular);
        assert_eq!(starts.start_of(i64::MAX), window_of_width(i64::MAX - 1, 10).start_ns);
    }
}
