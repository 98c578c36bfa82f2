//! All rows of a memtable that nothing is added to any more, series by series.

use super::row_reader::PieceReader;
use super::series::SeriesMemtable;
use super::series_index::BLOCK_SERIES;
use super::shape::Shapes;
use nyala_core::TimeRange;

/// Stands at a series; moves forward.
pub(crate) struct MemtableSweep<'a> {
    memtable: &'a SeriesMemtable,
    shapes: Shapes,
    /// First series and, in the lower half, index in its stripe of each block that is left, the next one last.
    blocks: Vec<u64>,
    heads: [u32; BLOCK_SERIES as usize],
    first_series: u32,
    lane: usize,
    /// The series it stands at.
    pub(crate) series: Option<u32>,
}

impl<'a> MemtableSweep<'a> {
    pub(crate) fn new(memtable: &'a SeriesMemtable) -> Self {
        let mut blocks: Vec<u64> = Vec::new();
        for stripe in memtable.stripes() {
            blocks.extend(stripe.heads.blocks().map(|(first, at)| u64::from(first) << 32 | u64::from(at)));
        }
        blocks.sort_unstable_by(|a, b| b.cmp(a));
        let shapes = memtable.shapes.read().clone();
        let (heads, lane) = ([0; BLOCK_SERIES as usize], BLOCK_SERIES as usize);
        let mut sweep = Self { memtable, shapes, blocks, heads, first_series: 0, lane, series: None };
        sweep.advance();
        sweep
    }

    /// Goes to the next series.
    pub(crate) fn advance(&mut self) {
        loop {
            if let Some(offset) = self.heads[self.lane..].iter().position(|head| *head != 0) {
                self.series = Some(self.first_series + (self.lane + offset) as u32);
                self.lane += offset + 1;
                return;
            }
            let Some(block) = self.blocks.pop() else {
                self.series = None;
                return;
            };
            self.first_series = (block >> 32) as u32;
            let stripe = self.memtable.stripe(self.first_series).expect("a stripe that has a block");
            (self.heads, self.lane) = (*stripe.heads.block(block as u32), 0);
        }
    }

    /// Hands the rows of the series up to a sequence to a reader, unless they are more than `rows_max`, or may have longer
    /// strings than it takes at once.
    pub(crate) fn read(&self, sequence: u64, rows_max: usize, reader: &mut PieceReader<'_>) -> bool {
        let Some(series) = self.series else { return true };
        let stripe = self.memtable.stripe(series).expect("a stripe that has a series");
        let (head, base_sequence) = (self.heads[self.lane - 1], self.memtable.base_sequence);
        let rows = stripe.row_count(head);
        if rows > rows_max || rows * stripe.bytes.longest() > reader.string_bytes_max() {
            return false;
        }
        reader.count_from(base_sequence);
        let visible = |_, row_sequence| row_sequence <= sequence;
        stripe.gather(head, TimeRange::ALL, &self.shapes, base_sequence, visible, reader);
        true
    }
}
