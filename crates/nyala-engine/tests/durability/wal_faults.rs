//! Syncs and writes that fail, disks that are full.

use std::path::Path;
use std::sync::{Arc, Barrier, Once};

use nyala_core::ErrorKind;
use nyala_engine::fs::{Access, Fault, FileSystem, SimulatedFs};
use nyala_engine::wal::{SyncPolicy, Wal};
use parking_lot::Mutex;

use crate::support::{DIR, Knowledge, Workload, disk, open, options, payload, replay, seeds};

#[test]
fn failures_of_every_kind_and_then_a_crash() {
    for seed in seeds(0, 12) {
        let mut workload = Workload::new(seed, SyncPolicy::Always);
        workload.crash_everywhere();
        for _ in 0..40 {
            let skip = workload.random.below(4);
            match workload.random.below(25) {
                0 | 1 => workload.fs.inject(Fault::Sync { skip }),
                2 => workload.fs.inject(Fault::SyncDir { skip: 0 }),
                3 | 4 => {
                    let written = workload.random.below(300) as usize;
                    workload.fs.inject(Fault::Write { skip, written });
                }
                5 => {
                    let room = workload.random.below(20_000);
                    workload.fs.set_space(Some(workload.fs.used_bytes() + room));
                }
                6 | 7 => workload.fs.set_space(None),
                8 => {
                    workload.fs.clear_faults();
                    workload.truncate();
                }
                9 => {
                    workload.fs.clear_faults();
                    workload.close();
                    // Opening writes the tail again, which must not fail here.
                    workload.wal();
                }
                10 => {
                    workload.fs.clear_faults();
                    workload.kill();
                    workload.wal();
                }
                11 => workload.rest(),
                _ => workload.append(),
            }
        }
        workload.fs.clear_faults();
        workload.fs.set_space(None);
        // It works again without a restart.
        let before = workload.knowledge.lock().acknowledged.len();
        workload.append();
        assert!(workload.knowledge.lock().acknowledged.len() > before, "seed {seed}");
        workload.close();
        workload.check_crashes();
    }
}

fn append(wal: &Wal, index: u64) -> nyala_core::Result<u64> {
    wal.append(vec![payload(9, index).into()])
}

fn crash_often(fs: &SimulatedFs, check: impl Fn(&SimulatedFs)) {
    (0..20).for_each(|seed| check(&fs.crash(seed)));
}

#[test]
fn a_failed_sync_is_an_unknown_outcome_and_the_log_goes_on_in_a_new_segment() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 100_000));
    let mut known = Knowledge::default();
    for index in 0..20 {
        let sequence = wal.next_sequence();
        if index % 5 == 4 {
            fs.inject(Fault::Sync { skip: 0 });
        }
        let outcome = append(&wal, index);
        assert_eq!(
            outcome.as_ref().err().map(nyala_core::Error::kind),
            (index % 5 == 4).then_some(ErrorKind::Unknown)
        );
        known.submitted.insert(sequence, index);
        known.settle(sequence, outcome);
        crash_often(&fs, |crashed| known.check(9, crashed, SyncPolicy::Always));
    }
    let stats = wal.stats();
    assert_eq!((stats.failed_syncs, stats.segments_begun, stats.records), (4, 4, 16));
}

#[test]
fn nothing_is_acknowledged_until_the_log_could_be_reopened() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 100_000));
    append(&wal, 0).unwrap();
    fs.inject(Fault::Sync { skip: 0 });
    assert_eq!(append(&wal, 1).unwrap_err().kind(), ErrorKind::Unknown);
    // The new segment cannot be synced either, then its name.
    fs.inject(Fault::Sync { skip: 0 });
    assert_eq!(append(&wal, 2).unwrap_err().kind(), ErrorKind::Retry);
    fs.inject(Fault::SyncDir { skip: 0 });
    assert!(wal.reopen().is_err());
    crash_often(&fs, |crashed| {
        let (records, report) = replay(crashed, 1);
        assert!(records.contains_key(&1) && !records.contains_key(&3));
        assert_eq!(report.damage, []);
    });
    wal.reopen().unwrap();
    assert_eq!(append(&wal, 3).unwrap(), 4);
    crash_often(&fs, |crashed| {
        let (records, report) = replay(crashed, 1);
        assert_eq!((records.keys().copied().collect::<Vec<_>>(), report.damage), (vec![1, 4], vec![]));
    });
}

#[test]
fn what_was_cut_off_does_not_come_back_when_its_segment_is_given_up() {
    // The number of operations decides what the failed sync leaves.
    for before in 1..9 {
        let fs = disk();
        let wal = open(&fs, options(SyncPolicy::Always, 8192));
        let append = |bytes: usize| wal.append(vec![vec![7; bytes].into()]);
        // So much that the segment is not cut to its length.
        (0..before).for_each(|_| assert!(append(7200 / before).is_ok()));
        fs.inject(Fault::Sync { skip: 0 });
        assert_eq!(append(100).unwrap_err().kind(), ErrorKind::Unknown);
        let cut_off = before as u64 + 1;
        assert_eq!((append(8000).unwrap(), append(8000).unwrap()), (cut_off + 1, cut_off + 2));
        assert_eq!(wal.stats().segments, 3);
        let crashes = Arc::<Mutex<Vec<SimulatedFs>>>::default();
        let crashed = crashes.clone();
        fs.on_operation(move |fs, _| crashed.lock().extend((0..50).map(|seed| fs.crash(seed))));
        wal.truncate_before(cut_off + 2).unwrap();
        drop(wal);
        for disk in crashes.lock().iter() {
            assert_eq!(replay(disk, cut_off).0.get(&cut_off), None);
        }
        assert!(crashes.lock().len() > 100);
    }
}

#[test]
fn pages_lost_by_a_failed_sync_are_not_vouched_for_after_a_kill() {
    // The process reads its tail from memory; the disk does not have it, and no later sync says so.
    for before in 1..9 {
        let fs = disk();
        let wal = open(&fs, options(SyncPolicy::Always, 100_000));
        // The number of operations decides what the failed sync leaves.
        (0..before).for_each(|index| assert_eq!(append(&wal, index).unwrap(), index + 1));
        fs.inject(Fault::Sync { skip: 0 });
        append(&wal, 10).unwrap_err();
        let killed = fs.snapshot();
        let seen = replay(&killed, 1).0;
        let second = open(&killed, options(SyncPolicy::Always, 100_000));
        let sequence = append(&second, 11).unwrap();
        crash_often(&killed, |crashed| {
            let (records, report) = replay(crashed, 1);
            assert_eq!(report.damage, []);
            assert!(records.contains_key(&sequence));
            assert!(seen.keys().all(|sequence| records.contains_key(sequence)), "what was recovered stays");
        });
    }
}

#[test]
fn a_full_disk_refuses_and_recovers_without_a_restart() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 16_384));
    let mut known = Knowledge::default();
    let mut refused = 0;
    fs.set_space(Some(3 * 16_384));
    for index in 0..300 {
        let sequence = wal.next_sequence();
        let outcome = append(&wal, index);
        refused += u64::from(outcome.is_err());
        known.submitted.insert(sequence, index);
        known.settle(sequence, outcome);
        if index == 200 {
            assert!(refused > 0);
            fs.set_space(None);
        }
    }
    assert!(known.unknown.is_empty(), "a full disk leaves no doubt");
    assert!(known.refused.iter().all(|sequence| *sequence <= 201));
    crash_often(&fs, |crashed| known.check(9, crashed, SyncPolicy::Always));
}

#[test]
fn a_log_opens_on_a_full_disk() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 16_384));
    append(&wal, 0).unwrap();
    drop(wal);
    fs.set_space(Some(fs.used_bytes()));
    let wal = open(&fs, options(SyncPolicy::Always, 16_384));
    assert_eq!(append(&wal, 1).unwrap_err().kind(), ErrorKind::Retry);
    fs.set_space(None);
    append(&wal, 2).unwrap();
}

#[test]
fn a_failed_write_stores_nothing_and_says_so() {
    for written in [0, 1, 31, 32, 33, 200, 1_000_000] {
        let fs = disk();
        let wal = open(&fs, options(SyncPolicy::Always, 100_000));
        append(&wal, 0).unwrap();
        // The end mark is written behind the acknowledgement; this waits for it.
        wal.sync().unwrap();
        fs.inject(Fault::Write { skip: 0, written });
        assert_eq!(append(&wal, 1).unwrap_err().kind(), ErrorKind::Retry);
        let check = |crashed: &SimulatedFs| {
            let (records, report) = replay(crashed, 1);
            assert_eq!((records.keys().copied().collect::<Vec<_>>(), report.damage), (vec![1], vec![]));
        };
        crash_often(&fs, check);
        check(&fs.snapshot());
        assert_eq!(append(&wal, 2).unwrap(), 3);
    }
}

#[test]
fn doubtful_records_of_a_relaxed_policy_are_counted() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Never, 100_000));
    append(&wal, 0).unwrap();
    append(&wal, 1).unwrap();
    fs.inject(Fault::Sync { skip: 0 });
    assert_eq!(wal.sync().unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(wal.stats().doubtful_records, 2);
    append(&wal, 2).unwrap();
    wal.sync().unwrap();
    crash_often(&fs, |crashed| {
        let (records, report) = replay(crashed, 1);
        assert_eq!((records.keys().copied().collect::<Vec<_>>(), report.damage), (vec![3], vec![]));
    });
}

#[test]
fn too_much_at_once_is_refused() {
    let fs = disk();
    let mut options = options(SyncPolicy::Always, 100_000);
    options.queue_bytes = 10_000;
    let wal = open(&fs, options);
    let (entered, gate) = stop_next_operation(&fs);
    let first = wal.submit(vec![vec![0; 10].into()]).unwrap();
    entered.wait();
    // The disk stands still now; `first` waits for its segment.
    let second = wal.submit(vec![vec![0; 9_000].into()]).unwrap();
    assert_eq!(wal.submit(vec![vec![0; 1_000].into()]).unwrap_err().kind(), ErrorKind::Retry);
    gate.wait();
    first.wait().unwrap();
    second.wait().unwrap();
    wal.append(vec![vec![0; 20_000].into()]).unwrap();
}

/// Holds the disk before its next change: the first barrier says that it stands, the second lets it go on.
fn stop_next_operation(fs: &SimulatedFs) -> (Arc<Barrier>, Arc<Barrier>) {
    let barriers = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (entered, gate) = barriers.clone();
    let once = Once::new();
    fs.on_operation(move |_, _| {
        once.call_once(|| {
            entered.wait();
            gate.wait();
        });
    });
    barriers
}

#[test]
fn after_a_segment_that_was_perhaps_begun_nothing_goes_into_the_one_before() {
    // Its header may be on disk under its name, and says how much of the one before counts.
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 4096));
    wal.append(vec![vec![1; 2000].into()]).unwrap();
    fs.inject(Fault::SyncDir { skip: 0 });
    assert_eq!(wal.append(vec![vec![2; 3000].into()]).unwrap_err().kind(), ErrorKind::Retry);
    // This one would fit.
    wal.append(vec![vec![3; 10].into()]).unwrap();
    crash_often(&fs, |crashed| {
        let (records, report) = replay(crashed, 1);
        assert_eq!((records.keys().copied().collect::<Vec<_>>(), report.damage), (vec![1, 3], vec![]));
    });
}

#[test]
fn what_was_refused_stays_away_even_where_bytes_rot() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 4096));
    wal.append(vec![vec![1; 40].into()]).unwrap();
    wal.sync().unwrap();
    let (entered, gate) = stop_next_operation(&fs);
    let second = wal.submit(vec![vec![2; 40].into()]).unwrap();
    entered.wait();
    // These make one group, which is written whole before the write fails.
    let refused: Vec<_> = [3, 4, 5].map(|byte| wal.submit(vec![vec![byte; 40].into()]).unwrap()).into();
    fs.inject(Fault::Write { skip: 1, written: 1000 });
    gate.wait();
    second.wait().unwrap();
    assert!(refused.into_iter().all(|ticket| ticket.wait().unwrap_err().kind() == ErrorKind::Retry));
    assert_eq!(wal.append(vec![vec![6; 40].into()]).unwrap(), 6);
    drop(wal);
    let (records, _) = replay(&fs, 1);
    assert_eq!(records.keys().copied().collect::<Vec<_>>(), [1, 2, 6]);
    for segment in 1..=fs.list(Path::new(DIR)).unwrap().len() {
        let path = Path::new(DIR).join(format!("{segment:020}.wal"));
        let length = fs.open(&path, Access::Read).unwrap().length().unwrap();
        for byte in 0..length.min(500) {
            let rotten = fs.snapshot();
            rotten.flip_bit(&path, byte * 8).unwrap();
            let (records, _) = replay(&rotten, 1);
            assert!(records.range(3..6).next().is_none(), "byte {byte} of segment {segment}");
        }
    }
}
