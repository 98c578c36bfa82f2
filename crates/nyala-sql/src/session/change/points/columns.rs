//! Points that come as columns. Their rows are put in order of series, and written without lines in between: the tags of a
//! series are read once, and values are copied, not printed and parsed.

use super::inserted_column::{InsertedColumn, without_field};
use crate::error::SqlResult;
use crate::measurement::Source;
use crate::relation::input::limited_text;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use datafusion::arrow::compute::{cast, take};
use datafusion::error::DataFusionError;
use foldhash::fast::RandomState;
use nyala_core::{Error, Result};
use nyala_db::ingest::{FieldSlice, MEASUREMENT_SPECIALS, TAG_SPECIALS, ValueSlice, push_name};
use nyala_db::relations::DeclaredType;
use nyala_db::write::ColumnBatch;
use std::collections::HashMap;

/// Rows that come together are added to batches in parts of at most so many cells.
const PART_CELLS: usize = 1 << 20;
/// Numbers of groups are found in a table instead of by hashing, if it has at most so many entries.
const DENSE_MAX: usize = 1 << 20;

/// The text of a tag that a row does not have.
const ABSENT: u32 = 0;

/// Rows of points, as columns of the types that fields have.
pub(super) struct PointColumns {
    measurement: String,
    now_ns: i64,
    chunks: Vec<Chunk>,
    rows: u64,
}

/// Rows that came together.
struct Chunk {
    /// In the order of their names: columns of text, or dictionaries of it.
    tags: Vec<(String, ArrayRef)>,
    fields: Vec<(String, ArrayRef)>,
    /// `None`: the time of the statement.
    times: Option<ArrayRef>,
    rows: usize,
}

impl PointColumns {
    pub(super) fn new(measurement: &str, now_ns: i64) -> Self {
        Self { measurement: measurement.to_owned(), now_ns, chunks: Vec::new(), rows: 0 }
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds points, and says what memory they hold.
    ///
    /// # Errors
    /// Not null violation, with the row: a point has no time, or no field.
    pub(super) fn add(&mut self, stored: Vec<(&InsertedColumn, ArrayRef)>, rows: usize) -> SqlResult<usize> {
        let bytes = stored.iter().map(|(_, values)| values.get_array_memory_size()).sum();
        let mut chunk = Chunk { tags: Vec::new(), fields: Vec::new(), times: None, rows };
        for (own, values) in stored {
            match &own.source {
                Source::Tag(name) => chunk.tags.push((name.to_string(), values)),
                Source::Field(name, ..) => chunk.fields.push((name.to_string(), values)),
                Source::Time | Source::TimeNs => {
                    if let Some(row) = (0..rows).find(|row| values.is_null(*row)) {
                        return Err(own.without_time().of_row(row));
                    }
                    chunk.times = Some(values);
                }
                Source::Series => {}
            }
        }
        let has_field = |row: usize| chunk.fields.iter().any(|(_, values)| values.is_valid(row));
        if chunk.fields.iter().all(|(_, values)| values.null_count() > 0)
            && let Some(row) = (0..rows).find(|row| !has_field(*row))
        {
            return Err(without_field(&self.measurement).of_row(row));
        }
        chunk.tags.sort_by(|(left, _), (right, _)| left.cmp(right));
        self.chunks.push(chunk);
        self.rows += rows as u64;
        Ok(bytes)
    }

    /// The points in batches, in the order in which they came.
    pub(super) fn batches(&self) -> impl Iterator<Item = Result<ColumnBatch>> + Send {
        let parts = self.chunks.iter().flat_map(|chunk| {
            let step = (PART_CELLS / (chunk.fields.len() + 2)).max(1);
            (0..chunk.rows).step_by(step).map(move |start| (chunk, start, step.min(chunk.rows - start)))
        });
        let mut parts = parts.peekable();
        std::iter::from_fn(move || {
            parts.peek()?;
            let mut batch = ColumnBatch::default();
            while !batch.is_full()
                && let Some((chunk, start, rows)) = parts.next()
            {
                if let Err(error) = self.append(&mut batch, &chunk.slice(start, rows)) {
                    return Some(Err(error));
                }
            }
            Some(Ok(batch))
        })
    }

    fn append(&self, batch: &mut ColumnBatch, chunk: &Chunk) -> Result<()> {
        let groups = Groups::of(chunk);
        let order = UInt32Array::from(groups.order);
        let gathered =
            |values: &ArrayRef| take(values, &order, None).map_err(|error| Error::invalid(error.to_string()));
        let times = match &chunk.times {
            Some(times) => gathered(times)?.as_primitive::<Int64Type>().values().clone(),
            None => vec![self.now_ns; chunk.rows].into(),
        };
        let fields = chunk.fields.iter().map(|(name, values)| FieldColumn::of(name, &gathered(values)?));
        let mut fields = fields.collect::<Result<Vec<_>>>()?;
        let mut head = String::new();
        push_name(&mut head, "measurement", &self.measurement, MEASUREMENT_SPECIALS)?;
        let mut start = 0;
        for (first, end) in groups.first.into_iter().zip(groups.ends) {
            let (end, mut key) = (end as usize, head.clone());
            for (name, values) in &chunk.tags {
                if let Some(text) = text_at(values, first as usize).filter(|text| !text.is_empty()) {
                    key.push(',');
                    push_name(&mut key, "tag", name, TAG_SPECIALS)?;
                    key.push('=');
                    push_name(&mut key, "tag value", text, TAG_SPECIALS)?;
                }
            }
            let slices: Vec<FieldSlice<'_>> =
                fields.iter_mut().map(|field| field.slice(start, end)).collect();
            batch.append(key.as_bytes(), &times[start..end], &slices).map_err(Error::invalid)?;
            start = end;
        }
        Ok(())
    }
}

impl Chunk {
    fn slice(&self, start: usize, rows: usize) -> Self {
        let part = |(name, values): &(String, ArrayRef)| (name.clone(), values.slice(start, rows));
        Self {
            tags: self.tags.iter().map(part).collect(),
            fields: self.fields.iter().map(part).collect(),
            times: self.times.as_ref().map(|times| times.slice(start, rows)),
            rows,
        }
    }
}

/// The rows of a chunk by series.
struct Groups {
    /// Rows, those of a series next to each other and in their order.
    order: Vec<u32>,
    /// A row of each series.
    first: Vec<u32>,
    /// Where each series ends in the order.
    ends: Vec<u32>,
}

impl Groups {
    fn of(chunk: &Chunk) -> Self {
        // The number of each row's combination of the tags so far, and of combinations.
        let (mut ids, mut count) = (vec![0_u32; chunk.rows], 1_usize);
        for (_, values) in &chunk.tags {
            let (codes, different) = codes_of(values);
            let mut known = Numbers::within(count * different);
            for (id, code) in ids.iter_mut().zip(codes) {
                *id = known.number((*id as usize * different + code as usize) as u64);
            }
            count = known.count.max(1) as usize;
        }
        let mut ends = vec![0_u32; count];
        ids.iter().for_each(|id| ends[*id as usize] += 1);
        let mut sum = 0;
        let starts = ends.iter_mut().map(|length| {
            let start = sum;
            sum += *length;
            *length = sum;
            start
        });
        let mut next: Vec<u32> = starts.collect();
        let (mut order, mut first) = (vec![0; chunk.rows], vec![u32::MAX; count]);
        for (row, id) in ids.iter().enumerate() {
            let (id, row) = (*id as usize, row as u32);
            order[next[id] as usize] = row;
            next[id] += 1;
            first[id] = first[id].min(row);
        }
        Self { order, first, ends }
    }
}

/// Gives each different number the next small one.
struct Numbers {
    /// By number; [`Numbers::NEW`] if there is none.
    dense: Vec<u32>,
    sparse: HashMap<u64, u32, RandomState>,
    count: u32,
}

impl Numbers {
    const NEW: u32 = u32::MAX;

    fn within(limit: usize) -> Self {
        let dense = if limit <= DENSE_MAX { vec![Self::NEW; limit] } else { Vec::new() };
        Self { dense, sparse: HashMap::default(), count: 0 }
    }

    fn number(&mut self, of: u64) -> u32 {
        let place = match self.dense.is_empty() {
            false => &mut self.dense[of as usize],
            true => self.sparse.entry(of).or_insert(Self::NEW),
        };
        if *place == Self::NEW {
            *place = self.count;
            self.count += 1;
        }
        *place
    }
}

/// A number of each row's text, [`ABSENT`] if there is none, and how many numbers there are at most.
fn codes_of(values: &ArrayRef) -> (Vec<u32>, usize) {
    let mut known = Codes::default();
    let codes = match values.as_dictionary_opt::<Int32Type>() {
        None => values.as_string::<i32>().iter().map(|text| known.code(text)).collect(),
        Some(dictionary) => {
            let texts = dictionary.values().as_string::<i32>();
            // Only texts that occur are looked at: a dictionary may be longer than the rows.
            let mut of_key = vec![Numbers::NEW; texts.len()];
            let code = |key: Option<i32>| {
                let Some(key) = key.map(|key| key as usize) else { return ABSENT };
                if of_key[key] == Numbers::NEW {
                    of_key[key] = known.code(texts.is_valid(key).then(|| texts.value(key)));
                }
                of_key[key]
            };
            dictionary.keys().iter().map(code).collect()
        }
    };
    (codes, known.0.len() + 1)
}

/// Numbers of texts, from 1 on.
#[derive(Default)]
struct Codes<'a>(HashMap<&'a str, u32, RandomState>);

impl<'a> Codes<'a> {
    fn code(&mut self, text: Option<&'a str>) -> u32 {
        match text {
            None | Some("") => ABSENT,
            Some(text) => {
                let next = self.0.len() as u32 + 1;
                *self.0.entry(text).or_insert(next)
            }
        }
    }
}

/// The text of a row.
fn text_at(values: &ArrayRef, row: usize) -> Option<&str> {
    let (texts, at) = match values.as_dictionary_opt::<Int32Type>() {
        None => (values.as_string::<i32>(), row),
        Some(dictionary) => (dictionary.values().as_string::<i32>(), dictionary.key(row)?),
    };
    texts.is_valid(at).then(|| texts.value(at))
}

/// Tags as they are grouped: texts, or a dictionary of them with keys of 32 bits.
///
/// # Errors
/// PostgreSQL's, for a text that no column can have.
pub(super) fn as_tags(values: &ArrayRef) -> SqlResult<ArrayRef> {
    let to = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let values = cast(values, &to).map_err(DataFusionError::from)?;
    let texts = values.as_dictionary::<Int32Type>().values().as_string::<i32>();
    for text in texts.iter().flatten() {
        limited_text(text, DeclaredType::Text)?;
    }
    Ok(values)
}

/// Values of a field in the order of series, and how many of them were taken.
struct FieldColumn<'a> {
    name: &'a str,
    /// Which rows have one; `None`: all.
    present: Option<Vec<bool>>,
    values: Values,
    taken: usize,
}

/// Those values that are there.
enum Values {
    Float(ScalarBuffer<f64>),
    Integer(ScalarBuffer<i64>),
    Unsigned(ScalarBuffer<u64>),
    Boolean(Vec<bool>),
    /// Where each ends in the text.
    String(Vec<u32>, String),
}

impl<'a> FieldColumn<'a> {
    fn of(name: &'a str, values: &ArrayRef) -> Result<Self> {
        let present =
            values.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.iter().collect());
        let all = present.is_none();
        let values = match values.data_type() {
            DataType::Float64 => Values::Float(present_values::<Float64Type>(values, all)),
            DataType::Int64 => Values::Integer(present_values::<Int64Type>(values, all)),
            DataType::UInt64 => Values::Unsigned(present_values::<UInt64Type>(values, all)),
            DataType::Boolean => Values::Boolean(values.as_boolean().iter().flatten().collect()),
            DataType::Utf8 => {
                let (mut ends, mut text) = (Vec::with_capacity(values.len()), String::new());
                for own in values.as_string::<i32>().iter().flatten() {
                    text.push_str(own);
                    ends.push(
                        u32::try_from(text.len()).map_err(|_| Error::invalid("texts of more than 4 GiB"))?,
                    );
                }
                Values::String(ends, text)
            }
            other => return Err(Error::invalid(format!("a field cannot be {other}"))),
        };
        Ok(Self { name, present, values, taken: 0 })
    }

    /// Those of the next rows.
    fn slice(&mut self, start: usize, end: usize) -> FieldSlice<'_> {
        let present = self.present.as_ref().map(|present| &present[start..end]);
        let count = present.map_or(end - start, |present| present.iter().filter(|own| **own).count());
        let from = self.taken;
        self.taken += count;
        let range = from..self.taken;
        let values = match &self.values {
            Values::Float(values) => ValueSlice::Float(&values[range]),
            Values::Integer(values) => ValueSlice::Integer(&values[range]),
            Values::Unsigned(values) => ValueSlice::Unsigned(&values[range]),
            Values::Boolean(values) => ValueSlice::Boolean(&values[range]),
            Values::String(ends, text) => {
                let first = if from == 0 { 0 } else { ends[from - 1] as usize };
                ValueSlice::String(&ends[range], text.as_bytes(), first)
            }
        };
        FieldSlice { name: self.name.as_bytes(), values, present }
    }
}

fn present_values<T: ArrowPrimitiveType>(values: &ArrayRef, all: bool) -> ScalarBuffer<T::Native> {
    let values = values.as_primitive::<T>();
    match all {
        true => values.values().clone(),
        false => values.iter().flatten().collect::<Vec<_>>().into(),
    }
}
