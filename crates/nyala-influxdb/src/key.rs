//! Keys of values: the series key as in line protocol (escaped, tags sorted), `#!~#`, and the name of the field.

/// What separates the series from the field.
const SEPARATOR: &[u8] = b"#!~#";

/// The series key and the field of a key; `None` if it has no field.
pub fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = key.windows(SEPARATOR.len()).position(|window| window == SEPARATOR)?;
    let (series, field) = (&key[..at], &key[at + SEPARATOR.len()..]);
    (!series.is_empty() && !field.is_empty()).then_some((series, field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_split_at_the_first_separator() {
        assert_eq!(split(b"cpu,host=a#!~#usage"), Some((&b"cpu,host=a"[..], &b"usage"[..])));
        assert_eq!(split(b"cpu#!~#a#!~#b"), Some((&b"cpu"[..], &b"a#!~#b"[..])));
        for bad in [&b""[..], b"cpu", b"#!~#a", b"cpu#!~#"] {
            assert_eq!(split(bad), None);
        }
    }
}
