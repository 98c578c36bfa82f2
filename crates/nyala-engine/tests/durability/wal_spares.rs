//! Segments that were given up and wait to be written again.

use std::path::Path;

use nyala_engine::fs::{FileSystem, SimulatedFs};
use nyala_engine::wal::{SyncPolicy, Wal, WalOptions};

use crate::support::{DIR, disk, open, options};

const SEGMENT_BYTES: u64 = 8192;

fn append(wal: &Wal, bytes: u64) {
    wal.append(vec![vec![7; bytes as usize].into()]).unwrap();
}

fn spares(fs: &SimulatedFs) -> Vec<String> {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".spare")).collect()
}

#[test]
fn a_disk_that_is_nearly_full_keeps_none() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, SEGMENT_BYTES));
    append(&wal, 10);
    fs.set_space(Some(fs.used_bytes() + 4 * SEGMENT_BYTES));
    append(&wal, SEGMENT_BYTES / 2);
    append(&wal, SEGMENT_BYTES / 2);
    wal.truncate_before(wal.next_sequence()).unwrap();
    drop(wal);
    assert_eq!(spares(&fs), Vec::<String>::new());
}

#[test]
fn segments_that_were_given_up_stay_within_what_may_be_kept() {
    let fs = disk();
    let kept_bytes = 3 * SEGMENT_BYTES;
    let wal = open(&fs, WalOptions { kept_bytes, ..options(SyncPolicy::Always, SEGMENT_BYTES) });
    for _ in 0..8 {
        append(&wal, SEGMENT_BYTES - 200);
    }
    wal.truncate_before(wal.next_sequence() - 1).unwrap();
    assert_eq!(spares(&fs).len(), 2, "beside the one that is written");
}
