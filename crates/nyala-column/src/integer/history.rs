//! What the last vectors of a column came to, tried first on the next one.
//!
//! Choosing takes longer than writing, and neighbours in a column are mostly alike. A habit is kept for some
//! vectors, as long as it costs about what it did when it was chosen and nothing simpler has become smaller;
//! then everything is looked at again. The rests of runs, which are short, neither make a habit nor end it. Whatever a habit says, what is written is right: it only names a plan,
//! which is counted out on all values like any other.

use super::encoding::Encoding;

/// Vectors encoded by habit before all encodings are looked at again.
const KEPT_FOR: u8 = 24;
/// Shorter vectors are always looked at: their headers weigh more than their values.
const ROWS_WORTH: usize = 192;
/// Deltas save most of a short vector's bytes, too.
const DELTA_ROWS_WORTH: usize = 64;
/// Growth over the cost when chosen that ends a habit: a sixteenth.
const DRIFT: usize = 16;

/// What the header of a short vector may add.
const HEADER_BYTES: usize = 24;

/// The way of a column, for its encoder.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntegerHistory {
    encoding: Option<Encoding>,
    /// Width and lowest difference of deltas.
    width: u32,
    low: i64,
    /// Bytes a row when chosen, times 256.
    bytes: usize,
    left: u8,
}

impl IntegerHistory {
    /// Notes what a vector that was looked at in full came to. What a short one did says nothing of long ones.
    pub(super) fn begin(&mut self, encoding: Encoding, (width, low): (u32, i64), bytes: usize, rows: usize) {
        if rows >= ROWS_WORTH {
            *self = Self { encoding: Some(encoding), width, low, bytes: bytes * 256 / rows, left: KEPT_FOR };
        }
    }

    /// Whether the next vector may follow, and how.
    pub(super) fn take(&mut self, rows: usize) -> Option<Encoding> {
        if rows >= ROWS_WORTH {
            self.left = self.left.checked_sub(1)?;
        }
        self.encoding.filter(|encoding| {
            rows >= ROWS_WORTH || (rows >= DELTA_ROWS_WORTH && *encoding == Encoding::Delta)
        })
    }

    /// Width and lowest difference of deltas.
    pub(super) fn delta(&self) -> (u32, i64) {
        (self.width, self.low)
    }

    /// Whether so many bytes are about what was chosen.
    pub(super) fn fits(&self, bytes: usize, rows: usize) -> bool {
        bytes <= (self.bytes + self.bytes / DRIFT) * rows / 256 + HEADER_BYTES
    }

    /// Ends it, unless it is a short vector that it does not suit: the next vector is looked at in full.
    pub(super) fn end(&mut self, rows: usize) {
        if rows >= ROWS_WORTH {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_vectors_follow_a_habit_and_leave_it_alone() {
        let mut history = IntegerHistory::default();
        assert_eq!(history.take(1024), None);
        history.begin(Encoding::Delta, (3, -4), 400, 1024);
        history.begin(Encoding::Frame, (0, 0), 40, 70);
        history.end(70);
        assert_eq!((history.take(70), history.take(30)), (Some(Encoding::Delta), None));
        for _ in 0..KEPT_FOR {
            assert_eq!(history.take(1024), Some(Encoding::Delta));
        }
        assert_eq!(history.take(1024), None);
        history.begin(Encoding::Frame, (0, 0), 800, 1024);
        assert_eq!((history.take(1024), history.take(70)), (Some(Encoding::Frame), None));
        history.end(1024);
        assert_eq!(history.take(1024), None);
    }
}
