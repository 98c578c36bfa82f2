//! Tags of rows as JSON: written once per series, then copied into every row of it.

use super::text::push_string;
use arrow_array::{Array, StringArray};
use nyala_query::exec::column::Column;
use nyala_query::exec::tag::TagColumn;
use std::sync::Arc;

/// What is kept of written texts before they are forgotten and written anew.
const BYTES_MAX: usize = 4 << 20;
/// In the list of starts: not written yet.
const UNWRITTEN: u32 = u32::MAX;

/// The texts of neighbouring tag columns by series, each with a comma before it.
#[derive(Default)]
pub(super) struct WrittenTags {
    texts: Vec<Arc<StringArray>>,
    /// Where the bytes of each series start and end.
    places: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl WrittenTags {
    /// Makes this about some columns, whose rows are of the same series; what is known of them stays.
    pub(super) fn be_of(&mut self, columns: &[Column]) {
        let columns = columns.iter().filter_map(|column| match column {
            Column::Tag(tags) => Some(tags),
            _ => None,
        });
        let texts = columns.clone().map(TagColumn::texts);
        let same = texts.clone().count() == self.texts.len()
            && self.texts.iter().zip(texts.clone()).all(|(known, texts)| Arc::ptr_eq(known, texts));
        if !same {
            self.texts.clear();
            self.texts.extend(texts.cloned());
            let series = self.texts.first().map_or(0, |texts| texts.len());
            self.places.clear();
            self.places.resize(series, (UNWRITTEN, 0));
            self.bytes.clear();
        }
    }

    /// Appends the tags of a series.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, series: u32) {
        match self.places.get(series as usize) {
            Some((start, end)) if *start != UNWRITTEN => {
                out.extend_from_slice(&self.bytes[*start as usize..*end as usize]);
            }
            _ => self.write(out, series as usize),
        }
    }

    #[cold]
    fn write(&mut self, out: &mut Vec<u8>, series: usize) {
        let from = out.len();
        for texts in &self.texts {
            out.push(b',');
            if series < texts.len() && texts.is_valid(series) {
                push_string(out, texts.value(series));
            } else {
                out.extend_from_slice(b"null");
            }
        }
        let written = &out[from..];
        if self.bytes.len() + written.len() > BYTES_MAX {
            self.bytes.clear();
            self.places.fill((UNWRITTEN, 0));
        }
        if let Some(place) = self.places.get_mut(series)
            && written.len() <= BYTES_MAX
        {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(written);
            *place = (start as u32, self.bytes.len() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_the_tags_of_its_series() {
        let long = "x".repeat(BYTES_MAX / 2);
        let texts = |values: Vec<Option<&str>>| Arc::new(StringArray::from(values));
        let (first, second) = (texts(vec![Some("a\"b"), None, Some(&long)]), texts(vec![Some("c"); 3]));
        let tag = |texts| Column::Tag(TagColumn::new(vec![0].into(), texts));
        let columns = [tag(first), tag(second)];
        let mut tags = WrittenTags::default();
        tags.be_of(&columns);
        for series in [0, 1, 0, 2, 1, 2, 0, 2, 7] {
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
