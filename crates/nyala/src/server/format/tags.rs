//! Tags of rows as JSON. Each text is escaped once and then copied; a series with several rows has all its tags cached
//! together.

use super::json_string::push_string;
use nyala_exec::Column;
use nyala_exec::tag::{TagColumn, TagTexts};
use std::sync::Arc;

/// The most bytes that are cached before the cache is emptied.
const BYTES_MAX: usize = 4 << 20;
/// Instead of a start: not cached.
const UNWRITTEN: (u32, u32) = (u32::MAX, 0);
/// Instead of a start: the series had one row. It is cached when it has another.
const MET: (u32, u32) = (u32::MAX, 1);
/// Texts up to this length are copied with a fixed length, by a few stores; a variable length would need a function
/// call.
const SHORT_BYTES: usize = 32;

/// The values of adjacent tag columns by series, each with a comma before it.
#[derive(Default)]
pub(super) struct CachedTags {
    columns: Vec<WrittenTexts>,
    /// Start and end of each series in the cache.
    places: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

/// The cached texts of a column.
struct WrittenTexts {
    texts: Arc<TagTexts>,
    /// Start and end of each text in the cache.
    places: Vec<(u32, u32)>,
}

impl CachedTags {
    /// Changes to other columns with the same series; cached texts of columns that stay are kept.
    pub(super) fn be_of(&mut self, columns: &[Column]) {
        let columns = columns.iter().filter_map(|column| match column {
            Column::Tag(tags) => Some(tags),
            _ => None,
        });
        let texts = columns.clone().map(TagColumn::texts);
        let same = texts.clone().count() == self.columns.len()
            && self.columns.iter().zip(texts.clone()).all(|(known, texts)| Arc::ptr_eq(&known.texts, texts));
        if !same {
            self.columns.clear();
            self.columns.extend(
                texts.map(|texts| WrittenTexts {
                    texts: texts.clone(),
                    places: vec![UNWRITTEN; texts.count()],
                }),
            );
            let series = self.columns.first().map_or(0, |column| column.texts.series());
            self.places.clear();
            self.places.resize(series, UNWRITTEN);
            self.bytes.clear();
        }
    }

    /// Appends the tags of a series.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, series: u32) {
        match self.places.get(series as usize) {
            Some((start, end)) if *start != UNWRITTEN.0 => {
                out.extend_from_slice(&self.bytes[*start as usize..*end as usize]);
            }
            _ => self.write(out, series),
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, series: u32) {
        let from = out.len();
        for column in 0..self.columns.len() {
            let WrittenTexts { texts, places } = &self.columns[column];
            let Some(number) = texts.number(series) else {
                out.extend_from_slice(b",null");
                continue;
            };
            let (start, end) = match places[number as usize] {
                UNWRITTEN => self.write_text(column, number),
                place => place,
            };
            let (start, end) = (start as usize, end as usize);
            match self.bytes[start..].first_chunk::<SHORT_BYTES>() {
                Some(bytes) if end - start <= SHORT_BYTES => {
                    out.extend_from_slice(bytes);
                    out.truncate(out.len() - SHORT_BYTES + (end - start));
                }
                _ => out.extend_from_slice(&self.bytes[start..end]),
            }
        }
        let written_bytes = out.len() - from;
        match self.places.get(series as usize) {
            Some(&UNWRITTEN) => self.places[series as usize] = MET,
            Some(_) if written_bytes <= BYTES_MAX => {
                self.make_room(written_bytes);
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&out[from..]);
                self.places[series as usize] = (start as u32, self.bytes.len() as u32);
            }
            _ => {}
        }
    }

    /// Adds a text to the cache.
    #[cold]
    fn write_text(&mut self, column: usize, number: u32) -> (u32, u32) {
        let texts = self.columns[column].texts.clone();
        let text = texts.text(number);
        self.make_room(text.len());
        let start = self.bytes.len();
        self.bytes.push(b',');
        push_string(&mut self.bytes, text);
        let place = (start as u32, self.bytes.len() as u32);
        self.columns[column].places[number as usize] = place;
        place
    }

    /// Empties the cache when it would become too large.
    fn make_room(&mut self, more_bytes: usize) {
        if self.bytes.len() + more_bytes > BYTES_MAX {
            self.bytes.clear();
            self.places.fill(UNWRITTEN);
            self.columns.iter_mut().for_each(|column| column.places.fill(UNWRITTEN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_the_tags_of_its_series() {
        let long = "x".repeat(BYTES_MAX / 2);
        let texts = |values: Vec<Option<&str>>| Arc::new(values.into_iter().collect::<TagTexts>());
        let (first, second) = (texts(vec![Some("a\"b"), None, Some(&long)]), texts(vec![Some("c"); 3]));
        let tag = |texts| Column::Tag(TagColumn::new(vec![0].into(), texts));
        let columns = [tag(first), tag(second)];
        let mut tags = CachedTags::default();
        tags.be_of(&columns);
        for series in [0, 1, 0, 2, 1, 2, 0, 2, 2, 0, 0, 1, 1, 7] {
            let mut out = Vec::new();
            tags.push(&mut out, series);
            let expected = match series {
                0 => r#","a\"b","c""#.to_owned(),
                1 => r#",null,"c""#.to_owned(),
                2 => format!(r#","{long}","c""#),
                _ => ",null,null".to_owned(),
            };
            assert!(out == expected.as_bytes(), "series {series}");
        }
        tags.be_of(&columns[1..]);
        let mut out = Vec::new();
        tags.push(&mut out, 1);
        assert_eq!(out, br#","c""#);
    }
}
