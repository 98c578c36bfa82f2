//! Any text is read as the log of schema changes that servers share in Kudu, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &str| {
    nyala_kudu::read_arbitrary(log);
});
