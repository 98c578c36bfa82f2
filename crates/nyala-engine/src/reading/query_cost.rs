//! Query cost: which requests are light. Light requests are answered by the thread that received them; the others
//! announce first that they take long.

use crate::memory::version::TableVersion;
use nyala_core::TimeRange;
use nyala_core::store::{AggregateRequest, Order, RowSelection, ScanRequest, SeriesSet};

/// The most (series × columns × days) of a light request: at 10 s between rows about 2 M values.
const LIGHT_COLUMN_DAYS: usize = 256;
/// The most (groups × windows) of a light request.
const LIGHT_STATES: usize = 1 << 16;
/// The most series of which a light request takes a few rows each.
const LIGHT_LIMITED_SERIES: usize = 256;
/// The most rows of a light request by key.
const LIGHT_ROWS: usize = 1024;
const DAY_NS: i128 = 86_400_000_000_000;

pub(crate) fn is_light_aggregate(table: &TableVersion, request: &AggregateRequest) -> bool {
    column_days(table, request.series.len(), request.measures.len(), request.time) <= LIGHT_COLUMN_DAYS
        && request.groups.saturating_mul(request.windows.count()) <= LIGHT_STATES
}

pub(crate) fn is_light_scan(table: &TableVersion, request: &ScanRequest) -> bool {
    match &request.rows {
        RowSelection::Series { series: SeriesSet::Ids(ids), time } => {
            let limited = request.limit_per_prefix.or(request.limit).is_some_and(|limit| limit <= LIGHT_ROWS);
            let by_key = matches!(request.order, Order::Key(_)) && request.predicates.is_empty();
            (limited && by_key && ids.len() <= LIGHT_LIMITED_SERIES)
                || column_days(table, ids.len(), request.columns.len(), *time) <= LIGHT_COLUMN_DAYS
        }
        _ => request.limit.is_some_and(|limit| limit <= LIGHT_ROWS) && request.predicates.is_empty(),
    }
}

fn column_days(table: &TableVersion, series: usize, columns: usize, time: TimeRange) -> usize {
    let bounds = table.partitions_in(time).filter_map(|partition| partition.time_bounds());
    let days: i128 = bounds
        .map(|bounds| {
            let inside = bounds.intersect(time);
            (i128::from(inside.end_ns) - i128::from(inside.start_ns)).max(0) / DAY_NS + 1
        })
        .sum();
    usize::try_from(days).unwrap_or(usize::MAX).saturating_mul(series).saturating_mul(columns.max(1))
}

/// About how many rows lie in a range of times: of rowsets the share of their time that it covers.
pub(crate) fn estimate_rows(table: &TableVersion, time: TimeRange) -> u64 {
    let share = |rows: u64, range: TimeRange| {
        let inside = range.intersect(time);
        if rows == 0 || inside.is_empty() {
            return 0;
        }
        let width = |range: TimeRange| i128::from(range.end_ns) - i128::from(range.start_ns);
        (i128::from(rows) * width(inside) / width(range).max(1)).max(1) as u64
    };
    table
        .partitions_in(time)
        .map(|partition| {
            let rowsets: u64 =
                partition.rowsets.iter().map(|rowset| share(rowset.meta.rows, rowset.meta.time())).sum();
            let memtables = partition.memtables();
            let memtables = memtables
                .filter_map(|memtable| Some(share(memtable.rows(), memtable.time_bounds()?)))
                .sum::<u64>();
            rowsets + memtables
        })
        .sum()
}
