//! Whether a text is JSON, and what it consists of. Parts are the letters that they are written with.
//!
//! A value of `json` is kept as it is written; `jsonb_text.rs` writes those of `jsonb`.

use crate::error::{SqlError, SqlResult, SqlState};

/// How deep values may lie in each other.
pub(crate) const DEPTH_MAX: usize = 512;

const NO_JSON: &str = "invalid input syntax for type json";

/// Whether a text is one value of JSON, with blanks around it.
pub(crate) fn is_json(text: &str) -> bool {
    let rest = value(text.trim_start_matches(is_blank), 0);
    rest.is_some_and(|rest| rest.trim_start_matches(is_blank).is_empty())
}

/// Reads a text that must be JSON.
///
/// # Errors
/// It is none.
pub(crate) fn read(text: &str) -> SqlResult<&str> {
    match is_json(text) {
        true => Ok(text),
        false => {
            let error = SqlError::new(SqlState::INVALID_TEXT, NO_JSON);
            Err(error.with_detail(text))
        }
    }
}

/// What a value consists of.
pub(crate) enum Parts<'a> {
    /// The names of members, in quotes, and their values.
    Object(Vec<(&'a str, &'a str)>),
    Array(Vec<&'a str>),
    /// A value without parts.
    Plain(&'a str),
}

/// What a value of JSON consists of.
pub(crate) fn parts_of(json: &str) -> Parts<'_> {
    let json = json.trim_matches(is_blank);
    let (is_object, mut rest) = match (json.strip_prefix('{'), json.strip_prefix('[')) {
        (Some(inner), _) => (true, inner),
        (_, Some(inner)) => (false, inner),
        _ => return Parts::Plain(json),
    };
    let (mut members, mut elements) = (Vec::new(), Vec::new());
    // What is no JSON ends early.
    while let Some(part) = next_part(&mut rest) {
        let value = match is_object {
            true => rest.trim_start_matches(is_blank).strip_prefix(':').and_then(|after| {
                rest = after;
                next_part(&mut rest)
            }),
            false => Some(part),
        };
        let Some(value) = value else { break };
        members.push((part, value));
        elements.push(value);
        match rest.trim_start_matches(is_blank).strip_prefix(',') {
            Some(after) => rest = after,
            None => break,
        }
    }
    if is_object { Parts::Object(members) } else { Parts::Array(elements) }
}

/// The value at the beginning of a text, which is taken away.
pub(crate) fn next_part<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let begin = rest.trim_start_matches(is_blank);
    let end = value(begin, 0)?;
    *rest = end;
    Some(&begin[..begin.len() - end.len()])
}

/// A text in quotes.
pub(crate) fn quoted(words: &str) -> String {
    let mut quoted = String::with_capacity(words.len() + 2);
    push_quoted(&mut quoted, words);
    quoted
}

/// Appends a text in quotes.
pub(crate) fn push_quoted(quoted: &mut String, words: &str) {
    quoted.push('"');
    for letter in words.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter < ' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
}

/// The letters of a text in quotes.
///
/// # Errors
/// It has half a letter, or the letter that no text has: `json` may keep their escapes.
pub(crate) fn decoded(quoted: &str) -> SqlResult<String> {
    let inner = quoted.strip_prefix('"').and_then(|own| own.strip_suffix('"')).unwrap_or(quoted);
    let (mut words, mut letters) = (String::with_capacity(inner.len()), inner.chars());
    // Letters behind the first 65,536 are written as two halves, one right behind the other.
    let mut first_half = None;
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        let code = match escaped {
            Some('u') => {
                let digits: String = letters.by_ref().take(4).collect();
                u32::from_str_radix(&digits, 16).unwrap_or_default()
            }
            _ => u32::from(escaped.map_or(letter, unescaped)),
        };
        match (first_half.take(), code) {
            (None, 0xd800..0xdc00) => first_half = Some(code),
            (Some(_), 0xd800..0xdc00) => {
                return Err(half_letter("Unicode high surrogate must not follow a high surrogate."));
            }
            (Some(first), 0xdc00..0xe000) => {
                words.extend(char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (code - 0xdc00)));
            }
            (Some(_), _) | (None, 0xdc00..0xe000) => return Err(half_letter(LONE_HALF)),
            (None, 0) => {
                let error = SqlError::new(SqlState::UNTRANSLATABLE, "unsupported Unicode escape sequence");
                return Err(error.with_detail("\\u0000 cannot be converted to text."));
            }
            (None, code) => words.extend(char::from_u32(code)),
        }
    }
    match first_half {
        Some(_) => Err(half_letter(LONE_HALF)),
        None => Ok(words),
    }
}

const LONE_HALF: &str = "Unicode low surrogate must follow a high surrogate.";

fn half_letter(detail: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT, NO_JSON).with_detail(detail)
}

/// What a letter behind a backslash means.
fn unescaped(letter: char) -> char {
    match letter {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

pub(crate) fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

/// What is behind the value at the beginning of a text; `None` if there is none.
fn value(text: &str, depth: usize) -> Option<&str> {
    if depth > DEPTH_MAX {
        return None;
    }
    match text.chars().next()? {
        '{' => members(&text[1..], '}', depth),
        '[' => members(&text[1..], ']', depth),
        '"' => string(text),
        '-' | '0'..='9' => number(text),
        _ => ["true", "false", "null"].iter().find_map(|word| text.strip_prefix(word)),
    }
}

/// The rest of an object or array.
fn members(text: &str, end: char, depth: usize) -> Option<&str> {
    let mut rest = text.trim_start_matches(is_blank);
    if let Some(rest) = rest.strip_prefix(end) {
        return Some(rest);
    }
    loop {
        if end == '}' {
            rest = string(rest)?.trim_start_matches(is_blank).strip_prefix(':')?.trim_start_matches(is_blank);
        }
        rest = value(rest, depth + 1)?.trim_start_matches(is_blank);
        match rest.strip_prefix(end) {
            Some(rest) => return Some(rest),
            None => rest = rest.strip_prefix(',')?.trim_start_matches(is_blank),
        }
    }
}

fn string(text: &str) -> Option<&str> {
    let mut letters = text.strip_prefix('"')?.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some(&text[place + 2..]),
            '\\' => match letters.next()?.1 {
                'u' => {
                    for _ in 0..4 {
                        letters.next()?.1.to_digit(16)?;
                    }
                }
                '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => {}
                _ => return None,
            },
            letter if letter < ' ' => return None,
            _ => {}
        }
    }
    None
}

fn number(text: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return None;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        rest = (count > 0).then(|| &fraction[count..])?;
    }
    if let Some(power) = rest.strip_prefix(['e', 'E']) {
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        let count = digits(power);
        rest = (count > 0).then(|| &power[count..])?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::{decoded, is_json};

    #[test]
    fn halves_of_letters_belong_together_only_side_by_side() {
        assert_eq!(decoded(r#""x\ud83d\ude00\u00e4\/\n""#).expect("it is a text"), "x😀ä/\n");
        let (lone, twice) =
            (Some(super::LONE_HALF), Some("Unicode high surrogate must not follow a high surrogate."));
        for (text, expected) in [
            (r#""\ud83dx\ude00""#, lone),
            (r#""\ud83d\n\ude00""#, lone),
            (r#""\ud83d\u0041""#, lone),
            (r#""\ud83d""#, lone),
            (r#""\ude00""#, lone),
            (r#""\ud83d\ud83d\ude00""#, twice),
            (r#""a\u0000b""#, Some("\\u0000 cannot be converted to text.")),
        ] {
            assert!(is_json(text), "{text} is written as JSON is");
            let error = decoded(text).expect_err("it is no text");
            assert_eq!(error.detail.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn values_are_told_from_other_texts() {
        for text in ["{}", " [1, -2.5e3, \"a\\u00e4\\n\", {\"b\": null}] ", "true", "0", "\"\""] {
            assert!(is_json(text), "{text}");
        }
        let deep = "[".repeat(100_000);
        for text in ["", "{", "{a: 1}", "[1,]", "01", "1.", "nul", "\"a", "1 2", "\"\\x\"", &*deep] {
            assert!(!is_json(text), "{}", &text[..text.len().min(10)]);
        }
    }
}
