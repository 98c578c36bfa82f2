//! Marks of ranges that daemons are dropping (`dropping`), as far as this daemon has seen them.

use crate::state::RangeState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Nobody drops a range any more that was seen with the same mark for so long: twice what a drop takes at most.
const ABANDONED_AFTER: Duration = Duration::from_secs(90);
/// So many marks are remembered. When they are forgotten, their time begins anew.
const NOTED_MAX: usize = 1024;

/// The marks that this daemon has seen: by the range's number the entry that set it, and since when.
#[derive(Default)]
pub(crate) struct SeenMarks {
    seen: Mutex<HashMap<u32, (i64, Instant)>>,
}

impl SeenMarks {
    /// Notes that a range is marked. Whether whoever marked it cannot be dropping it any more.
    pub(crate) fn is_abandoned(&self, range: RangeState, now: Instant) -> bool {
        let Some(entry) = range.leaving else { return false };
        let mut seen = self.seen.lock();
        if seen.len() >= NOTED_MAX && !seen.contains_key(&range.number) {
            seen.clear();
        }
        let noted = seen.entry(range.number).or_insert((entry, now));
        if noted.0 != entry {
            *noted = (entry, now);
        }
        now.duration_since(noted.1) >= ABANDONED_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::TimeRange;

    #[test]
    fn a_mark_is_abandoned_when_it_was_seen_for_long() {
        let marks = SeenMarks::default();
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let range = |number, entry: i64| {
            let mut range = RangeState::new(number, TimeRange::new(0, 10));
            range.leaving = Some(entry);
            range
        };
        assert!(!marks.is_abandoned(RangeState::new(1, TimeRange::new(0, 10)), at(0)), "it has none");
        assert!(!marks.is_abandoned(range(1, 7), at(0)));
        assert!(!marks.is_abandoned(range(1, 7), at(89)));
        assert!(!marks.is_abandoned(range(2, 7), at(90)), "another range");
        assert!(!marks.is_abandoned(range(1, 9), at(90)), "somebody has marked it again");
        assert!(marks.is_abandoned(range(1, 9), at(180)));
        for number in 10..10 + NOTED_MAX as u32 {
            assert!(!marks.is_abandoned(range(number, 1), at(200)));
        }
        assert!(marks.seen.lock().len() <= NOTED_MAX);
    }
}
