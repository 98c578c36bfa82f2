//! Columns and rows from a hostile Kudu server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    kudu_client::fuzzing::blocks(bytes);
});
