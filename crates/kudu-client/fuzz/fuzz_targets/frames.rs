//! Frames from a hostile Kudu server, and the answers they hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kudu_client::fuzzing::frames(bytes);
});
