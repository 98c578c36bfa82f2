//! Any parts of a request of HTTP are read, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::program::run_request(bytes);
});
