//! `lpad` and `rpad`: DataFusion's end with a panic where a column has a negative length, which means the empty text.

use super::plain::{Call, Kind, PlainFunction, immutable, text};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::row_wise::BATCH_BYTES_MAX;
use datafusion::common::ScalarValue;

const FORMS: &[&[Kind]] = &[&[Kind::Text, Kind::Int], &[Kind::Text, Kind::Int, Kind::Text]];
pub(super) static FUNCTIONS: &[PlainFunction] = &[
    immutable("lpad", FORMS, Kind::Text, |call| padded(call, |own, padding| padding + own)),
    immutable("rpad", FORMS, Kind::Text, |call| padded(call, |own, padding| own.to_owned() + &padding)),
];

/// A text of so many letters: its first ones, or all of them joined with as much padding as is missing.
fn padded(call: &Call<'_>, join: fn(&str, String) -> String) -> SqlResult<ScalarValue> {
    let (own, wanted) = (call.text(0), usize::try_from(call.int(1)).unwrap_or(0));
    let fill = if call.values.len() > 2 { call.text(2) } else { " " };
    if let Some((end, _)) = own.char_indices().nth(wanted) {
        return Ok(text(&own[..end]));
    }
    let missing = wanted - own.chars().count();
    let longest = fill.chars().map(char::len_utf8).max().unwrap_or(0);
    if missing.saturating_mul(longest).saturating_add(own.len()) > BATCH_BYTES_MAX {
        return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, "requested length too large"));
    }
    Ok(text(join(own, fill.chars().cycle().take(missing).collect())))
}
