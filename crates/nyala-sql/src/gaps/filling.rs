//! Makes the rows of groups and of the gaps between them.
//!
//! Rows come by group, and by time within it. A row says which gaps there are before it, so that nothing has to be read
//! ahead: of what was read before, only the last value of each column is kept. An answer is put together from four arrays
//! per column: a NULL, what was kept, the rows that were just read, and what was computed.

use super::interpolation::{Sample, between};
use super::node::Dialect;
use super::range::{Range, too_many};
use super::{BUCKETS_MAX, Fill};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{
    Array, ArrayRef, RecordBatch, TimestampNanosecondArray, UInt32Array, new_empty_array, new_null_array,
};
use arrow_schema::SchemaRef;
use datafusion::arrow::compute::{interleave, take};
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

/// Rows of a batch of an answer.
const BATCH_ROWS: usize = 8192;

/// Which array a value is in, and its row there.
type Place = (usize, usize);
const ABSENT: Place = (0, 0);
const KEPT: Place = (1, 0);
const READ: usize = 2;
const COMPUTED: usize = 3;

/// Rows that are being filled.
pub(super) struct Filling {
    schema: SchemaRef,
    dialect: Dialect,
    range: Range,
    bucket: usize,
    columns: Vec<Column>,
    /// Compares what tells groups apart; `None` if there is only one group.
    keys: Option<RowConverter>,
    key_columns: Vec<usize>,
    /// The group whose rows come.
    group: Group,
    read: Option<Read>,
    /// The starts of the buckets of the rows that are made.
    starts: Vec<Option<i64>>,
}

enum Group {
    /// No row has come.
    NotBegun,
    Begun {
        key: Option<OwnedRow>,
        /// The next bucket that must be there.
        next_ns: Option<i64>,
        /// The time of the last row.
        last_ns: Option<i64>,
    },
    /// All rows and gaps have been made.
    Done,
}

/// A column of the answer.
struct Column {
    fill: Fill,
    /// The last value that was kept from rows that were read before.
    kept: ArrayRef,
    /// The value that rows of gaps take, or are computed from.
    last: Place,
    places: Vec<Place>,
    computed: Vec<ScalarValue>,
}

/// Rows that were read.
struct Read {
    rows: RecordBatch,
    keys: Option<Rows>,
    /// The first row that is not in the answer yet.
    next: usize,
}

impl Filling {
    pub(super) fn new(schema: SchemaRef, fills: &[Fill], dialect: Dialect, range: Range) -> Result<Self> {
        let places = |wanted: Fill| -> Vec<usize> {
            (0..fills.len()).filter(|place| fills[*place] == wanted).collect()
        };
        let (key_columns, bucket) = (places(Fill::Key), places(Fill::Bucket)[0]);
        let fields = key_columns.iter().map(|place| SortField::new(schema.field(*place).data_type().clone()));
        let keys = match key_columns.is_empty() {
            true => None,
            false => Some(RowConverter::new(fields.collect())?),
        };
        let column = |(fill, field): (&Fill, &arrow_schema::FieldRef)| Column {
            fill: *fill,
            kept: new_null_array(field.data_type(), 1),
            last: ABSENT,
            places: Vec::new(),
            computed: Vec::new(),
        };
        let columns = fills.iter().zip(schema.fields()).map(column).collect();
        let (group, starts) = (Group::NotBegun, Vec::new());
        Ok(Self { schema, dialect, range, bucket, columns, keys, key_columns, group, read: None, starts })
    }

    /// Takes the next rows. Those that it had must be done.
    pub(super) fn read(&mut self, rows: RecordBatch) -> Result<()> {
        self.keep()?;
        let keys = match &mut self.keys {
            Some(converter) => {
                let columns: Vec<ArrayRef> =
                    self.key_columns.iter().map(|place| rows.column(*place).clone()).collect();
                Some(converter.convert_columns(&columns)?)
            }
            None => None,
        };
        self.read = Some(Read { rows, keys, next: 0 });
        Ok(())
    }

    /// Keeps what is needed of the rows that were read.
    fn keep(&mut self) -> Result<()> {
        let Some(read) = self.read.take() else { return Ok(()) };
        for (place, column) in self.columns.iter_mut().enumerate() {
            if let (READ, row) = column.last {
                column.kept = take(read.rows.column(place), &UInt32Array::from(vec![row as u32]), None)?;
                column.last = KEPT;
            }
        }
        Ok(())
    }

    /// The next rows of the answer; `None` if more must be read first.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.starts.len() < BATCH_ROWS && self.step()? {}
        self.made()
    }

    /// The rows behind the last that was read; `None` at the end.
    pub(super) fn last(&mut self) -> Result<Option<RecordBatch>> {
        if matches!(self.group, Group::NotBegun) && self.keys.is_none() {
            // Without keys there is a group even if there are no rows.
            self.begin(None)?;
        }
        if matches!(self.group, Group::Begun { .. }) && self.fill(i64::MAX, None)? {
            self.group = Group::Done;
        }
        self.made()
    }

    /// Makes some rows; whether there may be more.
    fn step(&mut self) -> Result<bool> {
        let Some(read) = &self.read else { return Ok(false) };
        let row = read.next;
        if row == read.rows.num_rows() {
            return Ok(false);
        }
        let is_same = match (&self.group, &read.keys) {
            (Group::Begun { key: Some(key), .. }, Some(keys)) => keys.row(row) == key.row(),
            (Group::Begun { .. }, _) => true,
            _ => false,
        };
        if !is_same {
            if matches!(self.group, Group::Begun { .. }) && !self.fill(i64::MAX, None)? {
                return Ok(true);
            }
            self.begin(Some(row))?;
        }
        let time_ns = self.time(row);
        // A row without a time comes behind all others.
        if !self.fill(time_ns.unwrap_or(i64::MAX), Some(row))? {
            return Ok(true);
        }
        self.add(row, time_ns);
        Ok(true)
    }

    fn time(&self, row: usize) -> Option<i64> {
        let times = self.read.as_ref()?.rows.column(self.bucket).as_primitive::<TimestampNanosecondType>();
        times.is_valid(row).then(|| times.value(row))
    }

    /// Begins the group of a row, or the only one.
    fn begin(&mut self, row: Option<usize>) -> Result<()> {
        let start_ns = self.range.start_ns.or_else(|| self.time(row?));
        if let Some(start_ns) = start_ns
            && self.range.buckets.about_between(start_ns, self.range.end_ns) > BUCKETS_MAX
        {
            return Err(too_many(self.dialect).into());
        }
        let keys = self.read.as_ref().and_then(|read| read.keys.as_ref());
        let key = keys.zip(row).map(|(keys, row)| keys.row(row).owned());
        self.group = Group::Begun { key, next_ns: start_ns, last_ns: None };
        for column in &mut self.columns {
            column.last = match (column.fill, row) {
                (Fill::Key, Some(row)) => (READ, row),
                _ => ABSENT,
            };
        }
        Ok(())
    }

    /// Fills the gaps of the group before a time, which are before a row if one is given; whether all are filled.
    fn fill(&mut self, before_ns: i64, row: Option<usize>) -> Result<bool> {
        loop {
            let Group::Begun { next_ns, last_ns, .. } = &mut self.group else { return Ok(true) };
            let Some(start_ns) = next_ns.filter(|own| *own < before_ns.min(self.range.end_ns)) else {
                return Ok(true);
            };
            if self.starts.len() >= BATCH_ROWS {
                return Ok(false);
            }
            *next_ns = self.range.buckets.next_start(start_ns);
            let last_ns = *last_ns;
            self.starts.push(Some(start_ns));
            for place in 0..self.columns.len() {
                let filled = match self.columns[place].fill {
                    Fill::Key | Fill::Carry { .. } => self.columns[place].last,
                    Fill::Bucket | Fill::Null => ABSENT,
                    Fill::Interpolate => self.interpolated(place, start_ns, last_ns, row)?,
                };
                self.columns[place].places.push(filled);
            }
        }
    }

    /// The value of a column between the last row and the next.
    fn interpolated(
        &mut self,
        place: usize,
        at_ns: i64,
        last_ns: Option<i64>,
        row: Option<usize>,
    ) -> Result<Place> {
        let column = &self.columns[place];
        let (Some(last_ns), Some(row), Some(read)) = (last_ns, row, &self.read) else { return Ok(ABSENT) };
        let Some(row_ns) = self.time(row) else { return Ok(ABSENT) };
        let values = read.rows.column(place);
        let before: Sample = match column.last {
            KEPT => (last_ns, ScalarValue::try_from_array(&column.kept, 0)?),
            (READ, row) => (last_ns, ScalarValue::try_from_array(values, row)?),
            _ => return Ok(ABSENT),
        };
        let after: Sample = (row_ns, ScalarValue::try_from_array(values, row)?);
        let Some(value) = between(&before, &after, at_ns, values.data_type()) else { return Ok(ABSENT) };
        let column = &mut self.columns[place];
        column.computed.push(value);
        Ok((COMPUTED, column.computed.len() - 1))
    }

    /// Adds a row that was read.
    fn add(&mut self, row: usize, time_ns: Option<i64>) {
        let Some(read) = &mut self.read else { return };
        read.next += 1;
        self.starts.push(time_ns);
        for (place, column) in self.columns.iter_mut().enumerate() {
            let own = (READ, row);
            let shown = match column.fill {
                Fill::Carry { nulls_are_missing: true } if read.rows.column(place).is_null(row) => {
                    column.last
                }
                Fill::Carry { .. } | Fill::Interpolate => {
                    column.last = own;
                    own
                }
                Fill::Key | Fill::Bucket | Fill::Null => own,
            };
            column.places.push(shown);
        }
        if let Group::Begun { next_ns, last_ns, .. } = &mut self.group {
            *last_ns = time_ns;
            if let Some(time_ns) = time_ns
                && *next_ns == Some(time_ns)
            {
                *next_ns = self.range.buckets.next_start(time_ns);
            }
        }
    }

    /// The rows that were made; `None` if there are none.
    fn made(&mut self) -> Result<Option<RecordBatch>> {
        if self.starts.is_empty() {
            return Ok(None);
        }
        let mut arrays = Vec::with_capacity(self.columns.len());
        let starts = TimestampNanosecondArray::from(std::mem::take(&mut self.starts));
        for (place, column) in self.columns.iter_mut().enumerate() {
            let data_type = self.schema.field(place).data_type();
            let places = std::mem::take(&mut column.places);
            if column.fill == Fill::Bucket {
                arrays
                    .push(std::sync::Arc::new(starts.clone().with_data_type(data_type.clone())) as ArrayRef);
                continue;
            }
            let read = match &self.read {
                Some(read) => read.rows.column(place).clone(),
                None => new_empty_array(data_type),
            };
            let computed = match column.computed.is_empty() {
                true => new_empty_array(data_type),
                false => ScalarValue::iter_to_array(column.computed.drain(..))?,
            };
            let null = new_null_array(data_type, 1);
            arrays.push(interleave(&[&null, &column.kept, &read, &computed], &places)?);
        }
        Ok(Some(RecordBatch::try_new(self.schema.clone(), arrays)?))
    }
}
