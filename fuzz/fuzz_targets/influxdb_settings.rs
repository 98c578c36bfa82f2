//! Any bytes are read as the settings of InfluxDB 2.x, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::influxdb::run_bolt(bytes);
});
