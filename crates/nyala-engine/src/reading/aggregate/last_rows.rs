//! The newest values of series, out of the last rows that rowsets keep of them.

use super::MeasureSource;
use super::accumulator::Accumulator;
use super::rows::selected_value;
use crate::reading::scan::partition::Newest;
use crate::reading::scan::series::PartitionSlot;
use crate::rows::column_buffer::VALUE;
use nyala_core::Result;
use nyala_core::store::{AggregateFunction, AggregateRequest};

/// Whether the newest row of each series answers a request, if it has a value in every column.
pub(super) fn suffice(request: &AggregateRequest, sources: &[MeasureSource]) -> bool {
    let last = |function| function == AggregateFunction::Last;
    request.predicates.is_empty()
        && request.windows.count() == 1
        && request.measures.iter().all(|measure| last(measure.function))
        && sources.iter().all(|source| matches!(source, MeasureSource::Cell(..)))
}

impl Accumulator<'_> {
    /// Adds the newest row of the series. False if nothing was added, because the row has to be
    /// looked for or has not all values.
    pub(super) fn add_last_rows(
        &mut self,
        partitions: &mut [PartitionSlot],
        open: &mut impl FnMut(&mut PartitionSlot) -> Result<()>,
    ) -> Result<bool> {
        for slot in partitions.iter_mut().rev() {
            open(slot)?;
            let PartitionSlot::Open(reader) = slot else { unreachable!("was opened") };
            // From the newest on each range has one more source, so that one newer than all others is known.
            for index in 0..reader.newest_first().len() {
                let range = reader.newest_first()[index];
                let (segment, time_ns) = match reader.newest(self.series, range)? {
                    Newest::Row(segment, time_ns) => (segment, time_ns),
                    Newest::None => continue,
                    Newest::NotKnown => return Ok(false),
                };
                let columns = reader.read(self.series, segment)?.columns;
                if columns.iter().any(|column| column.len() != 1)
                    || columns.iter().any(|column| column.state(0) != VALUE)
                {
                    return Ok(false);
                }
                for measure in 0..self.sources.len() {
                    let MeasureSource::Cell(position, column_type) = self.sources[measure] else {
                        return Ok(false);
                    };
                    self.offer(measure, 0, selected_value(&columns[position], column_type, 0), time_ns);
                }
                return Ok(true);
            }
        }
        Ok(true)
    }
}
