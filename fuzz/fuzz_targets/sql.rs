//! Any text is read as statements of SQL, and as values, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = nyala_sql::Statement::parse(text);
    nyala_sql::read_arbitrary(text);
});
