//! Comparing scans that stores may shorten or divide: with a prefilter, and in parts.

use super::super::{KeyBound, Predicate, Prefilter, RowSelection, ScanRequest, Snapshot};
use super::compare::{Outcome, Row, compare_outcomes, rows_of};
use super::generate::{Generator, KnownTable};
use crate::arrays::value_at;
use crate::ids::ColumnId;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use std::ops::Bound;
use std::sync::Arc;

/// Tests some columns of a row by conditions, which name them in the same order.
#[derive(Debug)]
struct Conditions {
    columns: Vec<ColumnId>,
    predicates: Vec<Predicate>,
}

impl Conditions {
    fn hold(&self, cell: impl Fn(usize) -> Option<crate::Value>) -> bool {
        let place = |id: ColumnId| self.columns.iter().position(|own| *own == id).expect("all are named");
        self.predicates.iter().all(|own| own.comparison.holds(cell(place(own.column)).as_ref()))
    }
}

impl Prefilter for Conditions {
    fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Option<BooleanBuffer> {
        let rows = columns.first()?.len();
        Some((0..rows).map(|row| self.hold(|column| value_at(&columns[column], row))).collect())
    }
}

/// Compares a scan with a prefilter, which may leave rows in, with one that has none.
pub(super) async fn compare_prefiltered(
    generator: &mut Generator,
    (subject, model): (&dyn Snapshot, &dyn Snapshot),
    table: &KnownTable,
) -> Outcome {
    let predicates = generator.predicates(&table.schema);
    let mut columns: Vec<ColumnId> = predicates.iter().map(|own| own.column).collect();
    columns.sort_unstable();
    columns.dedup();
    let conditions = Arc::new(Conditions { columns: columns.clone(), predicates });
    let mut request = ScanRequest { limit: None, limit_per_prefix: None, ..generator.scan(table) };
    request.columns.retain(|id| table.schema.column(*id).is_some());
    let shown = request.columns.len();
    request.columns.extend(columns);
    let plain = ScanRequest { table: table.model, ..request.clone() };
    let prefiltered = ScanRequest { prefilter: Some(conditions.clone()), ..request };
    let is_kept = |row: &Row| conditions.hold(|column| row[shown + column].clone());
    let kept = |rows: Vec<Row>| rows.into_iter().filter(is_kept).collect::<Vec<Row>>();
    let found = rows_of(subject, &prefiltered).await.map(kept);
    let expected = rows_of(model, &plain).await.map(kept);
    compare_outcomes(found, expected, |found, expected| {
        format!("{} rows, not {}, of {prefiltered:?}", found.len(), expected.len())
    })
}

/// Compares the parts of a table with the whole.
pub(super) async fn compare_parts(
    generator: &mut Generator,
    (subject, model): (&dyn Snapshot, &dyn Snapshot),
    table: &KnownTable,
) -> Outcome {
    let error = |error: crate::Error| error.to_string();
    let (start, end) = match generator.selection(&table.schema) {
        RowSelection::Keys { start, end } => (start, end),
        _ => (Bound::Unbounded, Bound::Unbounded),
    };
    let columns: Vec<ColumnId> = table.schema.columns.iter().map(|column| column.id).collect();
    let scan = |table, start: KeyBound, end: KeyBound| {
        ScanRequest::by_key(table, RowSelection::Keys { start, end }, columns.clone())
    };
    let parts = 1 + generator.below(4) as usize;
    let splits = subject.split_keys(table.subject, (&start, &end), parts).await.map_err(error)?;
    if splits.len() >= parts {
        return Err(format!("{} splits for {parts} parts", splits.len()));
    }
    let mut found = Vec::new();
    let mut from = start.clone();
    for split in &splits {
        let part = scan(table.subject, from, Bound::Excluded(split.clone()));
        found.extend(rows_of(subject, &part).await.map_err(error)?);
        from = Bound::Included(split.clone());
    }
    found.extend(rows_of(subject, &scan(table.subject, from, end.clone())).await.map_err(error)?);
    let expected = rows_of(model, &scan(table.model, start, end)).await.map_err(error)?;
    match found == expected {
        true => Ok(()),
        false => Err(format!("{} rows in parts at {splits:?}, not {}", found.len(), expected.len())),
    }
}
