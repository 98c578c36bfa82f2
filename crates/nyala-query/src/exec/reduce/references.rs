//! Other columns of the rows that may be selected.

use super::Reducer;
use nyala_core::Result;
use nyala_exec::aggregate::RowId;
use nyala_exec::memory::Held;
use nyala_exec::{Column, QueryMemory};

/// Columns are thinned out when they take more than this, and twice what they took after the last time.
const THINNED_BYTES_MIN: usize = 1 << 20;

/// Columns that are shown beside a selected value, of the rows fed so far that can still be selected.
pub struct References {
    /// Per feed its columns.
    feeds: Vec<Vec<Column>>,
    held: Held,
    thinned_bytes: usize,
}

impl References {
    /// None so far.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { feeds: Vec::new(), held: memory.hold(), thinned_bytes: 0 }
    }

    /// Keeps the columns of rows that were just fed to the reducers.
    pub fn keep(&mut self, columns: Vec<Column>, reducers: &mut [Reducer]) -> Result<()> {
        let bytes = columns.iter().map(Column::memory_bytes).sum();
        self.feeds.push(columns);
        if self.held.bytes() + bytes > THINNED_BYTES_MIN.max(2 * self.thinned_bytes) {
            self.thin_out(reducers);
            return self.held.charge(self.thinned_bytes);
        }
        self.held.charge(bytes)
    }

    /// Forgets rows that no reducer would select any more.
    fn thin_out(&mut self, reducers: &mut [Reducer]) {
        let mut rows: Vec<RowId> = Vec::new();
        reducers.iter_mut().for_each(|reducer| reducer.visit_rows(&mut |row| rows.push(*row)));
        rows.sort_unstable();
        rows.dedup();
        let feeds = std::mem::take(&mut self.feeds);
        let columns = feeds.first().map_or(0, Vec::len);
        let thinned: Vec<Column> = (0..columns).map(|column| gather(&feeds, column, &rows)).collect();
        self.thinned_bytes = thinned.iter().map(Column::memory_bytes).sum();
        self.feeds = vec![thinned];
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
