//! The lines that a request of another protocol becomes: they have a bound, and are charged while they are written.

use super::body::BodyCharge;
use super::response::{Failure, failed, failure};
use crate::server::received::{InputCounts, PointLines, Reason};
use hyper::StatusCode;
use nyala_core::{Error, ErrorKind, Result};
use nyala_db::ingest::MAX_BODY_BYTES;
use nyala_inputs::{Point, Refused};

/// How many times longer than the longest request its lines may be: names that are sent once are written into every line.
const GROWTH_MAX: usize = 4;

pub(super) struct RequestLines<'a> {
    lines: PointLines,
    charge: &'a mut BodyCharge,
    charged_bytes: usize,
    max_bytes: usize,
}

impl<'a> RequestLines<'a> {
    /// No lines yet. `limit_bytes` is how long a request may be.
    pub(super) fn of(charge: &'a mut BodyCharge, limit_bytes: usize) -> Self {
        let max_bytes = limit_bytes.saturating_mul(GROWTH_MAX).min(MAX_BODY_BYTES);
        Self { lines: PointLines::default(), charge, charged_bytes: 0, max_bytes }
    }

    /// Adds a point, or counts and returns why it is none. `now_ns` is for points without a time.
    ///
    /// # Errors
    /// The lines are too long (`Limit`), or there is no memory for them (`Retry`).
    pub(super) fn add(
        &mut self,
        point: std::result::Result<Point<'_>, Refused>,
        now_ns: i64,
        counts: &InputCounts,
    ) -> Result<Option<Refused>> {
        let refused = self.lines.add(point, now_ns, counts);
        if self.lines.text.len() > self.max_bytes {
            return Err(Error::limit("Request Entity Too Large"));
        }
        let capacity = self.lines.text.capacity();
        self.charge.grow(capacity - self.charged_bytes)?;
        self.charged_bytes = capacity;
        Ok(refused)
    }

    /// The lines, with a charge for what is parsed from them: about as much memory again, and the record of the log.
    ///
    /// # Errors
    /// There is no memory for that (`Retry`).
    pub(super) fn into_lines(self) -> Result<PointLines> {
        self.charge.grow(self.lines.text.len().saturating_mul(2))?;
        Ok(self.lines)
    }
}

/// How a request that cannot be read is counted.
pub(super) fn reason_of(error: &Error) -> Reason {
    match error.kind() {
        ErrorKind::Retry => Reason::MemoryFull,
        ErrorKind::Limit => Reason::TooLong,
        _ => Reason::Unreadable,
    }
}

/// The failure of a request that cannot be read.
pub(super) fn refused(error: &Error) -> Failure {
    match error.kind() {
        ErrorKind::Limit => failure(StatusCode::PAYLOAD_TOO_LARGE, error.message()),
        _ => failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::memory::MemoryBudget;
    use nyala_inputs::Value;

    fn point() -> Point<'static> {
        Point {
            measurement: "m".into(),
            tags: vec![("host".into(), "x".repeat(100).into())],
            fields: vec![("value".into(), Value::Float(1.0))],
            time_ns: Some(1),
        }
    }

    #[test]
    fn lines_have_a_bound() {
        let budget = MemoryBudget::new(1 << 30);
        let (mut charge, counts) = (BodyCharge::of(&budget), InputCounts::new("test"));
        let mut lines = RequestLines::of(&mut charge, 100);
        let mut added = 0;
        let error = loop {
            match lines.add(Ok(point()), 0, &counts) {
                Ok(refused) => assert!(refused.is_none()),
                Err(error) => break error,
            }
            added += 1;
        };
        assert_eq!((added, error.kind()), (3, ErrorKind::Limit));
    }

    #[test]
    fn the_lines_of_the_longest_request_can_be_read() {
        let budget = MemoryBudget::new(1 << 30);
        let mut charge = BodyCharge::of(&budget);
        assert_eq!(RequestLines::of(&mut charge, 25_000_000).max_bytes, 100_000_000);
        assert_eq!(RequestLines::of(&mut charge, usize::MAX).max_bytes, MAX_BODY_BYTES);
    }
}
