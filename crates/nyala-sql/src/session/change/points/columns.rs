//! Points that come as columns, and are written without lines in between: the tags of a series are read once, and values are
//! copied, not printed and parsed.

use super::inserted_column::{InsertedColumn, without_field};
use crate::error::SqlResult;
use crate::measurement::Source;
use crate::relation::input::limited_text;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int32Array, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::error::DataFusionError;
use foldhash::fast::RandomState;
use nyala_core::{Error, Result};
use nyala_db::ingest::{ColumnBatch, FieldSlice, SeriesKeys, TagName, ValueSlice};
use nyala_db::relations::DeclaredType;
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
        let tags = chunk.tags.iter().map(|(name, values)| Ok((TagName::of(name)?, Texts::of(values))));
        let tags = tags.collect::<Result<Vec<_>>>()?;
        let groups = Groups::of(&tags, chunk.rows);
        let mut keys = SeriesKeys::of(&self.measurement)?;
        for row in groups.first {
            let with_values = tags.iter().filter_map(|(name, texts)| Some((name, texts.at(row as usize)?)));
            keys.push(with_values)?;
        }
        let times = match &chunk.times {
            Some(times) => times.as_primitive::<Int64Type>().values().clone(),
            None => vec![self.now_ns; chunk.rows].into(),
        };
        let fields = chunk.fields.iter().map(|(_, values)| FieldColumn::of(values));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        let names = chunk.fields.iter().map(|(name, _)| name);
        let slices: Vec<FieldSlice<'_>> = names.zip(&fields).map(|(name, field)| field.slice(name)).collect();
        batch.append_rows(&keys, &groups.of_row, &times, &slices).map_err(Error::invalid)
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

/// The series of a chunk.
struct Groups {
    /// The number of each row's series.
    of_row: Vec<u32>,
    /// The first row of each series.
    first: Vec<u32>,
}

impl Groups {
    fn of(tags: &[(TagName, Texts<'_>)], rows: usize) -> Self {
        // The number of each row's combination of the tags so far, and of combinations.
        let (mut of_row, mut count) = (vec![0_u32; rows], 1);
        for (_, texts) in tags {
            let (codes, different) = texts.codes();
            let mut known = Numbers::within(count * different);
            for (own, code) in of_row.iter_mut().zip(codes) {
                *own = known.number((*own as usize * different + code as usize) as u64);
            }
            count = known.count as usize;
        }
        // They are numbered in the order in which they come.
        let mut first = Vec::with_capacity(count);
        for (row, number) in of_row.iter().enumerate() {
            if *number as usize == first.len() {
                first.push(row as u32);
            }
        }
        Self { of_row, first }
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

/// Texts of a tag.
struct Texts<'a> {
    texts: &'a StringArray,
    /// Which of them each row has; `None`: the one at its place.
    keys: Option<&'a Int32Array>,
}

impl<'a> Texts<'a> {
    fn of(values: &'a ArrayRef) -> Self {
        match values.as_dictionary_opt::<Int32Type>() {
            None => Self { texts: values.as_string(), keys: None },
            Some(dictionary) => {
                Self { texts: dictionary.values().as_string(), keys: Some(dictionary.keys()) }
            }
        }
    }

    /// The text of a row.
    fn at(&self, row: usize) -> Option<&'a str> {
        let at = match self.keys {
            None => row,
            Some(keys) => keys.is_valid(row).then(|| keys.value(row) as usize)?,
        };
        self.texts.is_valid(at).then(|| self.texts.value(at))
    }

    /// A number of each row's text, [`ABSENT`] if there is none, and how many numbers there are at most.
    fn codes(&self) -> (Vec<u32>, usize) {
        let mut known = Codes::default();
        let codes = match self.keys {
            None => self.texts.iter().map(|text| known.code(text)).collect(),
            Some(keys) => {
                // Only texts that occur are looked at: a dictionary may be longer than the rows.
                let mut of_key = vec![Numbers::NEW; self.texts.len()];
                let mut code = |key: usize| {
                    if of_key[key] == Numbers::NEW {
                        of_key[key] = known.code(self.texts.is_valid(key).then(|| self.texts.value(key)));
                    }
                    of_key[key]
                };
                match keys.null_count() {
                    0 => keys.values().iter().map(|key| code(*key as usize)).collect(),
                    _ => keys.iter().map(|key| key.map_or(ABSENT, |key| code(key as usize))).collect(),
                }
            }
        };
        (codes, known.0.len() + 1)
    }
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

/// Values of a field.
struct FieldColumn {
    /// Which rows have one; `None`: all.
    present: Option<Vec<bool>>,
    values: Values,
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

impl FieldColumn {
    fn of(values: &ArrayRef) -> Result<Self> {
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
        Ok(Self { present, values })
    }

    fn slice<'a>(&'a self, name: &'a str) -> FieldSlice<'a> {
        let values = match &self.values {
            Values::Float(values) => ValueSlice::Float(values),
            Values::Integer(values) => ValueSlice::Integer(values),
            Values::Unsigned(values) => ValueSlice::Unsigned(values),
            Values::Boolean(values) => ValueSlice::Boolean(values),
            Values::String(ends, text) => ValueSlice::String(ends, text.as_bytes(), 0),
        };
        FieldSlice { name: name.as_bytes(), values, present: self.present.as_deref() }
    }
}

fn present_values<T: ArrowPrimitiveType>(values: &ArrayRef, all: bool) -> ScalarBuffer<T::Native> {
    let values = values.as_primitive::<T>();
    match all {
        true => values.values().clone(),
        false => values.iter().flatten().collect::<Vec<_>>().into(),
    }
}
