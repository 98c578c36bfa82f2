//! Tags of the series of a scan as dictionary arrays: values are stored once, a row has the number of its own.
//!
//! Of few series, the values of a tag are those of the series, one after the other: a row has the number of its series,
//! which is the same for all tags, so the numbers are made once for all of them. Of many series, each value is stored once.

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, StringArray};
use nyala_core::SeriesId;
use nyala_core::store::SeriesRun;
use nyala_db::catalog::Measurement;
use nyala_db::series::{Numbers, TagValues, TagWords};
use nyala_exec::SeriesNumbers;
use std::sync::Arc;

/// The most series whose values are stored one after the other: about as many as a batch has rows. Whatever looks at all values of a
/// dictionary costs no more than to look at the rows then.
const FEW_SERIES: usize = 1 << 13;
/// The most bytes that the values of a tag may have then.
const FEW_BYTES: usize = 256 << 10;

/// The tags that a scan shows, by series.
pub(super) struct SeriesTags {
    positions: SeriesNumbers,
    tags: Vec<Tag>,
}

/// The values of one tag.
enum Tag {
    /// By series. None of them lacks the tag.
    BySeries(ArrayRef),
    Distinct {
        /// By series, the number of its value among `values`; `None` if it lacks the tag.
        numbers: Vec<Option<i32>>,
        values: ArrayRef,
    },
}

impl SeriesTags {
    /// About how many bytes the tags of a series take, for each tag, besides the texts.
    pub(super) const BYTES_PER_TAG: usize = size_of::<Option<i32>>() + 4;

    /// Looks up tags of series, which must be in memory.
    pub(super) fn of(measurement: &Measurement, members: &[SeriesId], keys: &[&str]) -> Self {
        let series = measurement.series();
        let words: Vec<TagWords<'_>> = members.iter().map(|id| series.tag_words(*id)).collect();
        let tags = keys.iter().map(|key| Tag::of(&series.tag_values(key), &words)).collect();
        Self { positions: SeriesNumbers::numbered(members.iter().copied()), tags }
    }

    /// The memory of the texts.
    pub(super) fn text_bytes(&self) -> usize {
        let texts = |tag: &Tag| match tag {
            Tag::BySeries(values) | Tag::Distinct { values, .. } => values.get_buffer_memory_size(),
        };
        self.tags.iter().map(texts).sum()
    }

    /// The tags of the rows of a batch, in the order of the keys.
    pub(super) fn columns(&self, runs: &[SeriesRun], rows: usize) -> Vec<ArrayRef> {
        if self.tags.is_empty() {
            return Vec::new();
        }
        let position = |run: &SeriesRun| (self.positions.number(run.series) as i32, run.rows as usize);
        let runs: Vec<(i32, usize)> = runs.iter().map(position).collect();
        let mut by_series: Option<DictionaryArray<Int32Type>> = None;
        let column = |tag: &Tag| -> ArrayRef {
            match tag {
                Tag::BySeries(values) => {
                    let first = || {
                        let mut keys = Vec::with_capacity(rows);
                        runs.iter()
                            .for_each(|(series, rows)| keys.extend(std::iter::repeat_n(*series, *rows)));
                        DictionaryArray::new(Int32Array::from(keys), values.clone())
                    };
                    // The numbers are not looked at again.
                    Arc::new(by_series.get_or_insert_with(first).with_values(values.clone()))
                }
                Tag::Distinct { numbers, values } => {
                    let mut keys = Int32Array::builder(rows);
                    for (series, rows) in &runs {
                        match numbers[*series as usize] {
                            Some(number) => keys.append_value_n(number, *rows),
                            None => keys.append_nulls(*rows),
                        }
                    }
                    Arc::new(DictionaryArray::<Int32Type>::new(keys.finish(), values.clone()))
                }
            }
        };
        self.tags.iter().map(column).collect()
    }
}

impl Tag {
    /// The values that a tag has in the series with these words.
    fn of(of_key: &TagValues<'_>, series: &[TagWords<'_>]) -> Self {
        Self::by_series(of_key, series).unwrap_or_else(|| Self::distinct(of_key, series))
    }

    fn by_series(of_key: &TagValues<'_>, series: &[TagWords<'_>]) -> Option<Self> {
        if series.len() > FEW_SERIES {
            return None;
        }
        let (mut texts, mut bytes) = (Vec::with_capacity(series.len()), 0);
        for words in series {
            let text = of_key.text(of_key.number_in(*words)?);
            bytes += text.len();
            texts.push(text);
        }
        (bytes <= FEW_BYTES).then(|| Tag::BySeries(Arc::new(StringArray::from(texts))))
    }

    fn distinct(of_key: &TagValues<'_>, series: &[TagWords<'_>]) -> Self {
        let mut known = Numbers::of(of_key.count(), series.len());
        let mut texts = Vec::new();
        let number = |words: &TagWords<'_>| {
            let value = of_key.number_in(*words)?;
            let (number, is_new) = known.number(value);
            if is_new {
                texts.push(of_key.text(value));
            }
            Some(number as i32)
        };
        let numbers = series.iter().map(number).collect();
        Tag::Distinct { numbers, values: Arc::new(StringArray::from(texts)) }
    }
}
