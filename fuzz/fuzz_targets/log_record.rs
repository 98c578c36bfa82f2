//! Any bytes are read as what a record of the log holds, or refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drop(nyala_engine::decode_record(bytes)));
