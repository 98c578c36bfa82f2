//! Any text is parsed without a panic, and what parses reads the same after it was written down.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_query::influxql::{Params, parse_query};

fuzz_target!(|text: &str| {
    let params = Params::default();
    if let Ok(statements) = parse_query(text, &params) {
        for statement in statements {
            let written = statement.to_string();
            // Passwords are not written down.
            if written.contains("[REDACTED]") {
                continue;
            }
            let again = parse_query(&written, &params).unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(again.len(), 1, "{written}");
            assert_eq!(again[0].to_string(), written);
        }
    }
});
