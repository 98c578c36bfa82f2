//! What the planner is told of the rows of a scan: about how many there are, between which times, and how many values a tag
//! has. All of it is known without reading rows. It decides which side of a join is built, not what is in an answer.

use super::columns::{Columns, Source, ZONE};
use super::filter::Conditions;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use nyala_core::{Result, TimeRange};
use nyala_db::catalog::Measurement;
use std::sync::Arc;

/// What is known of a measurement.
pub(super) struct Known {
    /// About how many rows satisfy the conditions on time and tags.
    rows: u64,
    /// The times that there are.
    time: TimeRange,
    series: u64,
}

impl Known {
    /// What is known of the rows of some series.
    pub(super) async fn of(measurement: &Measurement, conditions: &Conditions, series: u64) -> Result<Self> {
        let (mut rows, mut time) = (0_u64, None::<TimeRange>);
        for partition in measurement.partitions().await? {
            let within = partition.range.intersect(conditions.time);
            if within.is_empty() {
                continue;
            }
            let span = |range: TimeRange| (range.end_ns as f64) - (range.start_ns as f64);
            let share = span(within) / span(partition.range).max(1.0);
            rows = rows.saturating_add((partition.rows.unwrap_or(0) as f64 * share) as u64);
            time = Some(time.map_or(within, |known| known.around(within)));
        }
        let all = (measurement.count_series() as u64).max(series).max(1);
        let rows = (rows as f64 * series as f64 / all as f64) as u64;
        Ok(Self { rows, time: time.unwrap_or(TimeRange::new(0, 0)), series })
    }

    /// The statistics of some columns.
    pub(super) fn statistics(
        &self,
        measurement: &Measurement,
        columns: &Columns,
        projection: &[usize],
    ) -> Arc<Statistics> {
        let series = measurement.series();
        let (least_ns, most_ns) = (self.time.start_ns, self.time.end_ns.saturating_sub(1));
        let column = |position: &usize| {
            let unknown = ColumnStatistics::new_unknown();
            match &columns.sources[*position] {
                Source::Time => {
                    let time = |ns| ScalarValue::TimestampNanosecond(Some(ns), Some(ZONE.into()));
                    unknown
                        .with_null_count(Precision::Exact(0))
                        .with_min_value(Precision::Inexact(time(least_ns)))
                        .with_max_value(Precision::Inexact(time(most_ns)))
                }
                Source::TimeNs => unknown
                    .with_null_count(Precision::Exact(0))
                    .with_min_value(Precision::Inexact(ScalarValue::Int64(Some(least_ns))))
                    .with_max_value(Precision::Inexact(ScalarValue::Int64(Some(most_ns)))),
                Source::Tag(key) => {
                    let values = series.tag_values(key).count().min(self.series as usize);
                    unknown.with_distinct_count(Precision::Inexact(values))
                }
                Source::Field(..) | Source::Series => unknown,
            }
        };
        Arc::new(Statistics {
            num_rows: Precision::Inexact(self.rows as usize),
            total_byte_size: Precision::Absent,
            column_statistics: projection.iter().map(column).collect(),
        })
    }
}
