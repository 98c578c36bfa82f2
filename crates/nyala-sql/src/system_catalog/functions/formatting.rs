//! `format`, and names as they are written.

use super::call::{Call, text};
use super::{Function, Gives, strict, tolerant};
use crate::error::{SqlError, SqlState};
use crate::identifier::{quoted, quoted_text};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

pub(super) static FUNCTIONS: &[Function] = &[
    tolerant("format", Gives::Text, formatted),
    strict("quote_ident", Gives::Text, |call| Ok(text(quoted(&call.text(0).unwrap_or_default())))),
    strict("quote_literal", Gives::Text, |call| Ok(text(literal(&call.text(0).unwrap_or_default())))),
    tolerant("quote_nullable", Gives::Text, |call| {
        Ok(text(call.text(0).map_or_else(|| "NULL".to_owned(), |own| literal(&own))))
    }),
    strict("parse_ident", Gives::Names, parts),
];

/// A text in quotes, with a prefix that makes it the same whatever a backslash means.
fn literal(words: &str) -> String {
    let quoted = quoted_text(words);
    if words.contains('\\') { format!("E{}", quoted.replace('\\', "\\\\")) } else { quoted }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, message)
}

/// A place in a format: `%2$-10s`.
#[derive(Default)]
struct Place {
    /// Which argument it shows, beginning with 1.
    argument: Option<usize>,
    is_left: bool,
    width: usize,
}

/// The widest place: more cannot be meant.
const WIDTH_MAX: usize = 1 << 20;

fn formatted(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(pattern) = call.text(0) else { return Ok(ScalarValue::Null) };
    let (mut out, mut letters, mut next) = (String::new(), pattern.chars().peekable(), 1);
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut place = Place::default();
        let mut number = digits(&mut letters)?;
        if number.is_some() && letters.next_if_eq(&'$').is_some() {
            place.argument = number.take();
            if place.argument == Some(0) {
                return Err(invalid("format specifies argument 0, but arguments are numbered from 1").into());
            }
        }
        while number.is_none() && letters.next_if_eq(&'-').is_some() {
            place.is_left = true;
        }
        if letters.next_if_eq(&'*').is_some() {
            let width = argument(call, None, &mut next)?.and_then(|own| own.parse::<i64>().ok()).unwrap_or(0);
            place.is_left |= width < 0;
            number = usize::try_from(width.unsigned_abs()).ok();
        } else if number.is_none() {
            number = digits(&mut letters)?;
        }
        place.width = number.unwrap_or(0).min(WIDTH_MAX);
        let Some(kind) = letters.next() else {
            let hint = "For a single \"%\" use \"%%\".";
            return Err(invalid("unterminated format() type specifier").with_hint(hint).into());
        };
        if !matches!(kind, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            return Err(invalid(message).with_hint("For a single \"%\" use \"%%\".").into());
        }
        let value = argument(call, place.argument, &mut next)?;
        let shown = match (kind, value) {
            ('s', value) => value.unwrap_or_default(),
            ('L', value) => value.map_or_else(|| "NULL".to_owned(), |own| literal(&own)),
            (_, Some(value)) => quoted(&value),
            (_, None) => {
                let message = "null values cannot be formatted as an SQL identifier";
                return Err(SqlError::new(SqlState::NULL_NOT_ALLOWED, message).into());
            }
        };
        let blanks = " ".repeat(place.width.saturating_sub(shown.chars().count()));
        out.extend(if place.is_left { [shown, blanks] } else { [blanks, shown] });
    }
    Ok(text(out))
}

fn digits(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = letters.peek().and_then(|own| own.to_digit(10)) {
        letters.next();
        let more = number.unwrap_or(0_usize).checked_mul(10).and_then(|own| own.checked_add(digit as usize));
        number = Some(
            more.filter(|own| *own <= i32::MAX as usize)
                .ok_or_else(|| SqlError::new(SqlState::OUT_OF_RANGE, "number is out of range"))?,
        );
    }
    Ok(number)
}

/// The argument that a place shows: the one that it names, or the next one.
fn argument(call: &Call<'_>, named: Option<usize>, next: &mut usize) -> Result<Option<String>> {
    let place = named.unwrap_or(*next);
    *next = place + 1;
    if place >= call.values.len() {
        return Err(invalid("too few arguments for format()").into());
    }
    Ok(match call.value(place) {
        ScalarValue::Boolean(Some(own)) => Some(if *own { "t" } else { "f" }.to_owned()),
        _ => call.text(place),
    })
}

/// `parse_ident`: the parts of a name, small unless they are in quotes.
fn parts(call: &Call<'_>) -> Result<ScalarValue> {
    let written = call.text(0).unwrap_or_default();
    let is_lax = call.values.len() > 1 && !call.is_true(1);
    let found = identifier_parts(&written, is_lax);
    let names = found.ok_or_else(|| invalid(format!("string is not a valid identifier: \"{written}\"")))?;
    let names: Vec<ScalarValue> = names.into_iter().map(text).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&names, &arrow_schema::DataType::Utf8)))
}

/// The parts of a name; `None` if it is none. `is_lax`: something else may follow.
fn identifier_parts(written: &str, is_lax: bool) -> Option<Vec<String>> {
    let (mut parts, mut rest) = (Vec::new(), written.trim_start());
    loop {
        let mut part = String::new();
        if let Some(inner) = rest.strip_prefix('"') {
            let mut letters = inner.char_indices().peekable();
            let end = loop {
                match letters.next()? {
                    (_, '"') if letters.next_if(|(_, own)| *own == '"').is_some() => part.push('"'),
                    (at, '"') => break at + 1,
                    (_, other) => part.push(other),
                }
            };
            rest = &inner[end..];
        } else {
            let begins = |own: char| own.is_ascii_alphabetic() || own == '_' || !own.is_ascii();
            let goes_on = |own: char| begins(own) || own.is_ascii_digit() || own == '$';
            let end = rest.find(|own| !goes_on(own)).unwrap_or(rest.len());
            part = rest[..end].to_ascii_lowercase();
            if !part.starts_with(begins) {
                return None;
            }
            rest = &rest[end..];
        }
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() || is_lax => return Some(parts),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::identifier_parts;

    #[test]
    fn names_have_parts() {
        let parts = |name| identifier_parts(name, false).map(|own| own.join("|"));
        assert_eq!(parts(" Public . \"A \"\"b\" ").as_deref(), Some("public|A \"b"));
        assert_eq!(["", "a.", "1a", "a b", "\"a", "\"\""].map(parts), [None, None, None, None, None, None]);
        assert_eq!(identifier_parts("a.b(c)", true).map(|own| own.len()), Some(2));
    }
}
