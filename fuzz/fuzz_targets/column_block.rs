//! Any bytes are decoded as a column block, or refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for level in nyala_column::CpuFeatures::available() {
        let _ = nyala_column::decode_arbitrary(level, bytes);
    }
});
