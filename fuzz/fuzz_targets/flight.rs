//! Any bytes are read as what a client of Flight SQL sends, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::contain_panics();
    nyala_flight::read_arbitrary(bytes);
});
