//! Any bytes are read as edits of the catalogue, or refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::catalog::run(bytes);
});
