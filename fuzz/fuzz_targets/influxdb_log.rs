//! Any bytes are read as a segment of InfluxDB's log, as an entry of it and as its settings, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_influxdb::values::{Kind, Points};
use nyala_influxdb::wal::entry::{LogTarget, decode};
use nyala_influxdb::wal::segment::read_entries;

#[derive(Default)]
struct Ignored(Option<Points>);

impl LogTarget for Ignored {
    fn points(&mut self, _: &[u8], kind: Kind) -> &mut Points {
        self.0.insert(Points::new(kind))
    }

    fn delete(&mut self, _: &[u8], _: i64, _: i64) {}
}

fuzz_target!(|bytes: &[u8]| {
    let _ = read_entries(bytes, &mut 0, &mut Ignored::default());
    let _ = nyala_influxdb::meta::decode(bytes);
    if let Some((entry_type, entry)) = bytes.split_first() {
        let _ = decode(*entry_type, entry, &mut Ignored::default());
    }
});
