//! Any bytes are replayed as a segment of the log, or refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drop(nyala_engine::wal::decode(bytes)));
