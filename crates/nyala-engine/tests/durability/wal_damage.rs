//! Rotten bytes are found and named, and cost only their own record; no bytes cause a panic.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nyala_engine::fs::{Access, Fault, FileSystem, SimulatedFs};
use nyala_engine::wal::{self, SyncPolicy};

use crate::support::{DIR, Random, disk, open, options, replay};

fn segment(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("{number:020}.wal"))
}

/// Three segments with their ends, closed properly, and the records in them. Every length has another padding.
fn three_segments() -> (SimulatedFs, Vec<u64>, BTreeMap<u64, Bytes>) {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 1024));
    let mut ends = Vec::new();
    let mut index = 0_u8;
    while wal.stats().segments < 3 || ends.len() < 4 {
        let before = (wal.stats().segments, wal.size_bytes());
        wal.append(vec![vec![index; 20 + usize::from(index) * 7].into()]).unwrap();
        index += 1;
        if wal.stats().segments != before.0 && before.0 > 0 && before.1 > 0 {
            ends.push(before.1 - ends.iter().sum::<u64>());
        }
        if wal.stats().segments == 3 && ends.len() == 2 {
            wal.append(vec![b"last but one"[..].into()]).unwrap();
            wal.append(vec![b"last"[..].into()]).unwrap();
            ends.push(wal.size_bytes() - ends.iter().sum::<u64>());
            break;
        }
    }
    drop(wal);
    let (records, report) = replay(&fs, 1);
    assert_eq!((report.damage, report.torn, report.segments), (vec![], None, 3));
    (fs, ends, records)
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_costs_one_record() {
    let (fs, ends, records) = three_segments();
    let mut random = Random::new(1);
    for (index, &end) in ends.iter().enumerate() {
        let path = segment(index as u64 + 1);
        for byte in 0..end {
            let disk = fs.snapshot();
            disk.flip_bit(&path, byte * 8 + random.below(8)).unwrap();
            let (left, report) = replay(&disk, 1);
            let [damage] = &report.damage[..] else {
                panic!("byte {byte} of {}: {report:?}", path.display())
            };
            assert_eq!(damage.file, path);
            assert!(damage.offset <= byte, "{damage}");
            assert_eq!(report.damage_count, 1);
            assert_eq!(report.last_sequence, records.len() as u64);
            assert!(left.iter().all(|(sequence, payload)| records[sequence] == payload));
            let lost = records.len() - left.len();
            assert_eq!(lost, usize::from(byte >= 64), "byte {byte}");
            // Damage is still reported after the log went on.
            if byte % 5 == 0 {
                let wal = open(&disk, options(SyncPolicy::Always, 1024));
                assert_eq!(wal.append(vec![b"next"[..].into()]).unwrap(), records.len() as u64 + 1);
                drop(wal);
                let (later, report) = replay(&disk, 1);
                assert_eq!(later.len(), left.len() + 1);
                assert_eq!(report.damage.len(), 1, "byte {byte} of {}: {report:?}", path.display());
            }
        }
    }
}

#[test]
fn a_flipped_end_mark_loses_nothing_and_is_noticed() {
    let (fs, ends, records) = three_segments();
    for bit in 0..32 * 8 {
        let disk = fs.snapshot();
        disk.flip_bit(&segment(3), ends[2] * 8 + bit).unwrap();
        let (left, report) = replay(&disk, 1);
        assert_eq!((&left, &report.damage), (&records, &vec![]));
        assert_eq!(report.torn, Some((segment(3), ends[2])));
    }
}

#[test]
fn damage_is_told_from_a_torn_tail_after_a_kill_too() {
    // No orderly close: the unsynced end mark is in the file all the same.
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 4096));
    for sequence in 1..=3 {
        assert_eq!(wal.append(vec![b"payload"[..].into()]).unwrap(), sequence);
    }
    // The mark follows the acknowledgement; this waits for it.
    wal.sync().unwrap();
    let killed = fs.snapshot();
    killed.flip_bit(&segment(1), (64 + 2 * 40 + 33) * 8).unwrap();
    let (left, report) = replay(&killed, 1);
    assert_eq!((left.len(), report.damage.len()), (2, 1));
    assert_eq!(report.last_sequence, 3, "the sequence of the lost record is not given out again");
}

#[test]
fn a_missing_segment_is_reported_unless_it_is_not_needed() {
    let (fs, _, records) = three_segments();
    for number in [1, 2] {
        let disk = fs.snapshot();
        disk.remove(&segment(number)).unwrap();
        let (left, report) = replay(&disk, 1);
        assert!(left.len() < records.len());
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert_eq!(report.damage[0].file, segment(number + 1));
        let last = *records.keys().next_back().unwrap();
        assert_eq!(replay(&disk, last).1.damage, []);
    }
}

#[test]
fn a_shortened_segment_is_damaged() {
    let (fs, ends, records) = three_segments();
    for cut in (0..ends[0]).step_by(3) {
        let disk = fs.snapshot();
        disk.open(&segment(1), Access::Write).unwrap().truncate(cut).unwrap();
        let (left, report) = replay(&disk, 1);
        assert!(left.len() < records.len());
        assert!(report.damage.iter().all(|damage| damage.file == segment(1)));
        assert!(!report.damage.is_empty(), "cut at {cut}");
    }
}

#[test]
fn an_unreadable_range_costs_its_records_and_is_named() {
    let fs = disk();
    let wal = open(&fs, options(SyncPolicy::Always, 60_000));
    for index in 0..50 {
        wal.append(vec![vec![index; 1000].into()]).unwrap();
    }
    wal.sync().unwrap();
    let killed = fs.snapshot();
    killed.inject(Fault::Read { path: segment(1), range: 20_000..20_001 });
    let (left, report) = replay(&killed, 1);
    assert!((44..50).contains(&left.len()), "{}", left.len());
    assert!(report.damage.iter().all(|damage| damage.message.contains("injected fault")), "{report:?}");
    // The last record: what cannot be read is not taken for the end of the log.
    killed.clear_faults();
    killed.inject(Fault::Read { path: segment(1), range: 51_000..60_000 });
    let (left, report) = replay(&killed, 1);
    assert!(left.len() < 50);
    assert_eq!(report.damage.len(), 1);
}

#[test]
fn a_segment_of_a_newer_program_is_refused_not_damaged() {
    let (fs, _, _) = three_segments();
    let file = fs.open(&segment(2), Access::Write).unwrap();
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).unwrap();
    header[8] = 3;
    let crc = crc32fast::hash(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(&header, 0).unwrap();
    let fs: nyala_engine::fs::FsRef = std::sync::Arc::new(fs);
    let error = wal::verify(&fs, Path::new(DIR), 1).unwrap_err();
    assert_eq!(error.kind(), nyala_core::ErrorKind::Unsupported, "{error}");
}

#[test]
fn arbitrary_bytes_are_no_panic() {
    let (fs, ends, _) = three_segments();
    let mut good = vec![0; ends[0] as usize + 200];
    fs.open(&segment(1), Access::Read).unwrap().read_at(&mut good, 0).unwrap();
    let mut random = Random::new(3);
    for _ in 0..3000 {
        let mut bytes = good.clone();
        match random.below(3) {
            0 => bytes = (0..random.below(300)).map(|_| random.next() as u8).collect(),
            1 => bytes.truncate(random.below(good.len() as u64) as usize),
            _ => {}
        }
        for _ in 0..random.below(6) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = [0, 0xFF, random.next() as u8][random.below(3) as usize];
            }
        }
        let report = wal::decode(&bytes);
        assert!(report.is_err() || report.is_ok_and(|report| report.records < 30));
    }
}
