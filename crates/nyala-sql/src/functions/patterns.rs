//! Functions of regular expressions that DataFusion lacks.

use super::plain::{Call, Kind, PlainFunction, immutable};
use crate::error::{SqlError, SqlResult, SqlState};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use regex::{Captures, Regex, RegexBuilder};

const TEXT: Kind = Kind::Text;

pub(super) static FUNCTIONS: &[PlainFunction] = &[
    // `regexp_matches` gives a row for each match.
    immutable("array::matches", &[&[TEXT, TEXT], &[TEXT, TEXT, TEXT]], Kind::TextLists, |call| {
        let (pattern, is_global) = pattern(call.text(1), call.text(2))?;
        let all = pattern.captures_iter(call.text(0)).take(if is_global { usize::MAX } else { 1 });
        let lists: Vec<ScalarValue> = all.map(|own| groups(&own)).collect();
        Ok(ScalarValue::List(ScalarValue::new_list_nullable(&lists, &Kind::Texts.data_type(&DataType::Null))))
    }),
    immutable(
        "regexp_substr",
        &[
            &[TEXT, TEXT],
            &[TEXT, TEXT, Kind::Int],
            &[TEXT, TEXT, Kind::Int, Kind::Int],
            &[TEXT, TEXT, Kind::Int, Kind::Int, TEXT],
            &[TEXT, TEXT, Kind::Int, Kind::Int, TEXT, Kind::Int],
        ],
        TEXT,
        substr,
    ),
];

/// A pattern with its flags, and whether all of its matches are meant.
fn pattern(written: &str, flags: &str) -> SqlResult<(Regex, bool)> {
    let mut builder = RegexBuilder::new(written);
    let mut is_global = false;
    for flag in flags.chars() {
        match flag {
            'g' => is_global = true,
            'i' => {
                builder.case_insensitive(true);
            }
            'c' => {
                builder.case_insensitive(false);
            }
            'n' | 'm' => {
                builder.multi_line(true);
            }
            's' => {
                builder.dot_matches_new_line(true);
            }
            'x' => {
                builder.ignore_whitespace(true);
            }
            other => {
                let words = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER, words));
            }
        }
    }
    let pattern = builder.build().map_err(|error| {
        SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {error}"))
    })?;
    Ok((pattern, is_global))
}

/// What the groups of a match hold, or the whole match if there are none.
fn groups(found: &Captures<'_>) -> ScalarValue {
    let skipped = usize::from(found.len() > 1);
    let texts: Vec<ScalarValue> = found
        .iter()
        .skip(skipped)
        .map(|own| ScalarValue::Utf8(own.map(|own| own.as_str().to_owned())))
        .collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8))
}

fn substr(call: &Call<'_>) -> SqlResult<ScalarValue> {
    let or_one = |place: usize| if call.values.len() > place { call.int(place) } else { 1 };
    let (start, number) = (or_one(2), or_one(3));
    let group = if call.values.len() > 5 { call.int(5) } else { 0 };
    for (value, name) in [(start, "start"), (number, "n")] {
        if value <= 0 {
            let words = format!("invalid value for parameter \"{name}\": {value}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER, words));
        }
    }
    let group = usize::try_from(group).map_err(|_| {
        SqlError::new(
            SqlState::INVALID_PARAMETER,
            format!("invalid value for parameter \"subexpr\": {group}"),
        )
    })?;
    let (pattern, is_global) = pattern(call.text(1), call.text(4))?;
    if is_global {
        let words = "regexp_substr() does not support the \"global\" option";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER, words));
    }
    let text = call.text(0);
    let Some((begin, _)) = text.char_indices().chain([(text.len(), ' ')]).nth(start as usize - 1) else {
        return Ok(ScalarValue::Utf8(None));
    };
    let found = pattern.captures_iter(&text[begin..]).nth(number as usize - 1);
    let own = found.and_then(|own| own.get(group).map(|own| own.as_str().to_owned()));
    Ok(ScalarValue::Utf8(own))
}
