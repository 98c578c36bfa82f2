//! Any bytes are read as a shard with one TSM file and its tombstones, and what is read ascends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_influxdb::DamageList;
use nyala_influxdb::directory::ShardFiles;
use nyala_influxdb::shard::{FieldValues, RowTarget, read_shard};
use std::convert::Infallible;

struct Checked;

impl RowTarget for Checked {
    type Error = Infallible;

    fn rows(&mut self, _: &[u8], times_ns: &[i64], fields: &[FieldValues<'_>]) -> Result<(), Infallible> {
        assert!(times_ns.is_sorted_by(|left, right| left < right));
        for field in fields {
            let rows = field.present.map_or(times_ns.len(), |own| own.iter().filter(|own| **own).count());
            assert_eq!(field.range.len(), rows);
        }
        Ok(())
    }

    fn read(&mut self, _: u64) {}
}

fuzz_target!(|parts: (&[u8], &[u8])| {
    let root = tempfile::tempdir().expect("a directory");
    let file = root.path().join("000000001-000000001.tsm");
    // A file with right checksums cannot be guessed: the header and the place of the index are given.
    let (blocks, index) = parts;
    let mut bytes = vec![0x16, 0xD1, 0x16, 0xD1, 1];
    bytes.extend_from_slice(&crc32fast::hash(blocks).to_be_bytes());
    bytes.extend_from_slice(blocks);
    let index_offset = bytes.len() as u64;
    bytes.extend_from_slice(index);
    bytes.extend_from_slice(&index_offset.to_be_bytes());
    std::fs::write(&file, bytes).expect("written");
    std::fs::write(file.with_extension("tombstone"), blocks).expect("written");
    let shard = ShardFiles {
        database: String::new(),
        policy: String::new(),
        id: 1,
        files: vec![file],
        log: Vec::new(),
        archive: None,
        bytes: 0,
        fingerprint: 0,
    };
    let Ok(()) = read_shard(&shard, i64::MIN..=i64::MAX, root.path(), &mut DamageList::default(), &mut Checked);
});
