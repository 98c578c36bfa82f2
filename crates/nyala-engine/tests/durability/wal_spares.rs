//! Segments that are made before they are needed.

use std::path::Path;

use nyala_engine::fs::{FileSystem, SimulatedFs};
use nyala_engine::wal::{SyncPolicy, Wal, WalOptions};

use crate::support::{DIR, disk, eventually, open, options, replay};

const SEGMENT_BYTES: u64 = 8192;

fn making_spares() -> WalOptions {
    WalOptions { makes_spares: true, ..options(SyncPolicy::Always, SEGMENT_BYTES) }
}

fn append(wal: &Wal, bytes: u64) {
    wal.append(vec![vec![7; bytes as usize].into()]).unwrap();
}

fn spares(fs: &SimulatedFs) -> Vec<String> {
    let names = fs.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".spare")).collect()
}

#[test]
fn the_next_segment_is_made_before_it_is_begun() {
    let fs = disk();
    let wal = open(&fs, making_spares());
    append(&wal, 10);
    assert_eq!(spares(&fs), Vec::<String>::new(), "the first record needs none");
    append(&wal, SEGMENT_BYTES / 2);
    eventually("a spare", || spares(&fs) == ["made-1.spare"]);
    // Does not fit: the spare becomes the next segment, and another one is wanted at once.
    append(&wal, SEGMENT_BYTES / 2);
    assert_eq!(wal.stats().segments, 2);
    eventually("the next spare", || spares(&fs) == ["made-2.spare"]);
    drop(wal);
    assert_eq!(replay(&fs, 1).0.len(), 3);
}

#[test]
fn a_log_at_rest_keeps_none() {
    let fs = disk();
    let wal = open(&fs, making_spares());
    append(&wal, SEGMENT_BYTES / 2);
    eventually("a spare", || !spares(&fs).is_empty());
    wal.rest(wal.next_sequence(), 0).unwrap();
    assert_eq!(spares(&fs), Vec::<String>::new());
    append(&wal, SEGMENT_BYTES / 2);
    // Given up while it is being made, perhaps.
    wal.rest(wal.next_sequence(), 0).unwrap();
    eventually("no spare", || spares(&fs).is_empty());
}

#[test]
fn a_disk_that_is_nearly_full_keeps_none() {
    let fs = disk();
    let wal = open(&fs, making_spares());
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
