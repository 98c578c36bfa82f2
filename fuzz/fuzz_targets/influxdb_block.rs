//! Any bytes are decoded as a block of a TSM file, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_influxdb::tsm::block::{Scratch, count, decode};
use nyala_influxdb::values::{Kind, Points};

fuzz_target!(|bytes: &[u8]| {
    let Some(kind) = bytes.first().and_then(|kind| Kind::of_block(*kind)) else { return };
    let mut points = Points::new(kind);
    if decode(bytes, &mut Scratch::default(), &mut points).is_ok() {
        assert_eq!(points.values.len(), points.len());
        assert_eq!(count(bytes).ok(), Some(points.len()));
    }
});
