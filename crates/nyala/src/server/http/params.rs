//! Parameters of requests: those of a form come before those of the URL, and the first of a name wins.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::string::FromUtf8Error;

/// The most parameters that are read of a text: far more than there are known names.
const PAIRS_MAX: usize = 1_000;

/// Decoded parameters.
#[derive(Debug, Default)]
pub(super) struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Parameters in the form of a URL's query, as Go's `url.ParseQuery` reads them for InfluxDB: a pair with a broken
    /// escape is left out. Unlike there, `;` separates nothing: it stands between statements. Bytes that are not UTF-8 are
    /// replaced.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .take(PAIRS_MAX)
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((form_decoded(name)?, form_decoded(value)?))
            })
            .collect();
        Self { pairs }
    }

    /// Adds a parameter after those already there.
    pub(super) fn add(&mut self, name: String, value: String) {
        self.pairs.push((name, value));
    }

    /// Adds parameters after those already there.
    pub(super) fn add_all(&mut self, others: Params) {
        self.pairs.extend(others.pairs);
    }

    /// The first value of a name; empty when there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Removes and returns the first value of a name; empty when there is none.
    pub(super) fn take(&mut self, name: &str) -> String {
        let found = self.pairs.iter_mut().find(|(own, _)| own == name);
        found.map_or(String::new(), |(_, value)| std::mem::take(value))
    }

    /// Whether the value of a name is `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == "true"
    }
}

/// A part of a form: `+` is a space, `%XX` is decoded; `None` where a `%` begins no escape.
///
/// Every light query goes through it. A query has an escape every few bytes, so a search for the next one costs more than
/// a look at each byte.
fn form_decoded(text: &str) -> Option<String> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16);
    let mut rest = text.as_bytes();
    let mut decoded = vec![0; rest.len()];
    let mut length = 0;
    while let [first, after @ ..] = rest {
        (decoded[length], rest) = match (first, after) {
            (b'%', [high, low, after @ ..]) => ((digit(high)? * 16 + digit(low)?) as u8, after),
            (b'%', _) => return None,
            (b'+', _) => (b' ', after),
            _ => (*first, after),
        };
        length += 1;
    }
    decoded.truncate(length);
    // It may be kept for long.
    decoded.shrink_to_fit();
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Some(String::from_utf8(decoded).unwrap_or_else(lossy))
}

/// A part of a path with `%XX` decoded; `None` where a `%` begins no escape.
pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    has_whole_escapes(text).then(|| percent_decode_str(text).decode_utf8_lossy())
}

/// Whether two hexadecimal digits follow every `%`. Go refuses other text; the crate that decodes
/// would keep it.
fn has_whole_escapes(text: &str) -> bool {
    let is_escape = |after: &str| after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    text.split('%').skip(1).all(is_escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_value_wins() {
        let mut params = Params::parse("q=SELECT+%2A&db=a%zz&empty&q=2&cut=%2");
        params.add_all(Params::parse("db=b&rp=c"));
        assert_eq!(params.get("q"), "SELECT *");
        assert_eq!(params.get("db"), "b");
        assert_eq!(params.get("rp"), "c");
        assert_eq!(params.get("empty"), "");
        assert_eq!(params.get("cut"), "");
        let params = Params::parse("%71=a;p=%F0%9F%A6%8C&=x&&p%%41=1&bytes=%ff&pairs");
        assert_eq!((params.get("q"), params.get("p"), params.get("")), ("a;p=\u{1f98c}", "", "x"));
        assert_eq!((params.get("bytes"), params.pairs.len()), ("\u{fffd}", 4));
        assert_eq!(percent_decoded("a+%2F").as_deref(), Some("a+/"));
        assert_eq!((percent_decoded("a%"), percent_decoded("%%41")), (None, None));
    }
}
