//! Reading arbitrary bytes as what is stored beside points: the entry for fuzzers.

use crate::{catalog, changes, records};

/// Reads a key and a value as a record of the catalog, as one of the list of changes, and as an entry of the log that servers
/// share.
///
/// # Panics
/// What was read is written as something else.
pub fn read_arbitrary(key: &[u8], value: &[u8]) {
    catalog::read_arbitrary(key, value);
    changes::read_arbitrary(key, value);
    records::read_arbitrary(value);
}
