//! Splits ranges of times in which memtables have very many rows of one series: packed rows take several times the
//! memory when they are read.

use super::PartitionReader;
use nyala_core::{SeriesId, TimeRange};

/// Cells of a memtable's rows that are read at once, about: 24 MiB.
const CELLS_AT_ONCE: u64 = 3 << 20;

impl PartitionReader {
    /// Cuts a range of times so that memtables have about as many rows of a series in each part as are read at once,
    /// going by how many they have in all. Appends the parts, ascending; none if the range need not be cut.
    pub(crate) fn cut(&self, series: SeriesId, time: TimeRange, parts: &mut Vec<TimeRange>) {
        // Its time and sequence, and what is wanted of it.
        let row_cells = 2 + self.projection.columns.len() as u64;
        if self.memtables.iter().all(|memtable| memtable.rows() * row_cells <= 2 * CELLS_AT_ONCE) {
            return;
        }
        let width = |range: TimeRange| i128::from(range.end_ns) - i128::from(range.start_ns);
        let (mut cells, mut span): (u64, Option<TimeRange>) = (0, None);
        for memtable in &self.memtables {
            let (Some(bounds), Some(rows)) = (memtable.time_bounds(), memtable.series()) else { continue };
            let inside = bounds.intersect(time);
            if inside.is_empty() {
                continue;
            }
            let all = i128::from(rows.row_count(series) * row_cells);
            cells += u64::try_from(all * width(inside) / width(bounds).max(1)).unwrap_or(u64::MAX);
            span = Some(span.map_or(inside, |span| span.around(inside)));
        }
        // A range that was split before is not split again.
        let Some(span) = span.filter(|_| cells > 2 * CELLS_AT_ONCE) else { return };
        let count = i128::from(cells / CELLS_AT_ONCE).min(width(span));
        if count < 2 {
            return;
        }
        let mut start_ns = time.start_ns;
        for part in 1..=count {
            let end_ns = match part == count {
                true => time.end_ns,
                false => (i128::from(span.start_ns) + width(span) * part / count) as i64,
            };
            parts.push(TimeRange::new(start_ns, end_ns));
            start_ns = end_ns;
        }
    }
}
