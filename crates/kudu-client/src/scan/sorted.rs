//! Merges all tablets into the order of the primary key.
//!
//! Each tablet is sorted by itself. Tablets whose keys interleave (the hash buckets of one range partition) are read at
//! the same time, each by a task that is at most two batches ahead. They are merged by their encoded keys, which
//! compare byte by byte. The merge moves runs of rows: all rows of the tablet with the smallest key, up to the first
//! key of the next tablet. The readers are aborted when the merge task ends, for example when the limit is reached or
//! the scanner is dropped.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::transform::MutableArrayData;
use arrow_schema::SchemaRef;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::reader::{RangeQueue, read_ranges};
use super::{ScanSpec, TabletRange};
use crate::data_type::DataType;
use crate::error::{Error, ErrorKind, Result};
use crate::key::encode_cell;
use crate::location_cache::Tablet;
use crate::partition::BUCKET_BYTES;
use crate::table::TableInner;

/// Batches in memory of one tablet: one is being merged, one waits, one is with its reader.
const BATCHES_PER_TABLET: usize = 3;
/// Smaller batches are mostly overhead.
const MIN_BATCH_BYTES: usize = 16 << 10;

/// Groups of tablets that must be merged with each other, in the order in which the groups are read.
pub(super) fn groups(table: &TableInner, tablets: Vec<Arc<Tablet>>) -> Vec<Vec<Arc<Tablet>>> {
    // Key columns come first, so the range columns are a prefix of the key if they are the first columns.
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

/// The batch size at which the largest group stays within the memory bound of the scan.
pub(super) fn batch_bytes(spec: &ScanSpec, groups: &[Vec<Arc<Tablet>>]) -> u32 {
    let largest = groups.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let bound = spec.batch_bytes as usize * (spec.parallelism + spec.prefetch);
    let share = (bound / (BATCHES_PER_TABLET * largest)).max(MIN_BATCH_BYTES);
    spec.batch_bytes.min(u32::try_from(share).unwrap_or(u32::MAX))
}

/// The schema without the columns that were only needed to sort.
pub(super) fn visible_schema(spec: &ScanSpec) -> SchemaRef {
    let fields = spec.arrow_schema.fields();
    let (before, after) = (&fields[..spec.hidden.start], &fields[spec.hidden.end..]);
    Arc::new(arrow_schema::Schema::new([before, after].concat()))
}

/// Reads group after group into `output`.
pub(super) async fn read(
    spec: Arc<ScanSpec>,
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
    spec: &Arc<ScanSpec>,
    tablets: Vec<Arc<Tablet>>,
    output: &mpsc::Sender<Result<RecordBatch>>,
) -> Result<()> {
    let schema = visible_schema(spec);
    let mut readers = JoinSet::new();
    let mut sources = Vec::with_capacity(tablets.len());
    for tablet in tablets {
        let (sender, batches) = mpsc::channel(1);
        let queue = RangeQueue::new(spec, vec![TabletRange::whole(tablet)]);
        readers.spawn(read_ranges(spec.clone(), Arc::new(queue), sender));
        sources.push(batches);
    }
    let mut inputs = Vec::with_capacity(sources.len());
    for source in &mut sources {
        inputs.push(next_input(spec, source).await?);
    }
    let mut order: Vec<usize> = (0..inputs.len()).filter(|&index| !inputs[index].is_empty()).collect();
    // The smallest key is last, where it is cheap to remove and to insert again.
    order.sort_by(|&a, &b| inputs[b].key().cmp(inputs[a].key()));
    while !order.is_empty() {
        let runs = runs_until_one_is_empty(&mut inputs, &mut order);
        let Some(&Run { source: empty, .. }) = runs.last() else { break };
        let batch = join(spec, &schema, &inputs, &runs)?;
        if output.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
        inputs[empty] = next_input(spec, &mut sources[empty]).await?;
        if !inputs[empty].is_empty() {
            put_back(&inputs, &mut order, empty);
        }
    }
    // A reader only ends early by panicking; a short result must not look complete.
    while let Some(ended) = readers.join_next().await {
        if let Err(error) = ended {
            return Err(Error::protocol(format!("the reader of a tablet ended early: {error}")));
        }
    }
    Ok(())
}

/// A batch of one tablet, its encoded keys, and how far it is merged.
struct MergeInput {
    batch: RecordBatch,
    keys: Vec<u8>,
    /// The end of each key in `keys`.
    key_ends: Vec<usize>,
    next_row: usize,
}

/// Rows `from..to` of an input's batch.
struct Run {
    source: usize,
    from: usize,
    to: usize,
}

impl MergeInput {
    fn is_empty(&self) -> bool {
        self.next_row == self.key_ends.len()
    }

    fn key(&self) -> &[u8] {
        self.key_at(self.next_row)
    }

    fn key_at(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start..self.key_ends[row]]
    }
}

async fn next_input(spec: &ScanSpec, source: &mut mpsc::Receiver<Result<RecordBatch>>) -> Result<MergeInput> {
    let Some(batch) = source.recv().await.transpose()? else {
        let batch = RecordBatch::new_empty(spec.arrow_schema.clone());
        return Ok(MergeInput { batch, keys: Vec::new(), key_ends: Vec::new(), next_row: 0 });
    };
    let schema = &spec.table.schema;
    let columns: Vec<KeyColumn> = schema
        .key_columns()
        .iter()
        .map(|column| {
            let index = spec.columns.iter().position(|projected| projected.name == column.name());
            let array = index.and_then(|index| batch.columns().get(index));
            array.map(|array| KeyColumn::new(column.data_type(), array))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| Error::protocol("a key column is missing from a sorted scan"))?;
    let mut keys = Vec::with_capacity(batch.num_rows() * 16);
    let mut key_ends = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        for (index, column) in columns.iter().enumerate() {
            encode_cell(column.data_type, column.cell(row), index + 1 == columns.len(), &mut keys);
        }
        key_ends.push(keys.len());
    }
    Ok(MergeInput { batch, keys, key_ends, next_row: 0 })
}

/// The cells of a key column in Kudu's form.
struct KeyColumn {
    data_type: DataType,
    /// Fixed-size values, or the contents of text and binary cells.
    bytes: Buffer,
    /// Of text and binary cells: where each begins, and the end of the last.
    offsets: Vec<usize>,
    /// Of fixed-size values: the size of one in the array, where decimals are wider.
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

/// Merges until one input is used up. Its run is the last, and `order` no longer contains it.
fn runs_until_one_is_empty(inputs: &mut [MergeInput], order: &mut Vec<usize>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    while let Some(source) = order.pop() {
        let from = inputs[source].next_row;
        let mut to = from + 1;
        let rows = inputs[source].key_ends.len();
        match order.last() {
            Some(&next) => {
                let bound = inputs[next].key();
                while to < rows && inputs[source].key_at(to) < bound {
                    to += 1;
                }
            }
            None => to = rows,
        }
        inputs[source].next_row = to;
        runs.push(Run { source, from, to });
        if to == rows {
            break;
        }
        put_back(inputs, order, source);
    }
    runs
}

fn put_back(inputs: &[MergeInput], order: &mut Vec<usize>, source: usize) {
    let key = inputs[source].key();
    let position = order.partition_point(|&other| inputs[other].key().cmp(key) == Ordering::Greater);
    order.insert(position, source);
}

fn join(spec: &ScanSpec, schema: &SchemaRef, inputs: &[MergeInput], runs: &[Run]) -> Result<RecordBatch> {
    let rows = runs.iter().map(|run| run.to - run.from).sum();
    let visible = (0..spec.arrow_schema.fields().len()).filter(|index| !spec.hidden.contains(index));
    let column = |index: usize| -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
        let parts: Vec<_> = inputs.iter().map(|input| input.batch.column(index).to_data()).collect();
        let mut joined = MutableArrayData::new(parts.iter().collect(), false, rows);
        for run in runs {
            joined.try_extend(run.source, run.from, run.to)?;
        }
        Ok(make_array(joined.freeze()))
    };
    // Only fails if text exceeds 32-bit offsets, which no server's batch does.
    let too_much = |error: arrow_schema::ArrowError| Error::new(ErrorKind::Limit, error.to_string());
    let columns: Vec<ArrayRef> =
        visible.map(column).collect::<std::result::Result<_, _>>().map_err(too_much)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|error| Error::protocol(error.to_string()))
}
