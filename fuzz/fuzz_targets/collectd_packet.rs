//! Any bytes are read as `types.db` and a packet of collectd, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_inputs::collectd::{Protection, Reader, Types};

fuzz_target!(|input: (&str, &[u8], bool)| {
    let (text, packet, joins_values) = input;
    let mut types = Types::default();
    drop(types.add(text));
    let reader = Reader { types, protection_min: Protection::None, joins_values };
    let _ = reader.read(packet, &mut |user| Some(user.to_owned()), &mut |point| drop(point));
});
