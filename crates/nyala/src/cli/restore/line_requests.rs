//! Lines in requests that a server takes. Nothing says how long they may be (`max-body-size`), so they grow until it refuses one,
//! whose lines are sent again in shorter ones.

use super::written::Written;
use crate::cli::server::{Refused, Server};
use std::cell::Cell;

/// Short enough for most limits, so that a first request is rarely sent in vain.
const FIRST_BYTES: usize = 64 << 10;
/// Longer ones are not faster.
const BYTES_MAX: usize = 4 << 20;

/// A server that takes lines.
pub(super) struct LineRequests {
    pub(super) server: Server,
    bytes: Cell<usize>,
    bytes_max: Cell<usize>,
}

impl LineRequests {
    pub(super) fn to(server: Server) -> Self {
        Self { server, bytes: Cell::new(FIRST_BYTES), bytes_max: Cell::new(BYTES_MAX) }
    }

    /// How many bytes the next request may have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Writes lines, each of which ends where `ends` says.
    pub(super) fn write(
        &self,
        (database, policy): (&str, &str),
        lines: &str,
        ends: &[usize],
        written: &mut Written,
    ) -> Result<(), String> {
        let (mut start, mut rest) = (0, ends);
        while !rest.is_empty() {
            // A line is never divided.
            let count = rest.partition_point(|end| end - start <= self.bytes.get()).max(1);
            let end = rest[count - 1];
            match self.server.write(database, policy, &lines.as_bytes()[start..end])? {
                Ok(()) => {
                    written.points += count as u64;
                    self.bytes.set((2 * self.bytes.get()).min(self.bytes_max.get()));
                }
                Err(Refused { is_too_long: true, .. }) if count > 1 => {
                    self.bytes_max.set((end - start) / 2);
                    self.bytes.set(self.bytes_max.get());
                    continue;
                }
                Err(Refused { words, written: points, .. }) => {
                    written.points += points;
                    written.refuse(words);
                }
            }
            (start, rest) = (end, &rest[count..]);
        }
        Ok(())
    }
}
