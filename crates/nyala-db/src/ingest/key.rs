//! The first part of a line, `measurement,tag=value,…`: where it ends and what it means.
//!
//! One rule applies throughout: a comma, space or equals sign counts unless the byte before it is a backslash (even an
//! escaped one). A backslash is removed only before a character that it escapes; elsewhere it is kept.

use memchr::{memchr, memchr3};

use super::error::{Failure, LineErrorKind};

/// The position of a tag in its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagSpan {
    key_start: usize,
    equals: usize,
}

impl TagSpan {
    fn key<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[self.key_start..self.equals]
    }
}

/// The first of `needles` from `from` on without a backslash before it. `from` is never 0.
fn find_unescaped(line: &[u8], from: usize, needles: [u8; 3]) -> Option<usize> {
    let mut from = from;
    loop {
        let at = from + memchr3(needles[0], needles[1], needles[2], line.get(from..)?)?;
        if line[at - 1] != b'\\' {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Finds the end of the key that starts at `start`, and records its tags. The end is a space.
pub(super) fn scan_key(
    line: &[u8],
    start: usize,
    max_tags: usize,
    tags: &mut Vec<TagSpan>,
) -> Result<usize, Failure> {
    tags.clear();
    if matches!(line.get(start), None | Some(b',')) {
        return Err(Failure::new(LineErrorKind::MissingMeasurement, start));
    }
    let missing_fields = || Failure::new(LineErrorKind::MissingFields, line.len());
    let mut at = find_unescaped(line, start + 1, [b',', b' ', b' ']).ok_or_else(missing_fields)?;
    while line[at] == b',' {
        let key_start = at + 1;
        if matches!(line.get(key_start), None | Some(b' ' | b',' | b'=')) {
            return Err(Failure::new(LineErrorKind::MissingTagKey, key_start));
        }
        let equals = find_unescaped(line, key_start + 1, [b'=', b',', b' ']).unwrap_or(line.len());
        if line.get(equals) != Some(&b'=') {
            return Err(Failure::new(LineErrorKind::MissingTagValue, equals));
        }
        if matches!(line.get(equals + 1), None | Some(b' ' | b',')) {
            return Err(Failure::new(LineErrorKind::MissingTagValue, equals + 1));
        }
        // The first byte of a value may be an equals sign.
        at = find_unescaped(line, equals + 2, [b'=', b',', b' ']).ok_or_else(missing_fields)?;
        if line[at] == b'=' {
            return Err(Failure::new(LineErrorKind::InvalidTagFormat, at));
        }
        if tags.len() >= max_tags {
            return Err(Failure::new(LineErrorKind::TooManyTags, key_start));
        }
        tags.push(TagSpan { key_start, equals });
    }
    check_duplicates(line, tags, at)?;
    Ok(at)
}

fn check_duplicates(line: &[u8], tags: &mut [TagSpan], end: usize) -> Result<(), Failure> {
    if !tags.is_sorted_by(|left, right| left.key(line) < right.key(line)) {
        tags.sort_by_key(|tag| tag.key(line));
        if tags.windows(2).any(|pair| pair[0].key(line) == pair[1].key(line)) {
            return Err(Failure::new(LineErrorKind::DuplicateTags, end));
        }
    }
    Ok(())
}

/// The end of the key at the start of `line`, if it can be found quickly. The result is only good for searching among
/// keys that are known to be valid.
#[inline]
pub(super) fn guess_key_end(line: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b' ', b'\n', &line[from..])?;
        if line[at] == b'\n' {
            return None;
        }
        if at > 0 && line[at - 1] != b'\\' {
            return Some(at);
        }
        from = at + 1;
    }
}

/// The measurement name of a valid key, as written.
pub(super) fn raw_measurement(key: &[u8]) -> &[u8] {
    &key[..find_unescaped(key, 1, [b',', b',', b',']).unwrap_or(key.len())]
}

/// The measurement that a valid key names.
pub fn measurement_of(key: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    unescape(raw_measurement(key), NAME_ESCAPES, &mut name);
    name
}

/// Appends `escaped` without the backslashes before one of `escapable`.
pub(super) fn unescape(escaped: &[u8], escapable: &[u8], into: &mut Vec<u8>) {
    let mut rest = escaped;
    while let Some(at) = memchr(b'\\', rest) {
        let drops = rest.get(at + 1).is_some_and(|next| escapable.contains(next));
        into.extend_from_slice(&rest[..at + usize::from(!drops)]);
        rest = &rest[at + 1..];
    }
    into.extend_from_slice(rest);
}

/// The characters that a backslash escapes in measurement and field names.
pub(super) const NAME_ESCAPES: &[u8] = b",\" =";
/// The characters that a backslash escapes in tag keys and values.
const TAG_ESCAPES: &[u8] = b", =";

/// The tags of a series, unescaped and sorted by key. It is reusable: it does not allocate once it has grown.
#[derive(Clone, Debug, Default)]
pub struct TagSet {
    bytes: Vec<u8>,
    /// Start of key, start of value, end of value.
    spans: Vec<(u32, u32, u32)>,
}

impl TagSet {
    /// Number of tags.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Keys and values in the order of keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.spans.iter().map(|&(key, value, end)| {
            (&self.bytes[key as usize..value as usize], &self.bytes[value as usize..end as usize])
        })
    }

    /// Reads the tags of a valid key.
    pub(super) fn read(&mut self, key: &[u8]) {
        self.bytes.clear();
        self.spans.clear();
        // A valid key ends before its space, so nothing ends early here, and offsets are at most 65535.
        let mut at = raw_measurement(key).len();
        while at < key.len() {
            let equals = find_unescaped(key, at + 2, [b'=', b'=', b'=']).expect("valid key: tag has a value");
            let end = find_unescaped(key, equals + 2, [b',', b',', b',']).unwrap_or(key.len());
            let key_start = self.bytes.len() as u32;
            unescape(&key[at + 1..equals], TAG_ESCAPES, &mut self.bytes);
            let value_start = self.bytes.len() as u32;
            unescape(&key[equals + 1..end], TAG_ESCAPES, &mut self.bytes);
            self.spans.push((key_start, value_start, self.bytes.len() as u32));
            at = end;
        }
        let bytes = &self.bytes;
        self.spans.sort_by(|left, right| {
            bytes[left.0 as usize..left.1 as usize].cmp(&bytes[right.0 as usize..right.1 as usize])
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags_of(key: &[u8]) -> Vec<(String, String)> {
        let mut tags = TagSet::default();
        tags.read(key);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        tags.iter().map(|(key, value)| (text(key), text(value))).collect()
    }

    #[test]
    fn tags_come_unescaped_and_sorted() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(tags_of(br"cpu"), []);
        assert_eq!(tags_of(br"cpu,b=1,a=2"), [pair("a", "2"), pair("b", "1")]);
        assert_eq!(
            tags_of(br"c\,pu,a\=b=c\ d,a\x=\\y,t==v"),
            [pair("a=b", "c d"), pair(r"a\x", r"\\y"), pair("t", "=v")]
        );
    }

    #[test]
    fn duplicates_are_found_whatever_the_order() {
        for (line, duplicate) in [
            ("cpu,a=1,a=2 f=1", true),
            ("cpu,b=1,a=2,b=3 f=1", true),
            ("cpu,b=1,a=2 f=1", false),
            ("cpu,a=1,b=2 f=1", false),
        ] {
            let result = scan_key(line.as_bytes(), 0, 100, &mut Vec::new());
            assert_eq!(result.is_err(), duplicate, "{line}");
        }
    }
}
