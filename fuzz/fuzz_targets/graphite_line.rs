//! Any text is read as a template and lines of Graphite, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_inputs::graphite::Parser;

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let Ok(parser) = Parser::new(&[lines.next().unwrap_or_default()], "_") else { return };
    for line in lines {
        if let Ok(point) = parser.parse(line) {
            assert!(!point.measurement.is_empty() && !point.fields[0].0.is_empty());
        }
    }
});
