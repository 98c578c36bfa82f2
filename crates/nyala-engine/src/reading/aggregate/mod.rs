//! Aggregates computed by the store, next to the data.
//!
//! Series are taken in ascending order, the segments of each in order of time: the order of a scan, so the answer is
//! that of a scan to the bit. A segment that one rowset has alone is answered from its encoded blocks and their index;
//! what is merged, hidden or filtered is answered from rows. The newest values are first looked for among the last rows
//! that rowsets keep.

mod accumulator;
mod encoded;
mod last_rows;
mod overlaid;
mod parallel;
mod rows;

use crate::memory::version::Version;
use crate::reading::scan::filter::test;
use crate::reading::scan::partition::{PartitionReader, Segment};
use crate::reading::scan::scan_spec::{ColumnSource, ScanSpec};
use crate::reading::scan::series::{MANY_SERIES, PartitionSlot, STEPS_AT_ONCE, key_column};
use crate::rows::projection::Projection;
use accumulator::Accumulator;
use encoded::EncodedScratch;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{AggregateRequest, PartialAggregates};
use nyala_core::{ColumnType, Result, before_long_work};
pub(crate) use parallel::aggregate;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where the values of a measure are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeasureSource {
    /// The time column.
    Time,
    /// The series column.
    Series,
    /// A cell, by position among those read.
    Cell(usize, ColumnType),
}

impl MeasureSource {
    /// The position among the cells read.
    fn cell(self) -> Option<usize> {
        match self {
            MeasureSource::Cell(position, _) => Some(position),
            _ => None,
        }
    }
}

/// Window bounds of rows: window `first + i` has the rows from `bounds[i]` to `bounds[i + 1]`.
struct WindowRows {
    first: usize,
    bounds: Vec<u32>,
}

/// From so many series on, the blocks of the next series are prefetched.
const AHEAD_SERIES: usize = 64;

async fn aggregate_series(
    (version, sequence): (&Arc<Version>, u64),
    request: &AggregateRequest,
    budget: &Arc<MemoryBudget>,
) -> Result<PartialAggregates> {
    let table = version.table(request.table)?;
    request.validate(&table.schema)?;
    let measured: Vec<_> = request.measures.iter().map(|measure| measure.column).collect();
    for predicate in &request.predicates {
        if table.schema.column(predicate.column).is_none() {
            let name = table.schema.shown_name();
            return Err(nyala_core::Error::missing(format!(
                "table {name} has no column {}",
                predicate.column
            )));
        }
    }
    let spec = ScanSpec::new(&table.schema, &measured, &request.predicates, false, None);
    let sources: Vec<MeasureSource> = spec
        .output
        .iter()
        .map(|(place, column_type)| match place {
            ColumnSource::Key(0) => MeasureSource::Series,
            ColumnSource::Key(_) => MeasureSource::Time,
            ColumnSource::Cell(position) => MeasureSource::Cell(*position, *column_type),
        })
        .collect();
    let mut accumulator = Accumulator::new(request, request.empty_states(&table.schema)?, sources, budget);
    let time = request.time.intersect(request.windows.span());
    if time.is_empty() {
        return Ok(accumulator.finish());
    }
    let mut partitions: Vec<PartitionSlot> =
        table.partitions_in(time).cloned().map(PartitionSlot::Closed).collect();
    let mut scratch = EncodedScratch::default();
    let (mut segments, mut ranges) = (VecDeque::new(), Vec::new());
    let newest = last_rows::suffice(request, &accumulator.sources);
    for (number, (series, group)) in request.series.iter().enumerate() {
        // The caller may cancel here.
        if number % STEPS_AT_ONCE == STEPS_AT_ONCE - 1 {
            before_long_work().await;
        }
        accumulator.begin_series(*series, *group);
        let mut open = |slot: &mut PartitionSlot| -> Result<()> {
            let PartitionSlot::Closed(partition) = slot else { return Ok(()) };
            let projection: Projection = spec.projection.clone();
            let mut reader = PartitionReader::new(partition, &table.tombstones, sequence, time, projection)?;
            if newest {
                reader.read_last_rows(request.series.len() >= MANY_SERIES)?;
            } else if request.series.len() >= AHEAD_SERIES {
                reader.read_ahead();
            }
            *slot = PartitionSlot::Open(Box::new(reader));
            Ok(())
        };
        if newest && accumulator.add_last_rows(&mut partitions, &mut open)? {
            accumulator.charge_texts()?;
            continue;
        }
        for slot in &mut partitions {
            open(slot)?;
            let PartitionSlot::Open(reader) = slot else { unreachable!("was opened") };
            reader.cut(*series, time, &mut ranges);
            if ranges.is_empty() {
                ranges.push(time);
            }
            // The next one stands last.
            ranges.reverse();
            loop {
                if segments.is_empty() {
                    let Some(range) = ranges.pop() else { break };
                    reader.add_segments(*series, range, &mut segments)?;
                }
                let Some(segment) = segments.pop_front() else { continue };
                match segment {
                    Segment::Single { cursor, part, time } if request.predicates.is_empty() => {
                        let cursor = &mut reader.cursors[cursor];
                        accumulator.add_encoded(cursor, &part, time, &mut scratch)?;
                    }
                    Segment::Overlaid { cursor, part, time }
                        if request.predicates.is_empty()
                            && accumulator.add_overlaid(reader, (cursor, &part, time), &mut scratch)? => {}
                    segment => {
                        let mut batch = reader.read(*series, segment)?;
                        let keep = test(&spec, batch.rows(), &batch.columns, |key| {
                            key_column(key, *series, &batch.keys)
                        });
                        if let Some(keep) = keep {
                            let kinds = &spec.projection.kinds;
                            batch = crate::rows::merge::keep_rows(&batch, |row| keep[row], kinds);
                        }
                        accumulator.add_rows(&batch);
                    }
                }
                accumulator.charge_texts()?;
            }
        }
        accumulator.end_series();
    }
    Ok(accumulator.finish())
}
