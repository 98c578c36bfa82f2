//! Any bytes are read as metrics of OpenTelemetry, in protocol buffers or JSON, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_inputs::otlp::{read_binary, read_json};

fuzz_target!(|request: &[u8]| {
    let mut take = |point: nyala_inputs::Point<'_>| {
        assert!(!point.fields.is_empty() && point.tags.is_sorted_by(|one, next| one.0 < next.0));
        Ok(())
    };
    drop(read_binary(request, &mut take));
    drop(read_json(request, &mut take));
});
