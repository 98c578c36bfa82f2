//! Rows that a client sends, as columns: what was read and not written yet.

use super::cells::Cells;
use super::context::DISPLAYED_BYTES;
use crate::error::SqlResult;
use crate::relation::input::Surroundings;
use arrow_array::{Array, ArrayRef};
use datafusion::common::ScalarValue;
use nyala_core::ErrorKind;
use nyala_core::arrays::value_bytes;
use nyala_db::relations::DeclaredType;
use nyala_exec::memory::MemoryCharge;
use std::time::Duration;

/// Rows are written when so many are collected, …
const ROWS_MAX: usize = 1 << 15;
/// … or when they take about so many bytes.
const BYTES_MAX: usize = 8 << 20;
/// Memory is charged in steps of this size.
const STEP_BYTES: usize = 64 << 10;
/// What a value takes beside its text.
const VALUE_BYTES: usize = 8;

/// How long a COPY waits for memory, as a batch of line protocol does. It cannot begin anew: its rows are gone.
pub(crate) const COPY_WAIT_MAX: Duration = Duration::from_secs(10);

/// Rows whose values were added one after the other.
pub struct CopyRows {
    columns: Vec<Cells>,
    around: Surroundings,
    /// The line of each row, and where its text ends in `texts`.
    lines: Vec<(u64, usize)>,
    /// The beginnings of the texts of the rows, for messages.
    texts: Vec<u8>,
    bytes: usize,
    held: MemoryCharge,
    /// Whether the server had no memory for the last rows.
    is_short: bool,
}

/// Rows that are complete.
pub(crate) struct CopiedRows {
    pub(crate) columns: Vec<ArrayRef>,
    lines: Vec<(u64, usize)>,
    texts: Vec<u8>,
}

impl CopyRows {
    pub(crate) fn of(
        types: impl Iterator<Item = DeclaredType>,
        around: Surroundings,
        held: MemoryCharge,
    ) -> SqlResult<Self> {
        let columns = types.map(Cells::of).collect::<SqlResult<_>>()?;
        Ok(Self { columns, around, lines: Vec::new(), texts: Vec::new(), bytes: 0, held, is_short: false })
    }

    /// Adds a value that is written in text to the row that is being read.
    ///
    /// # Errors
    /// PostgreSQL's, if the column cannot have it.
    pub fn text(&mut self, column: usize, text: &str) -> SqlResult<()> {
        self.bytes += VALUE_BYTES + text.len();
        self.columns[column].add_text(text, &self.around)
    }

    /// The same for a value that was sent in the form of its type.
    pub fn scalar(&mut self, column: usize, value: ScalarValue) -> SqlResult<()> {
        self.bytes += VALUE_BYTES + value.size();
        self.columns[column].add_scalar(value)
    }

    /// The same for NULL.
    pub fn null(&mut self, column: usize) {
        self.bytes += VALUE_BYTES;
        self.columns[column].add_null();
    }

    /// Ends a row: its line, and its text if it has one.
    ///
    /// # Errors
    /// Out of memory, if the rows take more than the statement may.
    pub fn end(&mut self, line: u64, text: &[u8]) -> SqlResult<()> {
        // One byte more says that it was longer; no letter is cut in two.
        self.texts.extend_from_slice(&text[..text.len().min(DISPLAYED_BYTES + 1)]);
        self.lines.push((line, self.texts.len()));
        self.bytes += 2 * VALUE_BYTES + text.len().min(DISPLAYED_BYTES);
        if self.bytes > self.held.bytes()
            && let Err(error) = self.held.charge(self.bytes - self.held.bytes() + STEP_BYTES)
        {
            if error.kind() != ErrorKind::Retry {
                return Err(error.into());
            }
            // Whoever writes the rows waits for memory.
            self.is_short = true;
        }
        Ok(())
    }

    /// Whether it is time to write them.
    pub fn is_full(&self) -> bool {
        self.is_short || self.lines.len() >= ROWS_MAX || self.bytes >= BYTES_MAX
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Waits until there is memory for the rows, if there was none when they came.
    pub(crate) async fn wait_for_memory(&mut self) -> SqlResult<()> {
        if std::mem::take(&mut self.is_short) && self.bytes > self.held.bytes() {
            self.held.charge_within(COPY_WAIT_MAX, self.bytes - self.held.bytes()).await?;
        }
        Ok(())
    }

    /// The complete rows. Their memory stays charged until [`Self::free`] is called. A row that is being read is lost.
    pub(crate) fn take(&mut self) -> CopiedRows {
        let count = self.lines.len();
        let columns = self.columns.iter_mut().map(|cells| {
            let values = cells.take();
            if values.len() == count { values } else { values.slice(0, count) }
        });
        let columns = columns.collect();
        self.bytes = 0;
        CopiedRows { columns, lines: std::mem::take(&mut self.lines), texts: std::mem::take(&mut self.texts) }
    }

    /// Gives up the memory of rows that were taken.
    pub(crate) fn free(&mut self) {
        self.held.shrink_to(0);
    }
}

impl CopiedRows {
    /// So many rows without a text, the first of which has this number, and no columns so far.
    pub(crate) fn numbered(count: usize, first: u64) -> Self {
        let lines = (first..).take(count).map(|line| (line, 0)).collect();
        Self { columns: Vec::new(), lines, texts: Vec::new() }
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.iter().map(value_bytes).sum()
    }

    pub(crate) fn count(&self) -> usize {
        self.lines.len()
    }

    /// The line of a row, and the beginning of its text.
    pub(crate) fn line(&self, row: usize) -> (u64, &[u8]) {
        let begin = row.checked_sub(1).map_or(0, |before| self.lines[before].1);
        let (line, end) = self.lines[row];
        (line, &self.texts[begin..end])
    }
}
