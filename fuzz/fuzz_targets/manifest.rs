//! Any bytes are read as a manifest, or refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drop(nyala_engine::manifest_log::decode(bytes)));
