//! Selects points of a measurement by their tags, times and fields.

use crate::series::TagFilter;
use nyala_core::TimeRange;
use nyala_core::store::Predicate;

/// Points of a measurement: those that satisfy all of this.
#[derive(Debug, Clone)]
pub struct PointSelection {
    /// The tags of their series.
    pub tags: TagFilter,
    /// Their times.
    pub time: TimeRange,
    /// Conditions on their fields.
    pub predicates: Vec<Predicate>,
}

impl PointSelection {
    /// Points by tags and time.
    pub fn new(tags: TagFilter, time: TimeRange) -> Self {
        Self { tags, time, predicates: Vec::new() }
    }

    /// Whether they are all points of their series.
    pub(crate) fn is_all_times(&self) -> bool {
        self.time == TimeRange::ALL && self.predicates.is_empty()
    }
}
