//! Parameters that are written as `?`, as JDBC and Python's DBAPI have them, become `$1`, `$2`, …
//!
//! A text that has a `$1` is left as it is. `?` is no operator here, so each one outside of texts, names and comments is a
//! parameter.

use std::borrow::Cow;

/// The text with numbered parameters.
pub(crate) fn numbered(text: &str) -> Cow<'_, str> {
    let mut places = Vec::new();
    let mut left = text;
    while let Some(first) = left.find(['?', '\'', '"', '-', '/', '$', 'e', 'E']) {
        let at = text.len() - left.len() + first;
        let found = &left[first..];
        let before = text[..at].chars().next_back();
        let skipped = match found.as_bytes() {
            [b'?', ..] => {
                places.push(at);
                1
            }
            [b'$', b'0'..=b'9', ..] => return Cow::Borrowed(text),
            [b'e' | b'E', b'\'', ..] if !before.is_some_and(is_of_name) => {
                1 + quoted_length(&found[1..], '\'', true)
            }
            [b'\'', ..] => quoted_length(found, '\'', false),
            [b'"', ..] => quoted_length(found, '"', false),
            [b'-', b'-', ..] => found.find('\n').unwrap_or(found.len()),
            [b'/', b'*', ..] => comment_length(found),
            [b'$', ..] if !before.is_some_and(is_of_name) => dollar_length(found),
            _ => 1,
        };
        left = &found[skipped..];
    }
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut numbered = String::with_capacity(text.len() + 2 * places.len());
    let mut begin = 0;
    for (place, number) in places.into_iter().zip(1..) {
        numbered.push_str(&text[begin..place]);
        numbered.push_str(&format!("${number}"));
        begin = place + 1;
    }
    numbered.push_str(&text[begin..]);
    Cow::Owned(numbered)
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The length of what begins and ends with a quote, which stands for itself if there are two of it.
fn quoted_length(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if has_escapes && letter == '\\' {
            letters.next();
        } else if letter == quote {
            match letters.peek() {
                Some((_, next)) if *next == quote => drop(letters.next()),
                _ => return at + 1,
            }
        }
    }
    text.len()
}

/// The length of a comment, which may have others inside.
fn comment_length(text: &str) -> usize {
    let (bytes, mut depth, mut at) = (text.as_bytes(), 0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a text between `$tag$` and `$tag$`; 1 if none begins here.
fn dollar_length(text: &str) -> usize {
    let Some(end) = text[1..].find('$') else { return 1 };
    let tag = &text[..end + 2];
    if !tag[1..end + 1].chars().all(is_of_name) {
        return 1;
    }
    text[tag.len()..].find(tag).map_or(text.len(), |end| end + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn question_marks_are_numbered() {
        for (text, expected) in [
            ("SELECT ?", "SELECT $1"),
            ("SELECT a FROM t WHERE b = ? AND c IN (?,?)", "SELECT a FROM t WHERE b = $1 AND c IN ($2,$3)"),
            ("SELECT '?''?', \"?\"\"\", ?", "SELECT '?''?', \"?\"\"\", $1"),
            ("SELECT E'\\'?', name'?', ?", "SELECT E'\\'?', name'?', $1"),
            (
                "SELECT 1 -- ?\n, ? /* ? /* ? */ ? */ - ? / ?",
                "SELECT 1 -- ?\n, $1 /* ? /* ? */ ? */ - $2 / $3",
            ),
            ("SELECT $$?$$, $a$ ? $$ $a$, ?", "SELECT $$?$$, $a$ ? $$ $a$, $1"),
            ("SELECT ä = ?, 'ä?'", "SELECT ä = $1, 'ä?'"),
            ("SELECT $1, ?", "SELECT $1, ?"),
            ("SELECT '?", "SELECT '?"),
            ("/*/?", "/*/?"),
            ("SELECT a$ ?", "SELECT a$ $1"),
            ("", ""),
        ] {
            assert_eq!(numbered(text), expected);
        }
    }
}
