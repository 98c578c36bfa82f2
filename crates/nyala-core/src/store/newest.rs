//! Where the newest rows of series are, in a store that scans only forwards.
//!
//! The times of a few series tell it. Then slices of time are read, the newest first, and each only for what the ones before
//! it did not give.

use super::{RowSelection, RowStream, ScanRequest, SeriesSet, Snapshot};
use crate::error::Result;
use crate::ids::{SeriesId, TableId};
use crate::time::TimeRange;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;

/// So many series are looked at.
const SAMPLED_SERIES: usize = 3;
/// The first slice has about so many rows of a series.
const ROWS_OF_FIRST_SLICE: i64 = 4;
/// How many times as wide as the slice before it a slice is.
const WIDENING: i64 = 16;
/// The time before the end in which rows are looked for first, ns: an hour.
const FIRST_LOOK_NS: i64 = 3_600_000_000_000;

/// Where the newest rows are likely to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestRows {
    /// Just after the newest time, ns.
    pub end_ns: i64,
    /// The time between the two newest rows of a series, ns.
    pub step_ns: i64,
}

impl NewestRows {
    /// Looks at the newest times of some of these series. `None` if they have no rows at these times.
    pub async fn find(
        snapshot: &dyn Snapshot,
        table: TableId,
        series: &[SeriesId],
        time: TimeRange,
    ) -> Result<Option<Self>> {
        let schema = snapshot.schema(table)?;
        let Some(time) = snapshot.time_bounds(table, time).await?.map(|bounds| bounds.intersect(time)) else {
            return Ok(None);
        };
        let mut sampled: Vec<SeriesId> = (0..SAMPLED_SERIES)
            .filter_map(|number| series.get(number * series.len().saturating_sub(1) / (SAMPLED_SERIES - 1)))
            .copied()
            .collect();
        sampled.dedup();
        let looks = Self { end_ns: time.end_ns, step_ns: FIRST_LOOK_NS / ROWS_OF_FIRST_SLICE };
        for slice in looks.slices(time) {
            let mut newest: Option<Self> = None;
            for id in &sampled {
                let rows = RowSelection::Series { series: SeriesSet::Ids([*id].into()), time: slice };
                let scan = ScanRequest::by_key(table, rows, vec![schema.key[1]]);
                if let Some(found) = Self::last_of(&mut *snapshot.scan(scan).await?).await?
                    && newest.is_none_or(|newest| newest.end_ns < found.end_ns)
                {
                    newest = Some(found);
                }
            }
            if newest.is_some() {
                return Ok(newest);
            }
        }
        Ok(None)
    }

    /// The same of the times of one series, which ascend.
    async fn last_of(times: &mut dyn RowStream) -> Result<Option<Self>> {
        let (mut before, mut last): (Option<i64>, Option<i64>) = (None, None);
        while let Some(batch) = times.next().await? {
            let times = batch.columns[0].as_primitive::<TimestampNanosecondType>().values();
            before = times.iter().nth_back(1).copied().or(last);
            last = times.last().copied().or(last);
        }
        let step_ns = |last: i64| before.map_or(FIRST_LOOK_NS, |before| last.saturating_sub(before));
        Ok(last.map(|last| Self { end_ns: last.saturating_add(1), step_ns: step_ns(last) }))
    }

    /// A range of times in slices, the newest first. The first one begins shortly before the newest rows.
    pub fn slices(self, time: TimeRange) -> Vec<TimeRange> {
        let mut slices = Vec::new();
        let mut end_ns = time.end_ns;
        let mut width_ns = self.step_ns.max(1).saturating_mul(ROWS_OF_FIRST_SLICE);
        while end_ns > time.start_ns {
            let start_ns = match width_ns {
                // No width reaches from one end of time to the other.
                i64::MAX => time.start_ns,
                _ => self.end_ns.saturating_sub(width_ns).max(time.start_ns),
            };
            if start_ns < end_ns {
                slices.push(TimeRange::new(start_ns, end_ns));
                end_ns = start_ns;
            }
            width_ns = width_ns.saturating_mul(WIDENING);
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_all_times_backwards() {
        let slices = |end_ns, step_ns, start, end| {
            let slices = NewestRows { end_ns, step_ns }.slices(TimeRange::new(start, end));
            slices.iter().map(|slice| (slice.start_ns, slice.end_ns)).collect::<Vec<_>>()
        };
        assert_eq!(slices(500, 10, 0, 1000), [(460, 1000), (0, 460)]);
        assert_eq!(slices(900, 1, 0, 1000), [(896, 1000), (836, 896), (0, 836)]);
        assert_eq!(slices(0, 10, 100, 200), [(100, 200)]);
        // Rows whose times are outside.
        assert_eq!(slices(5000, 1, 100, 200), [(100, 200)]);
        assert!(slices(0, 1, 5, 5).is_empty());
        let ends = slices(i64::MAX, i64::MAX, i64::MIN, i64::MAX);
        assert_eq!((ends[0].1, ends.last().map(|slice| slice.0)), (i64::MAX, Some(i64::MIN)));
        assert_eq!(slices(i64::MIN, 0, i64::MIN, i64::MAX), [(i64::MIN, i64::MAX)]);
    }
}
