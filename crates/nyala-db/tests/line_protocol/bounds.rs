//! Hostile bodies are rejected or cut into batches, in bounded memory and time.

use crate::Reader;
use nyala_db::ingest::{LineErrorKind, LineLimits, LineRequest, ParseOptions, ParsedBatch, SeriesCache};
use std::fmt::Write;

fn error_of(body: &str, limits: LineLimits) -> Option<(LineErrorKind, u64, u64)> {
    let (_, request) =
        Reader::new().read(body.as_bytes(), ParseOptions { limits, ..ParseOptions::default() });
    request.errors().details().first().map(|error| (error.kind, error.line, error.column))
}

#[test]
fn own_limits_reject_lines_not_requests() {
    let limits = LineLimits { max_line_bytes: 40, max_tags: 2, max_fields: 3, ..LineLimits::default() };
    let good = "m,a=1,b=2 f=1,g=2,h=3 1\n";
    assert_eq!(error_of(good, limits), None);
    for (bad, error) in [
        ("m,a=1,b=2,c=3 f=1 1\n", (LineErrorKind::TooManyTags, 2, 11)),
        ("m,a=1 f=1,g=2,h=3,k=4 1\n", (LineErrorKind::TooManyFields, 2, 19)),
        ("m,a=1 f=\"123456789012345678901234567890\" 1\n", (LineErrorKind::LineTooLong, 2, 41)),
    ] {
        assert_eq!(error_of(&format!("{good}{bad}{good}"), limits), Some(error));
    }
    // The fast path also enforces the longest line.
    let known = "m f=\"1\" 1\nm f=\"2\" 1\n";
    let long = "m f=\"123456789012345678901234567890\" 1234\n";
    assert_eq!(error_of(&format!("{known}{long}"), limits), Some((LineErrorKind::LineTooLong, 3, 41)));
}

#[test]
fn errors_name_line_and_column() {
    for (body, expected) in [
        ("m f=1\nm f=", (LineErrorKind::MissingFieldValue, 2, 5)),
        ("m f=\"a\nb\"\n\n# c\n  m,a f=1", (LineErrorKind::MissingTagValue, 5, 6)),
        ("m,a=1,=2 f=1", (LineErrorKind::MissingTagKey, 1, 7)),
        ("m \t=1 1", (LineErrorKind::MissingFieldKey, 1, 4)),
        ("m f=1x", (LineErrorKind::InvalidNumber, 1, 6)),
        ("m f=1 12x", (LineErrorKind::BadTimestamp, 1, 9)),
        ("m f=1 12 x", (LineErrorKind::TrailingCharacters, 1, 10)),
    ] {
        assert_eq!(error_of(body, LineLimits::default()), Some(expected), "{body}");
    }
}

/// Parses a body. Returns the most memory that the batch held, and the number of batches.
fn peak_bytes(body: &str) -> (usize, usize) {
    let mut cache = SeriesCache::new(Default::default());
    let mut batch = ParsedBatch::new();
    let mut request = LineRequest::new(body.as_bytes(), ParseOptions::default());
    let (mut peak, mut batches, mut rows) = (0, 0, 0);
    while request.next_batch(&mut cache, &mut batch) {
        peak = peak.max(batch.memory_bytes());
        batches += 1;
        rows += batch.row_count();
    }
    assert!(request.errors().is_empty());
    assert_eq!(rows, body.lines().count());
    (peak, batches)
}

#[test]
fn every_line_another_field() {
    let mut body = String::new();
    for number in 0..300_000 {
        writeln!(body, "m f{number}=1i {number}").unwrap();
    }
    let (peak, batches) = peak_bytes(&body);
    assert!(peak < 150 << 20, "{peak} bytes");
    assert_eq!(batches, 3);
}

#[test]
fn every_line_another_measurement() {
    let mut body = String::new();
    for number in 0..300_000 {
        writeln!(body, "m{number} f=1i {number}").unwrap();
    }
    let (peak, batches) = peak_bytes(&body);
    assert!(peak < 150 << 20, "{peak} bytes");
    assert_eq!(batches, 3);
}

#[test]
fn a_wide_line_among_narrow_ones() {
    let mut wide = "m ".to_owned();
    for number in 0..50_000 {
        write!(wide, "f{number}=1,").unwrap();
    }
    wide.truncate(wide.len() - 1);
    let narrow = "m f0=1\n".repeat(20_000);
    for body in [format!("{wide}\n{narrow}"), format!("{narrow}{wide}\n{narrow}")] {
        let (peak, batches) = peak_bytes(&body);
        assert!(peak < 60 << 20, "{peak} bytes");
        assert_eq!(batches, 1);
    }
}

#[test]
fn a_thousand_fields_in_turn() {
    let mut body = String::new();
    for number in 0..100_000 {
        writeln!(body, "m f{}={number}i {number}", number % 1_000).unwrap();
    }
    let (peak, batches) = peak_bytes(&body);
    assert!(peak < 100 << 20, "{peak} bytes");
    assert_eq!(batches, 1);
}

#[test]
fn more_rows_than_a_batch_holds() {
    let (peak, batches) = peak_bytes(&"m f=1\nm g=t\n".repeat(600_000));
    assert!(peak < 30 << 20, "{peak} bytes");
    assert_eq!(batches, 3);
}

#[test]
fn the_longest_key_is_that_of_influxdb() {
    for (name_bytes, refused) in [(65_535 - 5, false), (65_535 - 4, true), (65_536, true)] {
        let body = format!("{} f=1", "m".repeat(name_bytes));
        let (rows, request) = Reader::new().read(body.as_bytes(), ParseOptions::default());
        assert_eq!(
            (rows.is_empty(), request.errors().count()),
            (refused, u64::from(refused)),
            "{name_bytes}"
        );
    }
    let (_, request) = {
        let body: &'static [u8] = format!("{} f=1", "m".repeat(65_532)).leak().as_bytes();
        Reader::new().read(body, ParseOptions::default())
    };
    assert!(request.errors().text().ends_with(b"': max key length exceeded: 65537 > 65535"));
}
