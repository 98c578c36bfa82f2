//! The newest values. Servers scan forwards only, so the end of the times is looked at first, and what lies before it only
//! for groups that have no value yet.

use nyala_core::TimeRange;
use nyala_core::store::aggregate::Selected;
use nyala_core::store::{AggregateFunction, AggregateRequest, PartialAggregate, PartialAggregates};

const HOUR_NS: i64 = 3_600_000_000_000;
/// How far before its end the newest range of times is cut. Each cut costs a look at all times of a tablet, if many series
/// are asked for.
const CUTS_NS: [i64; 2] = [HOUR_NS, 16 * HOUR_NS];

/// Whether a request wants only the newest values of its whole time.
pub(super) fn suffice(request: &AggregateRequest) -> bool {
    let mut functions = request.measures.iter().map(|measure| measure.function);
    request.windows.count() == 1 && functions.all(|function| function == AggregateFunction::Last)
}

/// Times in the order in which they are looked at: the newest first. `ranges` ascend; in one that holds the present the
/// newest rows are before it.
pub(super) fn slices(ranges: &[TimeRange], now_ns: i64) -> Vec<TimeRange> {
    let Some((newest, older)) = ranges.split_last() else { return Vec::new() };
    let last_ns = if newest.contains(now_ns) { now_ns } else { newest.end_ns };
    let mut slices = Vec::new();
    let mut end_ns = newest.end_ns;
    for cut_ns in CUTS_NS {
        let start_ns = last_ns.saturating_sub(cut_ns);
        if start_ns > newest.start_ns {
            slices.push(TimeRange::new(start_ns, end_ns));
            end_ns = start_ns;
        }
    }
    slices.push(TimeRange::new(newest.start_ns, end_ns));
    slices.extend(older.iter().rev());
    slices
}

/// The request for the series whose groups lack a value; `None`: every group has all of them.
pub(super) fn rest(request: &AggregateRequest, states: &PartialAggregates) -> Option<AggregateRequest> {
    let lacks = |group: u32| {
        states.measures.iter().any(|state| match state {
            PartialAggregate::Selected(Selected { series, .. }) => series[group as usize].is_none(),
            _ => unreachable!("newest values are selected"),
        })
    };
    let series = request.series.iter().filter(|(_, group)| lacks(*group)).copied();
    let rest = AggregateRequest { series: series.collect(), ..request.clone() };
    (!rest.series.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_all_times_backwards() {
        let ranges = [(0, 100), (100, 200), (300, 400)];
        let ranges = ranges.map(|(start, end)| TimeRange::new(start * HOUR_NS, end * HOUR_NS));
        let hours = |now: i64| -> Vec<(i64, i64)> {
            let slices = slices(&ranges, now * HOUR_NS);
            slices.iter().map(|slice| (slice.start_ns / HOUR_NS, slice.end_ns / HOUR_NS)).collect()
        };
        assert_eq!(hours(350), [(349, 400), (334, 349), (300, 334), (100, 200), (0, 100)]);
        assert_eq!(hours(310), [(309, 400), (300, 309), (100, 200), (0, 100)]);
        assert_eq!(hours(300), [(300, 400), (100, 200), (0, 100)]);
        assert_eq!(hours(999), [(399, 400), (384, 399), (300, 384), (100, 200), (0, 100)]);
        assert!(slices(&[], 0).is_empty());
    }
}
