//! Directories that an import reads: of InfluxDB 2.x, and portable backups.

use flate2::Compression;
use flate2::write::GzEncoder;
use nyala_influxdb::DamageList;
use nyala_influxdb::bolt::BoltFile;
use nyala_influxdb::shard::{FieldValues, RowTarget, read_shard};
use nyala_influxdb::source;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Where the settings of InfluxDB 2.x say what they are: behind the header of the first page.
const META: usize = 16;
const META_BYTES: usize = 64;

/// Takes anything.
struct Anything;

impl RowTarget for Anything {
    type Error = Infallible;

    fn rows(&mut self, _: &[u8], _: &[i64], _: &[FieldValues<'_>]) -> Result<(), Infallible> {
        Ok(())
    }

    fn read(&mut self, _: u64) {}
}

/// Reads bytes as `influxd.bolt`: as they are, and with a first page that is right.
///
/// # Panics
/// The bytes cause one.
pub fn run_bolt(bytes: &[u8]) {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir_all(root.path().join("engine/data/d/autogen/1")).expect("created");
    let path = root.path().join("influxd.bolt");
    for bytes in [bytes.to_vec(), with_meta(bytes)] {
        fs::write(&path, bytes).expect("written");
        if let Ok(file) = BoltFile::open(&path) {
            let _ = file.bucket(b"bucketsv1");
        }
        let _ = source::contents(root.path(), None, &mut DamageList::default());
    }
}

/// The same bytes, the first page of which is a meta of pages of 1 KiB whose checksum is right: nobody guesses one.
fn with_meta(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    file.resize(file.len().max(META + META_BYTES), 0);
    let meta = &mut file[META..META + META_BYTES];
    meta[..4].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
    meta[4..8].copy_from_slice(&2_u32.to_le_bytes());
    meta[8..12].copy_from_slice(&1024_u32.to_le_bytes());
    let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let checksum = meta[..56].iter().fold(0xcbf2_9ce4_8422_2325, fold);
    meta[56..].copy_from_slice(&checksum.to_le_bytes());
    file
}

/// Reads a backup: its manifest up to the end of a line, its settings behind their length in a byte, and an archive `a.tar.gz` before
/// it is compressed. Nothing of it leads elsewhere.
///
/// # Panics
/// What must hold does not.
pub fn run_backup(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (manifest, rest) = bytes.split_at(end);
    let Some(([_, length], rest)) = rest.split_first_chunk::<2>() else { return };
    let (meta, archive) = rest.split_at(usize::from(*length).min(rest.len()));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(archive).expect("in memory");
    let packed = packed.finish().expect("in memory");

    let root = tempfile::tempdir().expect("a directory");
    let (backup, spill) = (root.path().join("backup"), root.path().join("spill"));
    for directory in [&backup, &spill] {
        fs::create_dir(directory).expect("created");
    }
    for (name, bytes) in [("a.manifest", manifest), ("a.meta", meta), ("a.tar.gz", &packed[..])] {
        fs::write(backup.join(name), bytes).expect("written");
    }
    let mut damage = DamageList::default();
    if let Ok(contents) = source::contents(&backup, None, &mut damage) {
        for shard in contents.shards {
            let Ok(()) = read_shard(&shard, i64::MIN..=i64::MAX, &spill, &mut damage, &mut Anything);
        }
    }
    let entries = |directory: &Path| fs::read_dir(directory).expect("it is there").count();
    assert_eq!((entries(root.path()), entries(&backup), entries(&spill)), (2, 3, 0));
}

/// An input to begin with: a backup whose archive has nothing.
#[must_use]
pub fn backup_seed() -> Vec<u8> {
    let files =
        r#"{"database":"d","policy":"p","shardID":7,"fileName":"a.tar.gz","size":1024,"lastModified":5}"#;
    let manifest =
        format!(r#"{{"meta":{{"fileName":"a.meta","size":1}},"limited":false,"files":[{files}]}}"#);
    // Field 1 of the settings, of no bytes.
    [manifest.as_bytes(), &b"\n\x02\x0a\0"[..], &[0; 1024][..]].concat()
}
