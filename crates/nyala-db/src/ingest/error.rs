//! Rejected lines: InfluxDB's message, and in our own members where and why.
//!
//! The text for a request with bad lines equals that of InfluxDB 1.8.10 to the letter, because clients match on it.
//! Line, column and expectation are separate members. Texts are bounded: errors that do not fit are only counted.

use super::options::{LineLimits, MAX_KEY_BYTES, MAX_TIME_NS, MIN_TIME_NS};

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the messages
pub enum LineErrorKind {
    MissingMeasurement,
    MissingFields,
    MissingTagKey,
    MissingTagValue,
    InvalidTagFormat,
    DuplicateTags,
    KeyTooLong,
    MissingFieldKey,
    MissingFieldValue,
    InvalidNumber,
    IntegerOutOfRange,
    InvalidFloat,
    InvalidBoolean,
    UnbalancedQuotes,
    InvalidFieldFormat,
    BadTimestamp,
    TimeOutOfRange,
    TrailingCharacters,
    /// A limit that InfluxDB does not have.
    LineTooLong,
    /// A limit that InfluxDB does not have.
    TooManyTags,
    /// A limit that InfluxDB does not have.
    TooManyFields,
}

impl LineErrorKind {
    /// What was expected.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::MissingMeasurement => "a measurement name",
            Self::MissingFields => "a space and at least one field=value after measurement and tags",
            Self::MissingTagKey => "a tag key after the comma",
            Self::MissingTagValue => "= and a value after the tag key",
            Self::InvalidTagFormat => "a comma or space after the tag value; = in it is written \\=",
            Self::DuplicateTags => "each tag key once",
            Self::KeyTooLong => "measurement, tags and field name of at most 65535 bytes",
            Self::MissingFieldKey => "a field name before =",
            Self::MissingFieldValue => "a value after =",
            Self::InvalidNumber => "a finite number, with suffix i for integers and u for unsigned ones",
            Self::IntegerOutOfRange => "an integer of 64 bits",
            Self::InvalidFloat => "a finite float of 64 bits",
            Self::InvalidBoolean => "a number, t, true, f, false or a string in double quotes",
            Self::UnbalancedQuotes => "a closing double quote",
            Self::InvalidFieldFormat => "field=value pairs separated by commas",
            Self::BadTimestamp => "an integer timestamp",
            Self::TimeOutOfRange => {
                "a time between 1677-09-21 and 2262-04-11 in the precision of the request"
            }
            Self::TrailingCharacters => "the end of the line after the timestamp",
            Self::LineTooLong => "a shorter line",
            Self::TooManyTags => "fewer tags",
            Self::TooManyFields => "fewer fields",
        }
    }
}

/// Why the slow path rejected a line: the error, its position in the block, and InfluxDB's message.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: LineErrorKind,
    pub(super) at: usize,
    pub(super) text: Vec<u8>,
}

impl Failure {
    /// A failure whose message follows from its kind.
    pub(super) fn new(kind: LineErrorKind, at: usize) -> Self {
        let text = match kind {
            LineErrorKind::MissingMeasurement => "missing measurement",
            LineErrorKind::MissingFields => "missing fields",
            LineErrorKind::MissingTagKey => "missing tag key",
            LineErrorKind::MissingTagValue => "missing tag value",
            LineErrorKind::InvalidTagFormat => "invalid tag format",
            LineErrorKind::DuplicateTags => "duplicate tags",
            LineErrorKind::MissingFieldKey => "missing field key",
            LineErrorKind::MissingFieldValue => "missing field value",
            LineErrorKind::InvalidNumber => "invalid number",
            LineErrorKind::InvalidFloat => "invalid float",
            LineErrorKind::InvalidBoolean => "invalid boolean",
            LineErrorKind::UnbalancedQuotes => "unbalanced quotes",
            LineErrorKind::InvalidFieldFormat => "invalid field format",
            LineErrorKind::BadTimestamp => "bad timestamp",
            LineErrorKind::TrailingCharacters => "point is invalid",
            LineErrorKind::TimeOutOfRange => {
                return Self::with_text(
                    kind,
                    at,
                    format!("time outside range {MIN_TIME_NS} - {MAX_TIME_NS}"),
                );
            }
            LineErrorKind::KeyTooLong
            | LineErrorKind::IntegerOutOfRange
            | LineErrorKind::LineTooLong
            | LineErrorKind::TooManyTags
            | LineErrorKind::TooManyFields => kind.expected(),
        };
        Self::with_text(kind, at, text)
    }

    pub(super) fn with_text(kind: LineErrorKind, at: usize, text: impl Into<Vec<u8>>) -> Self {
        Self { kind, at, text: text.into() }
    }

    pub(super) fn key_too_long(key_bytes: usize, at: usize) -> Self {
        let text = format!("max key length exceeded: {key_bytes} > {MAX_KEY_BYTES}");
        Self::with_text(LineErrorKind::KeyTooLong, at, text)
    }
}

/// A rejected line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Where the line begins in the body, counted from 1.
    pub line: u64,
    /// The byte within the line where parsing stopped, counted from 1.
    pub column: u64,
    /// What is wrong.
    pub kind: LineErrorKind,
    /// InfluxDB's message: `unable to parse '…': …`. It may contain bytes that are not UTF-8.
    pub message: Vec<u8>,
}

/// The number of rejected lines at some point.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorsMark {
    details: usize,
    count: u64,
    text_bytes: usize,
}

/// The rejected lines of a request.
#[derive(Clone, Debug, Default)]
pub struct ParseErrors {
    details: Vec<LineError>,
    count: u64,
    text_bytes: usize,
}

impl ParseErrors {
    /// The current state, to return to it.
    pub(super) fn mark(&self) -> ErrorsMark {
        ErrorsMark { details: self.details.len(), count: self.count, text_bytes: self.text_bytes }
    }

    /// Forgets the errors since `mark`.
    pub(super) fn rewind(&mut self, mark: &ErrorsMark) {
        self.details.truncate(mark.details);
        (self.count, self.text_bytes) = (mark.count, mark.text_bytes);
    }

    /// The number of rejected lines.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether no line was rejected.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first rejected lines, as many as the limits allow.
    pub fn details(&self) -> &[LineError] {
        &self.details
    }

    /// The message for the whole request. It is InfluxDB's, unless there were more errors than are kept; then a last
    /// line says so.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.text_bytes + self.details.len());
        for (index, error) in self.details.iter().enumerate() {
            if index > 0 {
                text.push(b'\n');
            }
            text.extend_from_slice(&error.message);
        }
        let omitted = self.count - self.details.len() as u64;
        if omitted > 0 {
            text.extend_from_slice(format!("\nand {omitted} more").as_bytes());
        }
        text
    }

    /// Adds the errors of another part of the request, whose lines are counted separately.
    pub(crate) fn append(&mut self, other: Self) {
        // After the first error that is left out, all later ones are left out too.
        if self.details.len() as u64 == self.count {
            self.text_bytes += other.text_bytes;
            self.details.extend(other.details);
        }
        self.count += other.count;
    }

    /// Records that `block` was rejected. It begins at line `line`, and its text begins at `start`.
    pub(super) fn add(
        &mut self,
        line: u64,
        block: &[u8],
        start: usize,
        failure: Failure,
        limits: &LineLimits,
    ) {
        self.count += 1;
        // After the first error that is left out, all later ones are left out too, so that the text is a prefix of
        // InfluxDB's.
        let kept_all = self.details.len() as u64 == self.count - 1;
        let room = limits.max_error_bytes.saturating_sub(self.text_bytes);
        let shown = &block[start..];
        if !kept_all
            || self.details.len() >= limits.max_errors
            || (shown.len() > room && !self.details.is_empty())
        {
            return;
        }
        let mut message = b"unable to parse '".to_vec();
        message.extend_from_slice(&shown[..shown.len().min(room)]);
        message.extend_from_slice(b"': ");
        message.extend_from_slice(&failure.text);
        self.text_bytes += message.len();
        let column = failure.at as u64 + 1;
        self.details.push(LineError { line, column, kind: failure.kind, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_bounded_and_counted() {
        let limits = LineLimits { max_errors: 2, max_error_bytes: 1_000, ..LineLimits::default() };
        let mut errors = ParseErrors::default();
        for line in 1..=5 {
            errors.add(line, b"cpu", 0, Failure::new(LineErrorKind::MissingFields, 3), &limits);
        }
        assert_eq!(errors.count(), 5);
        assert_eq!(errors.details().len(), 2);
        assert_eq!(errors.details()[1].column, 4);
        let text = "unable to parse 'cpu': missing fields\nunable to parse 'cpu': missing fields\nand 3 more";
        assert_eq!(errors.text(), text.as_bytes());
    }

    #[test]
    fn a_huge_first_line_is_cut() {
        let limits = LineLimits { max_errors: 2, max_error_bytes: 10, ..LineLimits::default() };
        let mut errors = ParseErrors::default();
        errors.add(1, &[b'x'; 1_000_000], 0, Failure::new(LineErrorKind::MissingFields, 3), &limits);
        errors.add(2, b"y", 0, Failure::new(LineErrorKind::MissingFields, 1), &limits);
        assert_eq!(errors.text(), b"unable to parse 'xxxxxxxxxx': missing fields\nand 1 more");
    }
}
