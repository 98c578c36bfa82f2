//! Files of every format version keep being read. `cargo test -p nyala-engine --test durability -- --ignored
//! write_formats` wrote them; a new version adds a directory and leaves the old ones alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::manifest_log::{self, ManifestLog};
use nyala_engine::wal::{self, SyncPolicy, Wal};

use crate::support::options;

fn kept(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/log-v{version}"))
}

fn record(sequence: u64) -> Vec<u8> {
    (0..sequence * 13).map(|at| (at * sequence) as u8).collect()
}

#[test]
fn every_version_is_read() {
    (1..=2).for_each(read);
}

fn read(version: u32) {
    let fs: FsRef = Arc::new(RealFs);
    let mut next = 1;
    let report = wal::replay(&fs, &kept(version), 1, &mut |found| {
        assert_eq!((found.sequence, &found.payload[..]), (next, &record(next)[..]));
        next += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!((report.records, report.segments, report.damage, report.torn), (20, 3, vec![], None));
    let manifest = manifest_log::load(&fs, &kept(version)).unwrap().unwrap();
    assert_eq!(manifest.checkpoint, b"the state"[..]);
    assert_eq!(manifest.edits, [b"one edit".to_vec(), vec![], b"a third".to_vec()]);
    assert!(!manifest.torn);
}

#[test]
#[ignore = "writes the kept files of the version that this program writes"]
fn write_formats() {
    let fs: FsRef = Arc::new(RealFs);
    let dir = kept(2);
    fs.create_dirs(&dir).unwrap();
    let (wal, _) =
        Wal::open(fs.clone(), &dir, options(SyncPolicy::Always, 1536), 1, &mut |_| Ok(())).unwrap();
    for sequence in 1..=20 {
        wal.append(vec![record(sequence).into()]).unwrap();
    }
    drop(wal);
    let mut manifest = ManifestLog::begin(fs, &dir, b"the state", 0).unwrap();
    for edit in [&b"one edit"[..], b"", b"a third"] {
        manifest.append(edit).unwrap();
    }
}
