//! Parameters of requests: those of a form, then those of the URL; the first of a name wins.

use std::borrow::Cow;
use std::string::FromUtf8Error;

/// The most parameters that are read of a text: far more than there are names that mean something.
const PAIRS_MAX: usize = 1_000;

/// Decoded parameters.
#[derive(Debug, Default)]
pub(super) struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Parameters in the form of a URL's query. A pair with a broken escape is left out.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .take(PAIRS_MAX)
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decode(name, b' ')?.into_owned(), decode(value, b' ')?.into_owned()))
            })
            .collect();
        Self { pairs }
    }

    /// Adds a parameter that counts less than those already there.
    pub(super) fn add(&mut self, name: String, value: String) {
        self.pairs.push((name, value));
    }

    /// Adds parameters that count less than those already there.
    pub(super) fn add_all(&mut self, others: Params) {
        self.pairs.extend(others.pairs);
    }

    /// The first value of a name; empty where there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Takes the first value of a name away; empty where there is none.
    pub(super) fn take(&mut self, name: &str) -> String {
        let found = self.pairs.iter_mut().find(|(own, _)| own == name);
        found.map_or(String::new(), |(_, value)| std::mem::take(value))
    }

    /// Whether a name is there with `true` as its value.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == "true"
    }
}

/// A part of a path with `%XX` undone; `None` where a `%` begins no escape.
pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    decode(text, b'+')
}

/// `%XX` undone, and `+` as what stands for it; `None` where a `%` begins no escape. Bytes that are not UTF-8 are
/// replaced.
fn decode(text: &str, plus: u8) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let mut rest = text.as_bytes();
    let mut decoded = vec![0; rest.len()];
    let mut length = 0;
    while let [first, after @ ..] = rest {
        (decoded[length], rest) = match (first, after) {
            (b'%', [high, low, after @ ..]) => (hex(*high)? << 4 | hex(*low)?, after),
            (b'%', _) => return None,
            (b'+', _) => (plus, after),
            _ => (*first, after),
        };
        length += 1;
    }
    decoded.truncate(length);
    // It may be kept for long.
    decoded.shrink_to_fit();
    let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
    Some(Cow::Owned(String::from_utf8(decoded).unwrap_or_else(lossy)))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_the_first_value_wins() {
        let mut params = Params::parse("q=SELECT+%2A&db=a%zz&empty&q=2&cut=%2");
        params.add_all(Params::parse("db=b&rp=c"));
        assert_eq!(params.get("q"), "SELECT *");
        assert_eq!(params.get("db"), "b");
        assert_eq!(params.get("rp"), "c");
        assert_eq!(params.get("empty"), "");
        assert_eq!(params.get("cut"), "");
    }
}
