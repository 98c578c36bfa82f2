//! The power fails before every change of the disk that a random workload makes.

use std::path::Path;
use std::time::Duration;

use nyala_engine::fs::{Access, FileSystem};
use nyala_engine::wal::SyncPolicy;

use crate::support::{DIR, Knowledge, Workload, disk, eventually, open, options, payload, replay, seeds};

fn run(seed: u64, sync: SyncPolicy) {
    let mut workload = Workload::new(seed, sync);
    workload.crash_everywhere();
    for _ in 0..30 {
        match workload.random.below(20) {
            0 => workload.truncate(),
            1 => workload.close(),
            2 => workload.kill(),
            3 if sync != SyncPolicy::Always => workload.wal().sync().unwrap(),
            4 => workload.rest(),
            _ => workload.append(),
        }
    }
    workload.close();
    workload.check_crashes();
}

#[test]
fn acknowledged_records_survive_a_power_cut_at_every_moment() {
    for seed in seeds(0, 12) {
        run(seed, SyncPolicy::Always);
    }
}

#[test]
fn relaxed_policies_lose_only_the_end() {
    for seed in seeds(100, 5) {
        run(seed, SyncPolicy::Never);
        run(seed, SyncPolicy::Interval(Duration::from_millis(1)));
    }
}

#[test]
fn records_synced_on_request_survive_under_relaxed_policies() {
    for seed in 0..50 {
        let fs = disk();
        let wal = open(&fs, options(SyncPolicy::Never, 8192));
        let mut known = Knowledge::default();
        for index in 0..10 {
            let sequence = wal.append(vec![payload(seed, index).into()]).unwrap();
            known.submitted.insert(sequence, index);
            known.acknowledged.insert(sequence);
        }
        wal.sync().unwrap();
        known.check(seed, &fs.crash(seed), SyncPolicy::Always);
    }
}

#[test]
fn an_interval_policy_syncs_without_further_writes() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Interval(Duration::from_millis(20)), 8192));
    wal.append(vec![b"alone"[..].into()]).unwrap();
    // The begin of the segment is not counted as a sync of records.
    eventually("the sync", || wal.stats().syncs == 1);
    for seed in 0..20 {
        assert_eq!(replay(&fs.crash(seed), 1).0[&1], b"alone"[..]);
    }
}

#[test]
fn a_tail_cut_or_zeroed_anywhere_leaves_a_prefix() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 8192));
    let mut ends = Vec::new();
    for index in 0..8 {
        wal.append(vec![vec![index as u8 + 1; 40].into()]).unwrap();
        ends.push(wal.size_bytes());
    }
    let killed = fs.snapshot();
    let (_, report) = replay(&killed, 1);
    assert_eq!((report.records, report.torn), (8, None));
    let path = Path::new(DIR).join("00000000000000000001.wal");
    for cut in 64..ends[7] + 32 {
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        for zeroed in [false, true] {
            let disk = killed.snapshot();
            let file = disk.open(&path, Access::Write).unwrap();
            let length = file.length().unwrap();
            file.truncate(cut).unwrap();
            if zeroed {
                file.truncate(length).unwrap();
            }
            let (records, report) = replay(&disk, 1);
            assert_eq!(
                records.keys().copied().collect::<Vec<_>>(),
                (1..=whole).collect::<Vec<_>>(),
                "cut at {cut}"
            );
            // A power cut leaves the file as long as it was made.
            let files: Vec<_> = report.damage.iter().map(|damage| &damage.file).collect();
            assert_eq!(files, if zeroed { vec![] } else { vec![&path] });
            // The log goes on behind the prefix, and the torn bytes never come back.
            if cut % 16 == 0 {
                let wal = open(&disk, options(SyncPolicy::Always, 8192));
                assert_eq!(wal.append(vec![b"next"[..].into()]).unwrap(), whole + 1);
                drop(wal);
                let (records, report) = replay(&disk, 1);
                assert_eq!((records.len() as u64, report.damage, report.torn), (whole + 1, vec![], None));
            }
        }
    }
}

#[test]
fn given_up_segments_are_reused_and_the_log_stays_small() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 8192));
    for index in 0..400_u64 {
        let sequence = wal.append(vec![index.to_le_bytes().to_vec().into(), vec![7; 500].into()]).unwrap();
        if index % 10 == 9 {
            wal.truncate_before(sequence).unwrap();
        }
        assert!(fs.used_bytes() <= 5 * 8192, "{} bytes", fs.used_bytes());
    }
    assert!(wal.stats().segments_begun > 20);
    let from = wal.next_sequence() - 5;
    drop(wal);
    let (records, report) = replay(&fs, from);
    assert_eq!((records.len(), report.damage), (5, vec![]));
}

#[test]
fn a_log_at_rest_takes_little_room_and_goes_on() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 64 << 20));
    for index in 0..40_u64 {
        let sequence =
            wal.append(vec![index.to_le_bytes().to_vec().into(), vec![7; 1 << 20].into()]).unwrap();
        if index % 10 == 9 {
            wal.truncate_before(sequence).unwrap();
        }
    }
    assert!(fs.used_bytes() > 30 << 20, "{} bytes", fs.used_bytes());
    let kept = wal.next_sequence() - 2;
    wal.rest(kept, 1 << 20).unwrap();
    assert!(wal.size_bytes() < 20 << 20, "segments whose records are all old are given up");
    let begun = wal.stats().segments_begun;
    wal.rest(wal.next_sequence(), 1 << 20).unwrap();
    assert_eq!(wal.stats().segments_begun, begun, "it rests already");
    assert!(fs.used_bytes() <= 1 << 20, "{} bytes", fs.used_bytes());
    let next = wal.append(vec![b"next"[..].into()]).unwrap();
    drop(wal);
    let (records, report) = replay(&fs, next);
    assert_eq!((records.len(), report.damage), (1, vec![]));
}

#[test]
fn an_empty_log_knows_where_sequences_go_on() {
    let fs = disk();
    let first_sequence = 500;
    let wal =
        open(&fs, nyala_engine::wal::WalOptions { first_sequence, ..options(SyncPolicy::Always, 8192) });
    assert_eq!(wal.append(vec![b"a"[..].into()]).unwrap(), 500);
    drop(wal);
    let wal = open(&fs, options(SyncPolicy::Always, 8192));
    assert_eq!(wal.append(vec![b"b"[..].into()]).unwrap(), 501);
    drop(wal);
    assert_eq!(replay(&fs, 500).1.damage, []);
}
