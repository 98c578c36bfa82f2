//! Any bytes are read as what an operator gives: settings, a certificate, CSV, a journal.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::program::run_file(bytes);
});
