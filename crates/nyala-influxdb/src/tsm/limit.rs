//! What is read of a block at most, and why one cannot be decoded.

use std::borrow::Cow;

/// The most points of a block that is read. InfluxDB writes 1000, and 10 000 where points were written slowly.
pub const POINTS_MAX: usize = 1 << 16;
/// The most bytes of the strings of a block that is read. One string has at most 64 KiB.
pub const TEXT_BYTES_MAX: usize = 128 << 20;

/// Why a block cannot be decoded.
pub type Problem = Cow<'static, str>;

/// Refuses more points than a block has, before memory is taken for them.
pub(super) fn check_count(count: usize) -> Result<(), Problem> {
    match count <= POINTS_MAX {
        true => Ok(()),
        false => Err(Problem::from(format!("a block of {count} points: at most {POINTS_MAX} are read"))),
    }
}
