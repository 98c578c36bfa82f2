//! How long a certificate is valid, read from its DER form (RFC 5280).
//!
//! rustls judges the certificates of others, not our own, and tells no dates. The dates are the fifth element of a
//! certificate at most, so a walk over its elements finds them; nothing of it is trusted.

use nyala_query::influxql::parse_time;

const SEQUENCE: u8 = 0x30;
/// `[0] EXPLICIT`, the version, which old certificates leave out.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// When a certificate ceases to be valid, in seconds since 1970; `None` if it cannot be read.
pub fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    let after_version = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    // Serial number, algorithm, issuer.
    let serial_number = any_element(after_version)?;
    let (_, rest) = element(serial_number.rest, SEQUENCE)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let not_before = any_element(validity)?;
    let not_after = any_element(not_before.rest)?;
    seconds(not_after.tag, std::str::from_utf8(not_after.content).ok()?)
}

/// `YYMMDDhhmmssZ`, or with four digits of the year.
fn seconds(kind: u8, text: &str) -> Option<i64> {
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let whole = match (kind, digits.len()) {
        // RFC 5280: from 50 on it is the last century.
        (UTC_TIME, 12) => format!("{}{digits}", if digits < "50" { "20" } else { "19" }),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| &whole[from..to];
    let (date, time) =
        ([part(0, 4), part(4, 6), part(6, 8)].join("-"), [part(8, 10), part(10, 12), part(12, 14)].join(":"));
    i64::try_from(parse_time(&format!("{date}T{time}Z"), None)?.unix_ns / 1_000_000_000).ok()
}

/// The content of the first element, and what follows it, if it has this tag.
fn element(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let Element { tag, content, rest } = any_element(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// An element, and what follows it.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

/// The first element.
fn any_element(bytes: &[u8]) -> Option<Element<'_>> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // No certificate is longer than four bytes of length can say.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag: *tag, content, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_both_forms_are_read_and_others_are_not() {
        assert_eq!(seconds(UTC_TIME, "261126104500Z"), Some(1_795_689_900));
        assert_eq!(seconds(GENERALIZED_TIME, "20261126104500Z"), Some(1_795_689_900));
        assert_eq!(seconds(UTC_TIME, "700101000000Z"), Some(0));
        // "No date", as RFC 5280 writes it.
        assert_eq!(seconds(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for wrong in ["", "Z", "261126104500", "2611261045Z", "2611261045+0Z", "269926104500Z"] {
            assert_eq!(seconds(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_certificate_that_is_cut_or_lies_about_its_lengths_has_no_date() {
        // Certificate { signed { serial, algorithm, issuer, validity { from, to } } }
        let time = b"\x17\x0d261126104500Z";
        let validity = [b"\x30\x1e", &time[..], &time[..]].concat();
        let signed = [b"\x02\x01\x05\x30\x00\x30\x00", &validity[..]].concat();
        let signed = [&[0x30, signed.len() as u8], &signed[..]].concat();
        let whole = [&[0x30, signed.len() as u8], &signed[..]].concat();
        assert_eq!(not_after(&whole), Some(1_795_689_900));
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "{length}");
        }
        assert_eq!(not_after(b"\x30\x84\xff\xff\xff\xff"), None);
        assert_eq!(not_after(b"\x30\x88\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
