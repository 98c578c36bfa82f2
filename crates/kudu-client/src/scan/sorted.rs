//! All tablets in one order: that of the primary key.
//!
//! Each tablet is in order by itself. The tablets whose keys interleave (the hash buckets of one range partition)
//! are read at the same time, each by a task that is at most two batches ahead, and merged by their encoded keys,
//! which compare byte by byte. The merge moves runs of rows: all rows of the tablet in front up to the first key of
//! the next. A limit or a lost interest ends the readers, for they end with this task.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::transform::MutableArrayData;
use arrow_schema::SchemaRef;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::scanner::{Shared, work};
use super::{Part, Spec};
use crate::error::{Error, ErrorKind, Result};
use crate::key::encode_cell;
use crate::partition::BUCKET_BYTES;
use crate::schema::DataType;
use crate::table::TableInner;
use crate::tablets::Tablet;

/// Held of one tablet: the batch being merged, one that waits, one that its reader holds.
const BATCHES_PER_TABLET: usize = 3;
/// Smaller batches are mostly overhead.
const LEAST_BATCH_BYTES: usize = 16 << 10;

/// The tablets that must be merged with each other, in the order in which the groups follow each other.
pub(super) fn groups(table: &TableInner, tablets: Vec<Arc<Tablet>>) -> Vec<Vec<Arc<Tablet>>> {
    // Key columns come first, so the range columns begin the key if they are the first columns.
    let ranges_follow_keys =
        table.partitions.range_columns.iter().copied().eq(0..table.partitions.range_columns.len());
    let range_of = |tablet: &Tablet| match ranges_follow_keys {
        true => tablet.start.get(tablet.hash_buckets.len() * BUCKET_BYTES..).unwrap_or_default().to_vec(),
        false => Vec::new(),
    };
    let mut tablets: Vec<(Vec<u8>, Arc<Tablet>)> =
        tablets.into_iter().map(|tablet| (range_of(&tablet), tablet)).collect();
    tablets.sort_by(|a, b| a.0.cmp(&b.0));
    tablets
        .chunk_by(|a, b| a.0 == b.0)
        .map(|group| group.iter().map(|(_, tablet)| tablet.clone()).collect())
        .collect()
}

/// The size of batches with which the largest group keeps to the bound of the scan.
pub(super) fn batch_bytes(spec: &Spec, groups: &[Vec<Arc<Tablet>>]) -> u32 {
    let largest = groups.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let bound = spec.batch_bytes as usize * (spec.parallelism + spec.prefetch);
    let share = (bound / (BATCHES_PER_TABLET * largest)).max(LEAST_BATCH_BYTES);
    spec.batch_bytes.min(u32::try_from(share).unwrap_or(u32::MAX))
}

/// The schema without the columns that were only needed to sort.
pub(super) fn visible_schema(spec: &Spec) -> SchemaRef {
    let visible: Vec<_> = spec.arrow_schema.fields()[..spec.hidden.start].to_vec();
    let behind = spec.arrow_schema.fields()[spec.hidden.end..].to_vec();
    Arc::new(arrow_schema::Schema::new([visible, behind].concat()))
}

/// Reads group after group into `output`.
pub(super) async fn read(
    spec: Arc<Spec>,
    groups: Vec<Vec<Arc<Tablet>>>,
    output: mpsc::Sender<Result<RecordBatch>>,
) {
    for tablets in groups {
        if let Err(error) = merge(&spec, tablets, &output).await {
            let _ = output.send(Err(error)).await;
            return;
        }
        if output.is_closed() {
            return;
        }
    }
}

async fn merge(
    spec: &Arc<Spec>,
    tablets: Vec<Arc<Tablet>>,
    output: &mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    let schema = visible_schema(spec);
    let mut readers = JoinSet::new();
    let mut sources = Vec::with_capacity(tablets.len());
    for tablet in tablets {
        let (sender, batches) = mpsc::channel(1);
        readers.spawn(work(spec.clone(), Arc::new(Shared::new(spec, vec![Part::whole(tablet)])), sender));
        sources.push(batches);
    }
    let mut heads = Vec::with_capacity(sources.len());
    for source in &mut sources {
        heads.push(next_head(spec, source).await?);
    }
    let mut order: Vec<usize> = (0..heads.len()).filter(|&index| !heads[index].is_empty()).collect();
    // The smallest key last, where it is taken off and put back cheaply.
    order.sort_by(|&a, &b| heads[b].key().cmp(heads[a].key()));
    while !order.is_empty() {
        let runs = runs_until_one_is_empty(&mut heads, &mut order);
        let Some(&Run { source: empty, .. }) = runs.last() else { break };
        let batch = join(spec, &schema, &heads, &runs)?;
        if output.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
        heads[empty] = next_head(spec, &mut sources[empty]).await?;
        if !heads[empty].is_empty() {
            put_back(&heads, &mut order, empty);
        }
    }
    // A reader only ends early by panicking; what it left out must not look complete.
    while let Some(ended) = readers.join_next().await {
        if let Err(error) = ended {
            return Err(Error::protocol(format!("a reader of a tablet broke off: {error}")));
        }
    }
    Ok(())
}

/// A batch of one tablet, its encoded keys, and how far it was merged.
struct Head {
    batch: RecordBatch,
    keys: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
    at: usize,
}

/// Rows `from..to` of a head's batch.
struct Run {
    source: usize,
    from: usize,
    to: usize,
}

impl Head {
    fn is_empty(&self) -> bool {
        self.at == self.ends.len()
    }

    fn key(&self) -> &[u8] {
        self.key_at(self.at)
    }

    fn key_at(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[row]]
    }
}

async fn next_head(spec: &Spec, source: &mut mpsc::Receiver<Result<RecordBatch>>) -> Result<Head> {
    let Some(batch) = source.recv().await.transpose()? else {
        let batch = RecordBatch::new_empty(spec.arrow_schema.clone());
        return Ok(Head { batch, keys: Vec::new(), ends: Vec::new(), at: 0 });
    };
    let schema = &spec.table.schema;
    let columns: Vec<KeyColumn> = schema
        .key_columns()
        .iter()
        .map(|column| {
            let place = spec.columns.iter().position(|projected| projected.name == column.name());
            let array = place.and_then(|place| batch.columns().get(place));
            array.map(|array| KeyColumn::new(column.data_type(), array))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Error::protocol("a key column is missing from a sorted scan"))?;
    let mut keys = Vec::with_capacity(batch.num_rows() * 16);
    let mut ends = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        for (place, column) in columns.iter().enumerate() {
            encode_cell(column.data_type, column.cell(row), place + 1 == columns.len(), &mut keys);
        }
        ends.push(keys.len());
    }
    Ok(Head { batch, keys, ends, at: 0 })
}

/// The cells of a key column as Kudu has them.
struct KeyColumn {
    data_type: DataType,
    /// Values, or text and bytes.
    bytes: Buffer,
    /// Of text and bytes: where each ends, with a zero in front.
    offsets: Vec<usize>,
    /// Of values: the size of one in the array; decimals are wider there.
    stored_bytes: usize,
}

impl KeyColumn {
    fn new(data_type: DataType, array: &ArrayRef) -> Self {
        let data = array.to_data();
        let first = data.offset();
        if data_type.fixed_bytes().is_some() {
            let bytes = data.buffers()[0].clone();
            let stored_bytes = array.data_type().primitive_width().unwrap_or(1);
            let bytes = bytes.slice(first * stored_bytes);
            return Self { data_type, bytes, offsets: Vec::new(), stored_bytes };
        }
        let offsets = data.buffers()[0].typed_data::<i32>().iter().skip(first);
        let offsets = offsets.take(array.len() + 1).map(|&offset| offset as usize).collect();
        Self { data_type, bytes: data.buffers()[1].clone(), offsets, stored_bytes: 0 }
    }

    fn cell(&self, row: usize) -> &[u8] {
        match self.data_type.fixed_bytes() {
            Some(width) => &self.bytes[row * self.stored_bytes..][..width],
            None => &self.bytes[self.offsets[row]..self.offsets[row + 1]],
        }
    }
}

/// Merges until one head is used up: its run is the last. `order` is without it then.
fn runs_until_one_is_empty(heads: &mut [Head], order: &mut Vec<usize>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    while let Some(source) = order.pop() {
        let from = heads[source].at;
        let mut to = from + 1;
        let rows = heads[source].ends.len();
        match order.last() {
            Some(&next) => {
                let bound = heads[next].key();
                while to < rows && heads[source].key_at(to) < bound {
                    to += 1;
                }
            }
            None => to = rows,
        }
        heads[source].at = to;
        runs.push(Run { source, from, to });
        if to == rows {
            break;
        }
        put_back(heads, order, source);
    }
    runs
}

fn put_back(heads: &[Head], order: &mut Vec<usize>, source: usize) {
    let key = heads[source].key();
    let place = order.partition_point(|&other| heads[other].key().cmp(key) == Ordering::Greater);
    order.insert(place, source);
}

fn join(spec: &Spec, schema: &SchemaRef, heads: &[Head], runs: &[Run]) -> Result<RecordBatch> {
    let rows = runs.iter().map(|run| run.to - run.from).sum();
    let visible = (0..spec.arrow_schema.fields().len()).filter(|index| !spec.hidden.contains(index));
    let column = |index: usize| -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
        let parts: Vec<_> = heads.iter().map(|head| head.batch.column(index).to_data()).collect();
        let mut joined = MutableArrayData::new(parts.iter().collect(), false, rows);
        for run in runs {
            joined.try_extend(run.source, run.from, run.to)?;
        }
        Ok(make_array(joined.freeze()))
    };
    // What does not fit Arrow's offsets: more text than any server sends at once.
    let too_much = |error: arrow_schema::ArrowError| Error::new(ErrorKind::Limit, error.to_string());
    let columns: Vec<ArrayRef> =
        visible.map(column).collect::<std::result::Result<_, _>>().map_err(too_much)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| Error::protocol(error.to_string()))
}
