//! Aggregates where the data is.
//!
//! Series are taken in ascending order, the segments of each in order of time: the order of a scan, so the
//! answer is that of a scan to the bit. A segment that one rowset has alone is answered from its encoded blocks
//! and their index; what is merged, hidden or filtered is answered from rows. The newest values are looked for among
//! the last rows of rowsets first.

mod accumulator;
mod encoded;
mod last_rows;
mod parallel;
mod rows;

use crate::memory::version::{PartitionVersion, Version};
use crate::reading::scan::filter::test;
use crate::reading::scan::partition::{PartitionReader, Segment};
use crate::reading::scan::scan_spec::{ColumnSource, ScanSpec};
use crate::reading::scan::series::{MANY_SERIES, STEPS_AT_ONCE, key_column};
use crate::rows::projection::Projection;
use accumulator::Accumulator;
use encoded::EncodedScratch;
use nyala_core::store::{AggregateRequest, AggregateStates};
use nyala_core::{ColumnType, Result, before_long_work};
pub(crate) use parallel::aggregate;
use std::collections::VecDeque;
use std::sync::Arc;

/// Where a measure's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The time column.
    Time,
    /// The series column.
    Series,
    /// A cell, by position among those read.
    Cell(usize, ColumnType),
}

impl Source {
    /// The position among the cells read.
    fn cell(self) -> Option<usize> {
        match self {
            Source::Cell(position, _) => Some(position),
            _ => None,
        }
    }
}

/// Window bounds of rows: window `first + i` has the rows from `bounds[i]` to `bounds[i + 1]`.
struct WindowRows {
    first: usize,
    bounds: Vec<u32>,
}

/// From so many series on the blocks of the next are fetched beforehand.
const AHEAD_SERIES: usize = 64;

enum Slot {
    Closed(Arc<PartitionVersion>),
    Open(Box<PartitionReader>),
}

async fn aggregate_series(
    (version, sequence): (&Arc<Version>, u64),
    request: &AggregateRequest,
) -> Result<AggregateStates> {
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
    let spec = ScanSpec::new(&table.schema, &measured, &request.predicates, false);
    let sources: Vec<Source> = spec
        .output
        .iter()
        .map(|(place, column_type)| match place {
            ColumnSource::Key(0) => Source::Series,
            ColumnSource::Key(_) => Source::Time,
            ColumnSource::Cell(position) => Source::Cell(*position, *column_type),
        })
        .collect();
    let mut accumulator = Accumulator::new(request, request.empty_states(&table.schema)?, sources);
    let time = request.time.intersect(request.windows.span());
    if time.is_empty() {
        return Ok(accumulator.finish());
    }
    let mut partitions: Vec<Slot> = table.partitions_in(time).cloned().map(Slot::Closed).collect();
    let mut scratch = EncodedScratch::default();
    let (mut segments, mut ranges) = (VecDeque::new(), Vec::new());
    let newest = last_rows::suffice(request, &accumulator.sources);
    for (number, (series, group)) in request.series.iter().enumerate() {
        // Whoever waits may give it up.
        if number % STEPS_AT_ONCE == STEPS_AT_ONCE - 1 {
            before_long_work().await;
        }
        accumulator.begin_series(*series, *group);
        let mut open = |slot: &mut Slot| -> Result<()> {
            let Slot::Closed(partition) = slot else { return Ok(()) };
            let projection: Projection = spec.projection.clone();
            let mut reader = PartitionReader::new(partition, &table.tombstones, sequence, time, projection)?;
            if newest {
                reader.read_last_rows(request.series.len() >= MANY_SERIES)?;
            } else if request.series.len() >= AHEAD_SERIES {
                reader.read_ahead();
            }
            *slot = Slot::Open(Box::new(reader));
            Ok(())
        };
        if newest && accumulator.add_last_rows(&mut partitions, &mut open)? {
            continue;
        }
        for slot in &mut partitions {
            open(slot)?;
            let Slot::Open(reader) = slot else { unreachable!("was opened") };
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
                    segment => {
                        let mut piece = reader.read(*series, segment)?;
                        let keep = test(&spec, piece.rows(), &piece.columns, |key| {
                            key_column(key, *series, &piece.keys)
                        });
                        if let Some(keep) = keep {
                            let kinds = &spec.projection.kinds;
                            piece = crate::rows::merge::keep_rows(&piece, |row| keep[row], kinds);
                        }
                        accumulator.add_rows(&piece);
                    }
                }
            }
        }
        accumulator.end_series();
    }
    Ok(accumulator.finish())
}
