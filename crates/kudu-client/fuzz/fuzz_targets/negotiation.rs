//! What a hostile Kudu server sends during negotiation.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kudu_client::fuzzing::negotiation(bytes);
});
