//! How the last vectors of a column were encoded. The encoder tries this first on the next one.
//!
//! Choosing an encoding takes longer than writing it, and neighbouring vectors are mostly alike. A choice is kept for
//! some vectors, as long as its cost stays about the same and nothing simpler has become smaller. Then all encodings
//! are compared again. Short vectors neither make nor end a choice. A wrong choice costs bytes, never values: it only
//! names a plan, which is counted on all values like any other.

use super::encoding::Encoding;

/// Vectors encoded by the same choice before all encodings are compared again.
const KEPT_FOR: u8 = 24;
/// For shorter vectors all encodings are compared, because their headers weigh more than their values.
const ROWS_WORTH: usize = 192;
/// Deltas save most of a short vector's bytes, too.
const DELTA_ROWS_WORTH: usize = 64;
/// A choice ends when its cost has grown by more than this part of what it was: a sixteenth.
const DRIFT: usize = 16;

/// Bytes that the header of a short vector may add.
const HEADER_BYTES: usize = 24;

/// The choice that is kept for a column.
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
    /// Keeps the encoding that was chosen among all. A short vector says nothing about long ones.
    pub(super) fn begin(&mut self, encoding: Encoding, (width, low): (u32, i64), bytes: usize, rows: usize) {
        if rows >= ROWS_WORTH {
            *self = Self { encoding: Some(encoding), width, low, bytes: bytes * 256 / rows, left: KEPT_FOR };
        }
    }

    /// The encoding to try on the next vector, if one is kept.
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

    /// Whether the cost is still about what it was when the encoding was chosen.
    pub(super) fn fits(&self, bytes: usize, rows: usize) -> bool {
        bytes <= (self.bytes + self.bytes / DRIFT) * rows / 256 + HEADER_BYTES
    }

    /// Forgets the choice, so that all encodings are compared on the next vector. A short vector does not end it.
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
    fn short_vectors_use_a_choice_and_do_not_end_it() {
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
