//! A scan: what the servers can judge is asked of them, the rest is looked through here.

use crate::cells::{Stored, series_value};
use crate::error::of_read;
use crate::options::KuduOptions;
use crate::physical::{Physical, name_of, stored};
use crate::state::TableState;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_buffer::BooleanBuffer;
use async_trait::async_trait;
use kudu_client::{Predicate as KuduPredicate, ReadMode, ScanBuilder, Scanner, Timestamp};
use nyala_core::arrays::{take_rows, value_at};
use nyala_core::schema::{ColumnType, TableSchema};
use nyala_core::store::{
    Batch, Comparison, KeyBound, Predicate, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet,
};
use nyala_core::{ColumnId, Result, SeriesId, Value};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << 15;
/// So many series are named to the servers; more are a range of them.
const SERIES_LISTED: usize = 4096;

/// Opens a scan of a validated request forwards by key.
pub(crate) async fn open_scan(
    physical: Option<Arc<Physical>>,
    table: &TableState,
    request: ScanRequest,
    at: Timestamp,
    options: &KuduOptions,
) -> Result<Box<dyn RowStream>> {
    let schema = &table.schema;
    let mut columns: Vec<ColumnId> = schema.key.clone();
    let mut place = |id: ColumnId| {
        columns.iter().position(|known| *known == id).unwrap_or_else(|| {
            columns.push(id);
            columns.len() - 1
        })
    };
    let wanted: Vec<usize> = request.columns.iter().map(|id| place(*id)).collect();
    let predicates: Vec<(usize, Comparison)> = request
        .predicates
        .iter()
        .map(|predicate| (place(predicate.column), predicate.comparison.clone()))
        .collect();
    let fields = request.columns.iter().zip(&wanted).filter(|(id, _)| !schema.is_key(**id));
    let not_all_null = request.skip_empty_rows.then(|| fields.map(|(_, place)| *place).collect());
    let Some(physical) = physical else { return Ok(Box::new(NoRows)) };
    let read: Vec<Read> = columns
        .iter()
        .map(|id| {
            let column = schema.column(*id).expect("requests are validated");
            match physical.place(*id) {
                Some(_) => Read::Stored(stored(schema, column)),
                None => Read::Absent(column.column_type),
            }
        })
        .collect();
    let names = columns.iter().filter(|id| physical.place(**id).is_some()).map(|id| name_of(*id));
    let scan = physical.table.scan().project(names);
    let scan = scan.read_mode(ReadMode::Snapshot(Some(at))).sorted().timeout(options.read_timeout);
    let Some(scan) = select(scan, schema, &physical, &request) else { return Ok(Box::new(NoRows)) };
    let scanner = scan.open().await.map_err(of_read)?;
    Ok(Box::new(Rows {
        scanner,
        schema: schema.clone(),
        read,
        wanted,
        predicates,
        not_all_null,
        rows: request.rows,
        left: request.limit.unwrap_or(usize::MAX),
        ready: VecDeque::new(),
    }))
}

/// A column of a scan.
enum Read {
    Stored(Stored),
    /// No row has it.
    Absent(ColumnType),
}

/// Conditions that the servers judge exactly as the contract does, or too generously; `None`: no row meets them.
fn select(
    mut scan: ScanBuilder,
    schema: &TableSchema,
    physical: &Physical,
    request: &ScanRequest,
) -> Option<ScanBuilder> {
    let first = name_of(schema.key[0]);
    match &request.rows {
        RowSelection::All => {}
        RowSelection::Series { series, time } => {
            if time.is_empty() {
                return None;
            }
            let time_column = name_of(schema.key[1]);
            scan = scan.filter(KuduPredicate::ge(&time_column, time.start_ns));
            scan = scan.filter(KuduPredicate::lt(&time_column, time.end_ns));
            if let SeriesSet::Ids(ids) = series {
                let (least, most) = (ids.first()?, ids.last()?);
                scan = match ids.len() {
                    1..=SERIES_LISTED => {
                        let listed = ids.iter().map(|id| series_value(id.0));
                        scan.filter(KuduPredicate::in_list(&first, listed))
                    }
                    _ => scan
                        .filter(KuduPredicate::ge(&first, series_value(least.0)))
                        .filter(KuduPredicate::le(&first, series_value(most.0))),
                };
            }
        }
        RowSelection::Keys { start, end } => {
            let key = stored(schema, schema.column(schema.key[0])?);
            let bound = |bound: &KeyBound| match bound {
                Bound::Included(values) | Bound::Excluded(values) => {
                    values.first().and_then(|value| key.value(value))
                }
                Bound::Unbounded => None,
            };
            if let Some(value) = bound(start) {
                scan = scan.filter(KuduPredicate::ge(&first, value));
            }
            if let Some(value) = bound(end) {
                scan = scan.filter(KuduPredicate::le(&first, value));
            }
        }
    }
    for predicate in &request.predicates {
        if physical.place(predicate.column).is_some()
            && let Some(pushed) = pushed(schema, predicate)
        {
            scan = scan.filter(pushed);
        }
    }
    Some(scan)
}

/// A condition for the servers. Floats are compared here: of NaN and zeros Kudu has an order of its own.
fn pushed(schema: &TableSchema, predicate: &Predicate) -> Option<KuduPredicate> {
    let column = schema.column(predicate.column)?;
    let stored = stored(schema, column);
    let is_float = matches!(column.column_type, ColumnType::Float32 | ColumnType::Float64);
    let name = name_of(column.id);
    let value = |value: &Value| stored.value(value).filter(|_| !is_float);
    Some(match &predicate.comparison {
        Comparison::IsNull if !stored.is_key => KuduPredicate::is_null(&name),
        Comparison::IsNotNull if !stored.is_key => KuduPredicate::is_not_null(&name),
        Comparison::Equal(other) => KuduPredicate::eq(&name, value(other)?),
        Comparison::Less(other) => KuduPredicate::lt(&name, value(other)?),
        Comparison::LessOrEqual(other) => KuduPredicate::le(&name, value(other)?),
        Comparison::Greater(other) => KuduPredicate::gt(&name, value(other)?),
        Comparison::GreaterOrEqual(other) => KuduPredicate::ge(&name, value(other)?),
        _ => return None,
    })
}

struct NoRows;

#[async_trait]
impl RowStream for NoRows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        Ok(None)
    }
}

struct Rows {
    scanner: Scanner,
    schema: Arc<TableSchema>,
    /// The columns read: the key's, then others.
    read: Vec<Read>,
    /// Which of them are asked for.
    wanted: Vec<usize>,
    predicates: Vec<(usize, Comparison)>,
    not_all_null: Option<Vec<usize>>,
    rows: RowSelection,
    left: usize,
    ready: VecDeque<Batch>,
}

#[async_trait]
impl RowStream for Rows {
    async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.left == 0 {
                return Ok(None);
            }
            let Some(batch) = self.scanner.next_batch().await.map_err(of_read)? else { return Ok(None) };
            let columns = self.columns_of(&batch)?;
            let mut begin = 0;
            while begin < batch.num_rows() {
                let count = (batch.num_rows() - begin).min(BATCH_ROWS);
                let slices: Vec<ArrayRef> = columns.iter().map(|column| column.slice(begin, count)).collect();
                self.take(&slices, count);
                begin += count;
            }
        }
    }
}

impl Rows {
    fn columns_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut scanned = batch.columns().iter();
        self.read
            .iter()
            .map(|read| match read {
                Read::Stored(stored) => stored.array(scanned.next().expect("as many as were projected")),
                Read::Absent(column_type) => Ok(new_null_array(&column_type.data_type(), batch.num_rows())),
            })
            .collect()
    }

    /// Takes the rows that stay.
    fn take(&mut self, columns: &[ArrayRef], rows: usize) {
        let mut kept = BooleanBuffer::new_set(rows);
        if let RowSelection::Keys { start, end } = &self.rows {
            kept = keys_within(&columns[..self.schema.key.len()], rows, start, end);
        }
        if let RowSelection::Series { series: SeriesSet::Ids(ids), .. } = &self.rows
            && ids.len() > SERIES_LISTED
        {
            let series = columns[0].as_primitive::<UInt32Type>().values();
            let inside = |row: usize| ids.binary_search(&SeriesId(series[row])).is_ok();
            kept = &kept & &BooleanBuffer::collect_bool(rows, inside);
        }
        for (place, comparison) in &self.predicates {
            kept = &kept & &judged(&columns[*place], comparison);
        }
        if let Some(places) = &self.not_all_null {
            let any = |row| places.iter().any(|place| columns[*place].is_valid(row));
            kept = &kept & &BooleanBuffer::collect_bool(rows, any);
        }
        let mut kept: Vec<u32> = kept.set_indices().map(|row| row as u32).collect();
        kept.truncate(self.left);
        self.left -= kept.len();
        if kept.is_empty() {
            return;
        }
        let taken = |place: usize| match kept.len() == rows {
            true => columns[place].clone(),
            false => take_rows(&columns[place], &kept),
        };
        let series = match self.schema.is_series_keyed() {
            true => runs(taken(0).as_primitive::<UInt32Type>().values()),
            false => Vec::new(),
        };
        let columns = self.wanted.iter().map(|place| taken(*place)).collect();
        self.ready.push_back(Batch { rows: kept.len(), series, columns });
    }
}

/// Which rows a condition holds for.
fn judged(column: &ArrayRef, comparison: &Comparison) -> BooleanBuffer {
    BooleanBuffer::collect_bool(column.len(), |row| comparison.holds(value_at(column, row).as_ref()))
}

fn keys_within(key: &[ArrayRef], rows: usize, start: &KeyBound, end: &KeyBound) -> BooleanBuffer {
    let compared = |row: usize, bound: &[Value]| {
        let mut pairs = key.iter().zip(bound);
        let unequal = pairs.find_map(|(column, value)| {
            let ordering = value_at(column, row).expect("keys are whole").cmp(value);
            ordering.is_ne().then_some(ordering)
        });
        unequal.unwrap_or(std::cmp::Ordering::Equal)
    };
    BooleanBuffer::collect_bool(rows, |row| {
        let after_start = match start {
            Bound::Unbounded => true,
            Bound::Included(bound) => compared(row, bound).is_ge(),
            Bound::Excluded(bound) => compared(row, bound).is_gt(),
        };
        let before_end = match end {
            Bound::Unbounded => true,
            Bound::Included(bound) => compared(row, bound).is_le(),
            Bound::Excluded(bound) => compared(row, bound).is_lt(),
        };
        after_start && before_end
    })
}

fn runs(series: &[u32]) -> Vec<SeriesRun> {
    let run = |run: &[u32]| SeriesRun { series: SeriesId(run[0]), rows: run.len() as u32 };
    series.chunk_by(|a, b| a == b).map(run).collect()
}
