//! Tags of the series of a scan as dictionary arrays: each value is stored once, a row has its number.

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use nyala_core::SeriesId;
use nyala_core::store::SeriesRun;
use nyala_db::catalog::Measurement;
use nyala_db::series::{Numbers, TagWords};
use nyala_exec::SeriesNumbers;
use std::sync::Arc;

/// The tags that a scan shows, by series.
pub(super) struct SeriesTags {
    positions: SeriesNumbers,
    tags: Vec<Tag>,
}

/// The values of one tag.
struct Tag {
    /// By series, the number of its value among `values`; `None` if it lacks the tag.
    numbers: Vec<Option<i32>>,
    values: ArrayRef,
}

impl SeriesTags {
    /// About how many bytes the tags of a series take, for each tag, besides the texts.
    pub(super) const BYTES_PER_TAG: usize = size_of::<Option<i32>>() + 4;

    /// Looks up tags of series, which must be in memory.
    pub(super) fn of(measurement: &Measurement, members: &[SeriesId], keys: &[&str]) -> Self {
        let series = measurement.series();
        let words: Vec<TagWords<'_>> = members.iter().map(|id| series.tag_words(*id)).collect();
        let tag = |key: &&str| {
            let of_key = series.tag_values(key);
            let mut known = Numbers::of(of_key.count(), members.len());
            let mut texts = Vec::new();
            let number = |words: &TagWords<'_>| {
                let value = of_key.number_in(*words)?;
                let (number, is_new) = known.number(value);
                if is_new {
                    texts.push(of_key.text(value));
                }
                Some(number as i32)
            };
            let numbers = words.iter().map(number).collect();
            Tag { numbers, values: Arc::new(StringArray::from(texts)) }
        };
        let tags = keys.iter().map(tag).collect();
        Self { positions: SeriesNumbers::numbered(members.iter().copied()), tags }
    }

    /// The tags of the rows of a batch, in the order of the keys.
    pub(super) fn columns(&self, runs: &[SeriesRun], rows: usize) -> Vec<ArrayRef> {
        let positions: Vec<(usize, usize)> = match self.tags.is_empty() {
            true => Vec::new(),
            false => runs
                .iter()
                .map(|run| (self.positions.number(run.series) as usize, run.rows as usize))
                .collect(),
        };
        let column = |tag: &Tag| {
            let mut keys = Int32Array::builder(rows);
            for (series, rows) in &positions {
                match tag.numbers[*series] {
                    Some(number) => keys.append_value_n(number, *rows),
                    None => keys.append_nulls(*rows),
                }
            }
            let column = DictionaryArray::<Int32Type>::new(keys.finish(), tag.values.clone());
            Arc::new(column) as ArrayRef
        };
        self.tags.iter().map(column).collect()
    }
}
