//! Scan tokens that somebody else has serialized.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kudu_client::fuzzing::tokens(bytes);
});
