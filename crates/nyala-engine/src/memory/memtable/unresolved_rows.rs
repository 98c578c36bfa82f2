//! Rows of a series whose strings stay where they are until they are wanted: many rows of long strings are cut into
//! pieces that a reader can hold, and versions that newer ones replace are never copied.

use super::Visibility;
use super::arena::ByteArena;
use super::row_reader::push_cell;
use super::series::SeriesMemtable;
use crate::rows::column_buffer::{Kind, VALUE, Values};
use crate::rows::merge::{Keys, Piece};
use crate::rows::projection::Projection;
use nyala_core::{SeriesId, TimeRange};
use std::ops::Range;

/// Rows of a series, with places instead of strings and decimals.
#[derive(Debug, Clone)]
pub(crate) struct Placed(Piece<Vec<i64>>);

impl Placed {
    /// The times, rising.
    pub(crate) fn times(&self) -> &[i64] {
        &self.0.keys
    }

    /// Some of the rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        let mut part = Piece {
            keys: Vec::empty(),
            markers: None,
            columns: self.0.columns.iter().map(|column| column.same_kind()).collect(),
        };
        part.append(&self.0, rows);
        Self(part)
    }

    /// Cuts the rows where their strings come to more than `bytes_max`: ranges, and the bytes of each.
    pub(crate) fn cut(&self, kinds: &[Kind], bytes_max: u64) -> Vec<(Range<usize>, u64)> {
        let mut cuts = Vec::new();
        let (mut begin, mut bytes) = (0, 0);
        for row in 0..self.0.keys.len() {
            let more = self.string_bytes(kinds, row);
            if row > begin && bytes + more > bytes_max {
                cuts.push((begin..row, bytes));
                (begin, bytes) = (row, 0);
            }
            bytes += more;
        }
        cuts.push((begin..self.0.keys.len(), bytes));
        cuts
    }

    fn string_bytes(&self, kinds: &[Kind], row: usize) -> u64 {
        let strings = self.0.columns.iter().zip(kinds).filter(|(_, kind)| **kind == Kind::Bytes);
        let bytes = strings.map(|(column, _)| match &column.values {
            Values::Word(places) if column.state(row) == VALUE => ByteArena::length(places[row]) as u64,
            _ => 0,
        });
        bytes.sum()
    }
}

impl SeriesMemtable {
    /// The rows of a series in a range of times, one per time.
    pub(crate) fn read(
        &self,
        series: SeriesId,
        time: TimeRange,
        projection: &Projection,
        visibility: &Visibility<'_>,
    ) -> Piece<Vec<i64>> {
        match &projection.addresses {
            None => self.read_words(series, time, projection, visibility),
            Some(places) => {
                let placed = Placed(self.read_words(series, time, places, visibility));
                self.resolve(series, &placed, &projection.kinds)
            }
        }
    }

    /// The same with places instead of strings; `places` are those of what is wanted.
    pub(crate) fn read_placed(
        &self,
        series: SeriesId,
        time: TimeRange,
        places: &Projection,
        visibility: &Visibility<'_>,
    ) -> Placed {
        Placed(self.read_words(series, time, places, visibility))
    }

    /// Brings the strings of rows read before.
    pub(crate) fn resolve(&self, series: SeriesId, placed: &Placed, kinds: &[Kind]) -> Piece<Vec<i64>> {
        let Placed(piece) = placed;
        let mut resolved: Piece<Vec<i64>> = Piece::empty(kinds);
        resolved.keys.clone_from(&piece.keys);
        resolved.markers.clone_from(&piece.markers);
        let Some(stripe) = self.stripe(series.0) else { return resolved };
        for ((column, places), kind) in resolved.columns.iter_mut().zip(&piece.columns).zip(kinds) {
            let Values::Word(words) = &places.values else { unreachable!("places are words") };
            if *kind == Kind::Word {
                column.extend(places, 0..words.len());
                continue;
            }
            for (row, word) in words.iter().enumerate() {
                match places.state(row) {
                    VALUE => push_cell(column, *kind, *word, &stripe.bytes),
                    state => column.push_state(state, 1),
                }
            }
        }
        resolved
    }
}
