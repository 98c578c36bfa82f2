//! One row put together from its versions, the newest first: what [`merge`](super::merge) does for many rows.
//!
//! Older versions are only looked for as long as cells are missing.

use super::column_buffer::{ABSENT, Column, NULL, VALUE};
use super::merge::{DELETED, REPLACED};
use super::projection::Projection;
use nyala_core::Result;

/// The newest cells of a row, as far as they were found.
pub(crate) struct NewestRow {
    /// Each is empty until its cell is found.
    cells: Vec<Column>,
    missing: usize,
    /// Whether the newest version is one of a row; unknown until one was found.
    exists: Option<bool>,
    is_settled: bool,
}

impl NewestRow {
    pub(crate) fn new(projection: &Projection) -> Self {
        let cells: Vec<Column> = projection.kinds.iter().map(|kind| Column::new(*kind)).collect();
        Self { missing: cells.len(), cells, exists: None, is_settled: false }
    }

    /// Whether older versions add nothing.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Older versions are hidden.
    pub(crate) fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Adds the next older version. `read` appends the cell of a column, by its position in the projection.
    pub(crate) fn add(
        &mut self,
        marker: u8,
        mut read: impl FnMut(usize, &mut Column) -> Result<()>,
    ) -> Result<()> {
        self.exists.get_or_insert(marker != DELETED);
        self.is_settled = marker == DELETED;
        if self.is_settled {
            return Ok(());
        }
        for (position, cell) in self.cells.iter_mut().enumerate().filter(|(_, cell)| cell.len() == 0) {
            read(position, cell)?;
            match cell.state(0) {
                VALUE | NULL => self.missing -= 1,
                _ => *cell = cell.same_kind(),
            }
        }
        self.is_settled = marker == REPLACED || self.missing == 0;
        Ok(())
    }

    /// Whether any version was found, be it a deletion.
    pub(crate) fn is_found(&self) -> bool {
        self.exists.is_some()
    }

    /// Whether there is a row.
    pub(crate) fn exists(&self) -> bool {
        self.exists == Some(true)
    }

    /// Its cells, a column of one row each.
    pub(crate) fn into_cells(self) -> Vec<Column> {
        let mut cells = self.cells;
        cells.iter_mut().filter(|cell| cell.len() == 0).for_each(|cell| cell.push_state(ABSENT, 1));
        cells
    }
}
