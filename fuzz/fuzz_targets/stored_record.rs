//! Any bytes are read as a record beside points, or refused, and what is read is read as it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The first byte is the length of the key.
fuzz_target!(|bytes: &[u8]| {
    let Some((length, record)) = bytes.split_first() else { return };
    let (key, value) = record.split_at(usize::from(*length).min(record.len()));
    nyala_db::read_arbitrary(key, value);
});
