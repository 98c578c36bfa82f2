//! Columns of tags: all rows of a series share one text.
//!
//! A row holds the number of its series instead of a text. So reordering rows moves four bytes per row, and a writer of an
//! answer can write the text of a series once and copy it.

use arrow_array::{Array, StringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// The series number of a row without text.
const NO_SERIES: u32 = u32::MAX;
/// The text number of a series without text.
pub const NO_TEXT: u32 = u32::MAX;

/// The texts of a tag by series, each text once.
#[derive(Debug)]
pub struct TagTexts {
    /// By series: the number of its text.
    numbers: Vec<u32>,
    texts: StringArray,
    /// Some series have no text.
    has_gaps: bool,
}

impl TagTexts {
    /// The texts with these numbers by series, [`NO_TEXT`] if a series lacks the tag. `shown` says what is shown of a text.
    pub fn new<'a>(
        mut numbers: Vec<u32>,
        mut texts: Vec<&'a str>,
        shown: impl Fn(&'a str) -> Option<&'a str>,
    ) -> Self {
        let absent = match shown("") {
            None => NO_TEXT,
            Some(text) => {
                texts.push(text);
                texts.len() as u32 - 1
            }
        };
        let mut has_gaps = false;
        for number in &mut numbers {
            let is_shown = texts.get(*number as usize).is_some_and(|text| shown(text).is_some());
            *number = if is_shown { *number } else { absent };
            has_gaps |= *number == NO_TEXT;
        }
        Self { numbers, texts: StringArray::from_iter_values(texts), has_gaps }
    }

    /// The number of series.
    pub fn series(&self) -> usize {
        self.numbers.len()
    }

    /// The number of texts.
    pub fn count(&self) -> usize {
        self.texts.len()
    }

    /// The number of the text of a series, unless it has none.
    #[inline]
    pub fn number(&self, series: u32) -> Option<u32> {
        self.numbers.get(series as usize).copied().filter(|number| *number != NO_TEXT)
    }

    /// The text with a number.
    #[inline]
    pub fn text(&self, number: u32) -> &str {
        self.texts.value(number as usize)
    }
}

impl<'a> FromIterator<Option<&'a str>> for TagTexts {
    fn from_iter<I: IntoIterator<Item = Option<&'a str>>>(texts: I) -> Self {
        let all: Vec<Option<&str>> = texts.into_iter().collect();
        let numbers = (0..).zip(&all).map(|(number, text)| if text.is_some() { number } else { NO_TEXT });
        let texts = all.iter().map(|text| text.unwrap_or_default()).collect();
        Self::new(numbers.collect(), texts, |text| (!text.is_empty()).then_some(text))
    }
}

/// The texts of a tag, each row's by the number of its series.
#[derive(Debug, Clone)]
pub struct TagColumn {
    series: ScalarBuffer<u32>,
    texts: Arc<TagTexts>,
}

impl TagColumn {
    /// Rows of the series with these numbers, which are positions in `texts`.
    pub fn new(series: ScalarBuffer<u32>, texts: Arc<TagTexts>) -> Self {
        Self { series, texts }
    }

    /// The text of each series.
    pub fn texts(&self) -> &Arc<TagTexts> {
        &self.texts
    }

    /// By row: the number of its series; a number beyond [`TagColumn::texts`] means a row without text.
    #[inline]
    pub fn series(&self) -> &[u32] {
        &self.series
    }

    /// Whether another column shares its rows with this one in memory.
    pub fn has_rows_of(&self, other: &Self) -> bool {
        self.series.inner().ptr_eq(other.series.inner())
    }

    /// The texts of this column in the rows of another.
    #[must_use]
    pub fn in_rows_of(&self, other: &Self) -> Self {
        Self { series: other.series.clone(), texts: self.texts.clone() }
    }

    /// The number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The text of a row, unless it has none.
    #[inline]
    pub fn text(&self, row: usize) -> Option<&str> {
        self.texts.number(self.series[row]).map(|number| self.texts.text(number))
    }

    /// Whether a row has a text.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        self.text(row).is_some()
    }

    /// Which rows have a text; `None`: all.
    pub fn nulls(&self) -> Option<NullBuffer> {
        let known = self.texts.series() as u32;
        if !self.texts.has_gaps && self.series.iter().all(|series| *series < known) {
            return None;
        }
        Some(NullBuffer::new(BooleanBuffer::collect_bool(self.len(), |row| self.is_valid(row))))
    }

    /// Rows `[start, start + length)` without a copy.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        Self { series: self.series.slice(start, length), texts: self.texts.clone() }
    }

    /// The rows at these positions; `None` gives a row without text.
    #[must_use]
    pub fn take(&self, positions: impl Iterator<Item = Option<u32>>) -> Self {
        let series = positions.map(|row| row.map_or(NO_SERIES, |row| self.series[row as usize]));
        Self { series: series.collect(), texts: self.texts.clone() }
    }

    /// Columns one after the other, if all share the same texts.
    pub fn concatenate<'a>(columns: impl Iterator<Item = Option<&'a Self>> + Clone) -> Option<Self> {
        let texts = &columns.clone().next()??.texts;
        let mut series = Vec::new();
        for column in columns {
            let column = column.filter(|column| Arc::ptr_eq(&column.texts, texts))?;
            series.extend_from_slice(&column.series);
        }
        Some(Self { series: series.into(), texts: texts.clone() })
    }

    /// The text of each row.
    pub fn to_array(&self) -> StringArray {
        (0..self.len()).map(|row| self.text(row)).collect()
    }

    /// About how many bytes of memory it takes; all columns of a query share the texts, which do not count.
    pub fn memory_bytes(&self) -> usize {
        self.series.len() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_texts_of_their_series() {
        let texts: Arc<TagTexts> = Arc::new([Some("a"), None, Some("c")].into_iter().collect());
        let column = TagColumn::new(vec![2, 0, 1, 2].into(), texts);
        let all = |column: &TagColumn| {
            let nulls = column.nulls();
            let array = column.to_array();
            (0..column.len()).for_each(|row| {
                assert_eq!(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)), array.is_valid(row));
                assert_eq!(column.text(row), array.is_valid(row).then(|| array.value(row)));
            });
            array.iter().map(|text| text.unwrap_or("-").to_owned()).collect::<String>()
        };
        assert_eq!(all(&column), "ca-c");
        assert_eq!(all(&column.slice(1, 2)), "a-");
        assert_eq!(all(&column.take([Some(3), None, Some(1)].into_iter())), "c-a");
        let both = [Some(&column), Some(&column)];
        assert_eq!(all(&TagColumn::concatenate(both.into_iter()).unwrap()), "ca-cca-c");
        let other = TagColumn::new(vec![0].into(), Arc::new([Some("x")].into_iter().collect()));
        assert!(TagColumn::concatenate([Some(&column), Some(&other)].into_iter()).is_none());
    }
}
