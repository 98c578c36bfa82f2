//! Any bytes are read as a page of a rowset, or refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::rowset::run_page(bytes);
});
