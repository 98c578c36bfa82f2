//! Filters rows of a scan: remaining conditions, empty rows, limits, and the requested columns.

use super::super::{Batch, Predicate, RowStream, ScanRequest, SeriesRun};
use crate::arrays::{take_rows, value_at};
use crate::error::Result;
use crate::ids::{ColumnId, SeriesId};
use crate::schema::TableSchema;
use crate::value::Value;
use arrow_array::Array;
use async_trait::async_trait;

/// The filter of a scan.
pub(super) struct Filter {
    /// The columns to read. The requested columns come first.
    columns: Vec<ColumnId>,
    requested_columns: usize,
    /// If empty rows are left out: the positions of the requested columns outside the key.
    not_all_null: Option<Vec<usize>>,
    /// Conditions by the position of their column; the series column has no position.
    predicates: Vec<(Option<usize>, Predicate)>,
    limit: usize,
    limit_per_prefix: Option<usize>,
    /// The position of the first key column, in tables that are not of series.
    prefix: Option<usize>,
    /// The current value of the first key column, and the number of its rows so far.
    current: Option<(Value, usize)>,
}

impl Filter {
    /// The filter for what remains of a request, with the conditions that the store does not evaluate.
    pub(super) fn new(request: &ScanRequest, schema: &TableSchema, predicates: Vec<Predicate>) -> Self {
        let mut columns = request.columns.clone();
        let mut position = |id: ColumnId| {
            columns.iter().position(|other| *other == id).unwrap_or_else(|| {
                columns.push(id);
                columns.len() - 1
            })
        };
        let by_series = schema.is_series_keyed();
        let of_series = |predicate: &Predicate| by_series && predicate.column == schema.key[0];
        let place =
            |predicate: Predicate| ((!of_series(&predicate)).then(|| position(predicate.column)), predicate);
        let predicates = predicates.into_iter().map(place).collect();
        let prefix = (!by_series && request.limit_per_prefix.is_some()).then(|| position(schema.key[0]));
        let is_field = |(_, id): &(usize, &ColumnId)| !schema.is_key(**id);
        let fields = request.columns.iter().enumerate().filter(is_field).map(|(position, _)| position);
        Self {
            requested_columns: request.columns.len(),
            not_all_null: request.skip_empty_rows.then(|| fields.collect()),
            predicates,
            limit: request.limit.unwrap_or(usize::MAX),
            limit_per_prefix: request.limit_per_prefix,
            prefix,
            current: None,
            columns,
        }
    }

    /// The columns that the rows must have.
    pub(super) fn columns_read(&self) -> Vec<ColumnId> {
        self.columns.clone()
    }

    /// The filtered rows of a stream.
    pub(super) fn over(self, rows: Box<dyn RowStream>) -> Filtered {
        Filtered { filter: self, rows }
    }

    /// The rows of a batch that pass the filter.
    pub(super) fn kept(&mut self, batch: &Batch) -> Vec<u32> {
        let mut kept = Vec::new();
        let mut series =
            batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize));
        for row in 0..batch.rows {
            let series = series.next();
            if kept.len() == self.limit {
                break;
            }
            let id = series.map(|series| Value::UInt(series.0.into()));
            let holds = |(position, predicate): &(Option<usize>, Predicate)| match position {
                Some(position) => {
                    predicate.comparison.holds(value_at(&batch.columns[*position], row).as_ref())
                }
                None => predicate.comparison.holds(id.as_ref()),
            };
            let has_value =
                |positions: &Vec<usize>| positions.iter().any(|at| batch.columns[*at].is_valid(row));
            if self.predicates.iter().all(holds)
                && self.not_all_null.as_ref().is_none_or(has_value)
                && self.is_within_prefix(batch, row, series)
            {
                kept.push(row as u32);
            }
        }
        self.limit -= kept.len();
        kept
    }

    fn is_within_prefix(&mut self, batch: &Batch, row: usize, series: Option<SeriesId>) -> bool {
        let Some(limit) = self.limit_per_prefix else { return true };
        let value = match (series, self.prefix) {
            (Some(series), _) => Some(Value::UInt(series.0.into())),
            (None, Some(position)) => value_at(&batch.columns[position], row),
            (None, None) => None,
        };
        // Key columns have no NULL.
        let Some(value) = value else { return true };
        match &mut self.current {
            Some((current, rows)) if *current == value => *rows += 1,
            current => *current = Some((value, 1)),
        }
        self.current.as_ref().is_none_or(|(_, rows)| *rows <= limit)
    }
}

/// A stream that is filtered.
pub(super) struct Filtered {
    filter: Filter,
    rows: Box<dyn RowStream>,
}

#[async_trait]
impl RowStream for Filtered {
    async fn next(&mut self) -> Result<Option<Batch>> {
        while self.filter.limit > 0 {
            let Some(mut batch) = self.rows.next().await? else { return Ok(None) };
            let kept = self.filter.kept(&batch);
            batch.columns.truncate(self.filter.requested_columns);
            match kept.len() {
                0 => continue,
                all if all == batch.rows => return Ok(Some(batch)),
                _ => return Ok(Some(rows_of(&batch, &kept))),
            }
        }
        Ok(None)
    }
}

/// Some rows of a batch, in any order.
pub(super) fn rows_of(batch: &Batch, rows: &[u32]) -> Batch {
    let mut series: Vec<SeriesRun> = Vec::new();
    if !batch.series.is_empty() {
        let all: Vec<SeriesId> =
            batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series, run.rows as usize)).collect();
        for row in rows {
            let id = all[*row as usize];
            match series.last_mut() {
                Some(run) if run.series == id => run.rows += 1,
                _ => series.push(SeriesRun { series: id, rows: 1 }),
            }
        }
    }
    let columns = batch.columns.iter().map(|column| take_rows(column, rows)).collect();
    Batch { rows: rows.len(), series, columns }
}
