//! Any bytes are read as a portable backup of InfluxDB, or refused, and nothing of it leads elsewhere.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::influxdb::run_backup(bytes);
});
