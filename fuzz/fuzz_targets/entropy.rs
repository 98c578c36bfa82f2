//! Any bytes are read as a vector that is entropy-coded, or refused, without a panic; all levels agree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::entropy::run(bytes);
});
