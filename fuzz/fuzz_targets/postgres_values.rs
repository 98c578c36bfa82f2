//! Any bytes are read as what a client of PostgreSQL sends, past its connection.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    nyala_fuzz::postgres_values::run(bytes);
});
