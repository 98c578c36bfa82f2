//! What the last vectors of a column came to, tried first on the next one.
//!
//! Choosing takes longer than writing, and neighbours in a column are mostly alike. A habit is kept for some
//! vectors, as long as it costs about what it did when it was chosen and nothing simpler has become smaller;
//! then everything is looked at again. Whatever a habit says, what is written is right: it only names a plan,
//! which is counted out on all values like any other.

use super::vector::Encoding;

/// Vectors encoded by habit before all encodings are looked at again.
const KEPT_FOR: u8 = 24;
/// Shorter vectors are always looked at: their headers weigh more than their values.
const ROWS_WORTH: usize = 192;
/// Growth over the cost when chosen that ends a habit: a sixteenth.
const DRIFT: usize = 16;

/// What the header of a short vector may add.
const HEADER_BYTES: usize = 24;

/// The way of a column, for its encoder.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntegerHabit {
    encoding: Option<Encoding>,
    /// Width and lowest difference of deltas.
    width: u32,
    low: i64,
    /// Bytes a row when chosen, times 256.
    bytes: usize,
    left: u8,
}

impl IntegerHabit {
    /// Notes what a vector that was looked at in full came to.
    pub(super) fn begin(&mut self, encoding: Encoding, (width, low): (u32, i64), bytes: usize, rows: usize) {
        *self = if rows < ROWS_WORTH {
            Self::default()
        } else {
            Self { encoding: Some(encoding), width, low, bytes: bytes * 256 / rows, left: KEPT_FOR }
        };
    }

    /// Whether the next vector may follow, and how.
    pub(super) fn take(&mut self, rows: usize) -> Option<Encoding> {
        if rows < ROWS_WORTH || self.left == 0 {
            return None;
        }
        self.left -= 1;
        self.encoding
    }

    /// Width and lowest difference of deltas.
    pub(super) fn delta(&self) -> (u32, i64) {
        (self.width, self.low)
    }

    /// Whether so many bytes are about what was chosen.
    pub(super) fn fits(&self, bytes: usize, rows: usize) -> bool {
        bytes <= (self.bytes + self.bytes / DRIFT) * rows / 256 + HEADER_BYTES
    }

    /// Ends it: the next vector is looked at in full.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}
