//! Merges the two sides, which come sorted by what must be equal, and then by time.
//!
//! Only the rows that were read last are in memory, and of the right side the row that the next one of the left side may
//! belong to.

use super::node::Match;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::{interleave, take};
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use std::cmp::Ordering;
use std::sync::Arc;

/// Which array a value of the right side is in, and its row there.
type Place = (usize, usize);
const ABSENT: Place = (0, 0);
const KEPT: Place = (1, 0);
const READ: usize = 2;

/// What one side is compared by.
pub(super) type Compared = (Vec<Arc<dyn PhysicalExpr>>, Arc<dyn PhysicalExpr>);

/// What is needed next.
pub(super) enum Needed {
    Left,
    Right,
    /// Rows of the answer are there.
    Nothing(RecordBatch),
}

/// A join that is being computed.
pub(super) struct Merging {
    schema: SchemaRef,
    rule: Match,
    keys: Option<RowConverter>,
    times: RowConverter,
    compared: (Compared, Compared),
    left: Option<Side>,
    right: Option<Side>,
    right_ends: bool,
    /// The row of the right side that was the last candidate.
    candidate: Option<Place>,
    /// The last candidate of rows that were read before, by column, and what it is compared by.
    kept: Vec<ArrayRef>,
    kept_key: Option<OwnedRow>,
    /// The rows of the left side that are in the next answer, and those of the right side.
    chosen: Vec<u32>,
    places: Vec<Place>,
}

/// Rows of a side that were read.
struct Side {
    rows: RecordBatch,
    keys: Option<Rows>,
    times: Rows,
    /// By row, whether it can have a partner: nothing that it is compared by is NULL.
    is_comparable: Vec<bool>,
    next: usize,
}

impl Merging {
    pub(super) fn new(
        schema: SchemaRef,
        rule: Match,
        compared: (Compared, Compared),
        key_fields: Vec<SortField>,
        time_field: SortField,
        right: &SchemaRef,
    ) -> Result<Self> {
        let keys = if key_fields.is_empty() { None } else { Some(RowConverter::new(key_fields)?) };
        let kept = right.fields().iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        Ok(Self {
            schema,
            rule,
            keys,
            times: RowConverter::new(vec![time_field])?,
            compared,
            left: None,
            right: None,
            right_ends: false,
            candidate: None,
            kept,
            kept_key: None,
            chosen: Vec::new(),
            places: Vec::new(),
        })
    }

    /// Takes the next rows of the left side.
    pub(super) fn read_left(&mut self, rows: RecordBatch) -> Result<()> {
        self.left = Some(self.side(rows, true)?);
        Ok(())
    }

    /// Takes the next rows of the right side; `None` at its end.
    pub(super) fn read_right(&mut self, rows: Option<RecordBatch>) -> Result<()> {
        if let (Some((READ, row)), Some(right)) = (self.candidate, &self.right) {
            self.kept_key = right.keys.as_ref().map(|keys| keys.row(row).owned());
            let row = UInt32Array::from(vec![row as u32]);
            let kept = right.rows.columns().iter().map(|column| take(column, &row, None));
            self.kept = kept.collect::<Result<_, _>>()?;
            self.candidate = Some(KEPT);
        }
        match rows {
            Some(rows) => self.right = Some(self.side(rows, false)?),
            None => (self.right, self.right_ends) = (None, true),
        }
        Ok(())
    }

    fn side(&mut self, rows: RecordBatch, is_left: bool) -> Result<Side> {
        let (keys, time) = if is_left { &self.compared.0 } else { &self.compared.1 };
        let value = |own: &Arc<dyn PhysicalExpr>| own.evaluate(&rows)?.into_array(rows.num_rows());
        let (time, columns) = (value(time)?, keys.iter().map(value).collect::<Result<Vec<_>>>()?);
        let mut is_comparable = vec![true; rows.num_rows()];
        for nulls in columns.iter().chain([&time]).filter_map(|own| own.logical_nulls()) {
            is_comparable.iter_mut().enumerate().for_each(|(row, own)| *own &= nulls.is_valid(row));
        }
        let keys = match &mut self.keys {
            Some(converter) => Some(converter.convert_columns(&columns)?),
            None => None,
        };
        let times = self.times.convert_columns(&[time])?;
        Ok(Side { rows, keys, times, is_comparable, next: 0 })
    }

    /// Goes on until rows of the answer are there, or more must be read.
    pub(super) fn next(&mut self) -> Result<Needed> {
        loop {
            let Some(left) = &self.left else { return Ok(Needed::Left) };
            let row = left.next;
            if row == left.rows.num_rows() {
                let made = self.made()?;
                self.left = None;
                match made {
                    Some(made) => return Ok(Needed::Nothing(made)),
                    None => return Ok(Needed::Left),
                }
            }
            if left.is_comparable[row] && !self.advance() {
                // The rows of the right side that were chosen must be in memory.
                return Ok(match self.made()? {
                    Some(made) => Needed::Nothing(made),
                    None => Needed::Right,
                });
            }
            self.choose();
        }
    }

    /// Goes on in the right side as far as the next row of the left side allows; `false` if more of it must be read.
    fn advance(&mut self) -> bool {
        let Some(left) = &self.left else { return true };
        loop {
            let Some(right) = &mut self.right else { return self.right_ends };
            let row = right.next;
            if row == right.rows.num_rows() {
                return false;
            }
            let by_key = match (&right.keys, &left.keys) {
                (Some(own), Some(other)) => own.row(row).cmp(&other.row(left.next)),
                _ => Ordering::Equal,
            };
            let by_time = right.times.row(row).cmp(&left.times.row(left.next));
            let is_before = by_time.is_lt() || by_time.is_eq() && self.rule.may_be_equal;
            match by_key {
                Ordering::Greater => return true,
                Ordering::Equal if right.is_comparable[row] && !is_before => return true,
                _ => {
                    if right.is_comparable[row] {
                        self.candidate = Some((READ, row));
                    }
                    right.next += 1;
                }
            }
        }
    }

    /// Chooses the partner of the next row of the left side.
    fn choose(&mut self) {
        let Some(left) = &mut self.left else { return };
        let row = left.next;
        left.next += 1;
        let has_key_of = |place: Place| {
            let Some(keys) = &left.keys else { return true };
            match (place, self.right.as_ref().and_then(|right| right.keys.as_ref()), &self.kept_key) {
                ((READ, own), Some(right), _) => right.row(own) == keys.row(row),
                (KEPT, _, Some(kept)) => kept.row() == keys.row(row),
                _ => false,
            }
        };
        let partner = self.candidate.filter(|place| left.is_comparable[row] && has_key_of(*place));
        if partner.is_some() || self.rule.is_outer {
            self.chosen.push(row as u32);
            self.places.push(partner.unwrap_or(ABSENT));
        }
    }

    /// The rows that were chosen; `None` if there are none.
    fn made(&mut self) -> Result<Option<RecordBatch>> {
        let Some(left) = self.left.as_ref().filter(|_| !self.chosen.is_empty()) else { return Ok(None) };
        let (chosen, places) = (std::mem::take(&mut self.chosen), std::mem::take(&mut self.places));
        let options = RecordBatchOptions::new().with_row_count(Some(chosen.len()));
        let chosen = UInt32Array::from(chosen);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in left.rows.columns() {
            columns.push(take(column, &chosen, None)?);
        }
        for (number, kept) in self.kept.iter().enumerate() {
            let null = new_null_array(kept.data_type(), 1);
            let read = match &self.right {
                Some(right) => right.rows.column(number).clone(),
                None => null.clone(),
            };
            columns.push(interleave(&[&null, kept, &read], &places)?);
        }
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?))
    }
}
