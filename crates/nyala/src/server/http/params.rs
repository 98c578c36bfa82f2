//! Parameters of requests: those of the URL, then those of a form, the first of a name wins.

use std::borrow::Cow;

/// Decoded parameters.
#[derive(Debug, Default)]
pub(super) struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Parameters in the form of a URL's query.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(name).into_owned(), decode(value).into_owned())
            })
            .collect();
        Self { pairs }
    }

    /// Adds parameters that count less than those already there.
    pub(super) fn add(&mut self, text: &str) {
        self.pairs.extend(Self::parse(text).pairs);
    }

    /// The first value of a name; empty where there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// Whether a name is there with `true` as its value.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name) == "true"
    }
}

/// `%XX` and `+` undone; what is no escape stays. Bytes that are not UTF-8 are replaced.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |place: usize| bytes.get(place).and_then(|digit| (*digit as char).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) => decoded.push(b' '),
            (byte, ..) => decoded.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_the_first_value_wins() {
        let mut params = Params::parse("q=SELECT+%2A&db=a%zz&empty&q=2");
        params.add("db=b&rp=c");
        assert_eq!(params.get("q"), "SELECT *");
        assert_eq!(params.get("db"), "a%zz");
        assert_eq!(params.get("rp"), "c");
        assert_eq!(params.get("empty"), "");
    }
}
