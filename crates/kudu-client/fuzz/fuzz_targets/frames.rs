//! Frames from a hostile Kudu server, and the answers they contain.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kudu_client::fuzzing::frames(bytes);
});
