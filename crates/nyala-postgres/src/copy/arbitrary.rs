//! Splitting arbitrary bytes into rows: the entry for fuzzers.

use super::binary::Tuples;
use super::fields::Fields;
use super::lines::Lines;
use crate::error::Failure;
use crate::value::parameter::utf8;
use nyala_sql::{CopyForm, CopyKind};

/// The values of a row; `None`: NULL.
pub type ArbitraryRow = Vec<Option<Vec<u8>>>;

/// Splits bytes that come in pieces of a length into rows of so many values. Returns the rows, and what is wrong with what
/// follows them.
///
/// No bytes are a panic, and no more of them are kept than came.
pub fn split_arbitrary(
    form: &CopyForm,
    columns: usize,
    piece_bytes: usize,
    bytes: &[u8],
) -> (Vec<ArbitraryRow>, Option<String>) {
    let mut rows = Vec::new();
    // The last piece is the end.
    let pieces = bytes.chunks(piece_bytes.max(1)).chain([&b""[..]]);
    let split = match form.kind {
        CopyKind::Binary => split_tuples(columns, pieces, &mut rows),
        _ => split_lines(form, columns, pieces, &mut rows),
    };
    (rows, split.err().map(|failure| failure.message))
}

fn split_lines<'a>(
    form: &CopyForm,
    columns: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
    rows: &mut Vec<ArbitraryRow>,
) -> Result<(), Failure> {
    let (mut lines, mut fields, mut came) = (Lines::of(form), Fields::of(form), 0);
    for piece in pieces {
        lines.push(piece);
        came += piece.len();
        assert!(lines.buffer.len() <= came);
        while let Some(place) = lines.next(piece.is_empty())? {
            let line = utf8(&lines.buffer[place])?;
            fields.split(line, columns)?;
            let value = |number| fields.get(line, number).map(|text| text.as_bytes().to_vec());
            rows.push((0..fields.count()).map(value).collect());
        }
    }
    Ok(())
}

fn split_tuples<'a>(
    columns: usize,
    pieces: impl Iterator<Item = &'a [u8]>,
    rows: &mut Vec<ArbitraryRow>,
) -> Result<(), Failure> {
    let (mut tuples, mut came) = (Tuples::default(), 0);
    for piece in pieces {
        tuples.push(piece);
        came += piece.len();
        assert!(tuples.buffer.len() <= came);
        while tuples.next(columns, piece.is_empty()).map_err(|(failure, _)| failure)? {
            let value = |place: &Option<std::ops::Range<usize>>| Some(tuples.buffer[place.clone()?].to_vec());
            rows.push(tuples.values.iter().map(value).collect());
        }
    }
    Ok(())
}
