//! Which rows of a batch satisfy a request's conditions.

use super::scan_spec::{ColumnSource, ScanSpec};
use crate::rows::column_buffer::{Column, VALUE};

/// A flag per row; `None` when all rows stay. `cells` are the columns that were read (at least the tested ones); `key`
/// returns a key column.
pub(crate) fn test(
    spec: &ScanSpec,
    rows: usize,
    cells: &[Column],
    key: impl Fn(usize) -> Column,
) -> Option<Vec<bool>> {
    if spec.predicates.is_empty() {
        return None;
    }
    let mut keep = vec![true; rows];
    for (place, column_type, predicate) in &spec.predicates {
        match place {
            ColumnSource::Cell(position) => {
                cells[*position].filter(*column_type, &predicate.comparison, &mut keep);
            }
            ColumnSource::Key(position) => {
                key(*position).filter(*column_type, &predicate.comparison, &mut keep);
            }
        }
    }
    if keep.iter().all(|keep| *keep) { None } else { Some(keep) }
}

/// Clears the flags of rows in which no returned cell has a value.
pub(crate) fn test_empty(spec: &ScanSpec, rows: usize, cells: &[Column], keep: &mut Option<Vec<bool>>) {
    if !spec.skip_empty_rows {
        return;
    }
    let returned: Vec<&Column> = spec.returned_cells(cells).collect();
    if returned.iter().any(|column| column.all_values()) {
        return;
    }
    let keep = keep.get_or_insert_with(|| vec![true; rows]);
    for (row, keep) in keep.iter_mut().enumerate() {
        *keep = *keep && returned.iter().any(|column| column.state(row) == VALUE);
    }
}
