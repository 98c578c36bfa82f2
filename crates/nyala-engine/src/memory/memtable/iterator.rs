//! Iterates over a frozen memtable, series by series.

use super::row_collector::RowCollector;
use super::series::SeriesMemtable;
use super::series_index::BLOCK_SERIES;
use super::shape::Shapes;
use nyala_core::TimeRange;

/// Is positioned at a series, and moves forward.
pub(crate) struct MemtableIterator<'a> {
    memtable: &'a SeriesMemtable,
    shapes: Shapes,
    /// First series and, in the lower half, index in its shard of each block that is left, the next one last.
    blocks: Vec<u64>,
    entries: [u32; BLOCK_SERIES as usize],
    first_series: u32,
    lane: usize,
    /// The series it stands at.
    pub(crate) series: Option<u32>,
}

impl<'a> MemtableIterator<'a> {
    pub(crate) fn new(memtable: &'a SeriesMemtable) -> Self {
        let mut blocks: Vec<u64> = Vec::new();
        for shard in memtable.shards() {
            blocks.extend(shard.index.blocks().map(|(first, at)| u64::from(first) << 32 | u64::from(at)));
        }
        blocks.sort_unstable_by(|a, b| b.cmp(a));
        let shapes = memtable.shapes.read().clone();
        let (entries, lane) = ([0; BLOCK_SERIES as usize], BLOCK_SERIES as usize);
        let mut iterator = Self { memtable, shapes, blocks, entries, first_series: 0, lane, series: None };
        iterator.advance();
        iterator
    }

    /// Goes to the next series.
    pub(crate) fn advance(&mut self) {
        loop {
            if let Some(offset) = self.entries[self.lane..].iter().position(|entry| *entry != 0) {
                self.series = Some(self.first_series + (self.lane + offset) as u32);
                self.lane += offset + 1;
                return;
            }
            let Some(block) = self.blocks.pop() else {
                self.series = None;
                return;
            };
            self.first_series = (block >> 32) as u32;
            let shard = self.memtable.shard(self.first_series).expect("a shard that has a block");
            (self.entries, self.lane) = (*shard.index.block(block as u32), 0);
        }
    }

    /// Hands the rows of the series up to a sequence to a reader, unless they are more than `rows_max`, or may have
    /// longer strings than it takes at once.
    pub(crate) fn read(&self, sequence: u64, rows_max: usize, reader: &mut RowCollector<'_>) -> bool {
        let Some(series) = self.series else { return true };
        let shard = self.memtable.shard(series).expect("a shard that has a series");
        let (entry, base_sequence) = (self.entries[self.lane - 1], self.memtable.base_sequence);
        let rows = shard.row_count(entry);
        if rows > rows_max || rows * shard.bytes.longest > reader.string_bytes_max() {
            return false;
        }
        reader.count_from(base_sequence);
        let visible = |_, row_sequence| row_sequence <= sequence;
        shard.gather(entry, TimeRange::ALL, &self.shapes, base_sequence, visible, reader);
        true
    }
}
