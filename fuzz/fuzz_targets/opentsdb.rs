//! Any text is read as lines of OpenTSDB or as JSON, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_inputs::opentsdb::{parse_line, read_json};

fuzz_target!(|text: &str| {
    for line in text.lines() {
        drop(parse_line(line));
    }
    drop(read_json(text.as_bytes(), |point| drop(point)));
});
