//! Dictionaries of a stream of Arrow. A decoder copies all of one to extend it, so that many small extensions of a long one would
//! keep it busy for minutes.

use std::collections::HashMap;

/// What may be copied in any case: it takes a second or two.
const COPIED_BYTES: u64 = 4 << 30;
/// And for each byte that was sent.
const COPIED_FACTOR: u64 = 64;

/// The dictionaries that were sent so far.
#[derive(Debug, Default)]
pub struct SentDictionaries {
    held: HashMap<i64, u64>,
    copied_bytes: u64,
}

impl SentDictionaries {
    /// Notes a dictionary, or an extension of one, of so many bytes. `sent_bytes`: of the stream until now. False: more would be
    /// copied to extend dictionaries than such a stream can need.
    pub fn note(&mut self, number: i64, bytes: u64, extends: bool, sent_bytes: u64) -> bool {
        let held = self.held.entry(number).or_default();
        if extends {
            self.copied_bytes = self.copied_bytes.saturating_add(*held);
            *held = held.saturating_add(bytes);
        } else {
            *held = bytes;
        }
        self.copied_bytes <= COPIED_BYTES.max(COPIED_FACTOR.saturating_mul(sent_bytes))
    }

    /// The bytes of all that are held.
    pub fn held_bytes(&self) -> u64 {
        self.held.values().fold(0, |all, own| all.saturating_add(*own))
    }
}
