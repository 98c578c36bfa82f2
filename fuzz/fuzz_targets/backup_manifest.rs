//! Any bytes are read as the list of a backup, or refused; no file of it is elsewhere.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::backup_manifest::run(bytes);
});
