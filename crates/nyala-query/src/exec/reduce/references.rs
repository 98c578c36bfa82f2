//! The other columns of rows that a selector may select.

use super::Reducer;
use nyala_core::Result;
use nyala_exec::aggregate::RowId;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, QueryMemory};

/// Columns are compacted when they take more than this, and more than twice what they took after the last time.
const COMPACTED_BYTES_MIN: usize = 1 << 20;

/// Columns that are shown beside a selected value, of the rows fed so far that can still be selected.
pub struct References {
    /// The columns of each feed.
    feeds: Vec<Vec<Column>>,
    held: MemoryCharge,
    compacted_bytes: usize,
}

impl References {
    /// No columns yet.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { feeds: Vec::new(), held: memory.hold(), compacted_bytes: 0 }
    }

    /// Keeps the columns of rows that were just fed to the reducers.
    pub fn keep(&mut self, columns: Vec<Column>, reducers: &mut [Reducer]) -> Result<()> {
        let bytes = columns.iter().map(Column::memory_bytes).sum();
        self.feeds.push(columns);
        if self.held.bytes() + bytes > COMPACTED_BYTES_MIN.max(2 * self.compacted_bytes) {
            self.compact(reducers);
            return self.held.charge(self.compacted_bytes);
        }
        self.held.charge(bytes)
    }

    /// Drops rows that no reducer can select any more.
    fn compact(&mut self, reducers: &mut [Reducer]) {
        let mut rows: Vec<RowId> = Vec::new();
        reducers.iter_mut().for_each(|reducer| reducer.visit_rows(&mut |row| rows.push(*row)));
        rows.sort_unstable();
        rows.dedup();
        let feeds = std::mem::take(&mut self.feeds);
        let columns = feeds.first().map_or(0, Vec::len);
        let compacted: Vec<Column> = (0..columns).map(|column| gather(&feeds, column, &rows)).collect();
        self.compacted_bytes = compacted.iter().map(Column::memory_bytes).sum();
        self.feeds = vec![compacted];
        self.held.shrink_to(0);
        for reducer in reducers {
            reducer.visit_rows(&mut |row| {
                *row = (0, rows.binary_search(row).expect("was gathered") as u32);
            });
            reducer.feeds = 1;
        }
    }

    /// The values that rows have in one of the columns.
    pub fn of(&self, column: usize, rows: &[RowId]) -> Column {
        gather(&self.feeds, column, rows)
    }
}

fn gather(feeds: &[Vec<Column>], column: usize, rows: &[RowId]) -> Column {
    let values: Vec<_> =
        rows.iter().map(|(feed, row)| feeds.get(*feed as usize)?[column].scalar(*row as usize)).collect();
    Column::from_scalars(&values)
}
