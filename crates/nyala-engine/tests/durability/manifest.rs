//! The manifest under power cuts, failures and rot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nyala_core::ErrorKind;
use nyala_engine::fs::{Access, Fault, FileSystem, SimulatedFs};
use nyala_engine::manifest_log::{self, ManifestLog};
use parking_lot::Mutex;

use crate::support::{DIR, Random, disk, fs_ref, seeds};

/// A state is the list of edits that made it; a checkpoint is that list in bytes.
type State = Vec<u32>;

fn encode(state: &[u32]) -> Vec<u8> {
    state.iter().flat_map(|edit| edit.to_le_bytes()).collect()
}

/// An edit of any length that says which one it is.
fn edit(number: u32) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(4 + number as usize % 700, 9);
    bytes
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

fn load(fs: &SimulatedFs) -> Option<State> {
    let loaded = manifest_log::load(&fs_ref(fs), Path::new(DIR)).unwrap()?;
    let mut state: State = loaded.checkpoint.chunks(4).map(number).collect();
    state.extend(loaded.edits.iter().map(|bytes| number(bytes)));
    Some(state)
}

fn begin(fs: &SimulatedFs, state: &[u32]) -> nyala_core::Result<ManifestLog> {
    let loaded = manifest_log::load(&fs_ref(fs), Path::new(DIR)).unwrap();
    let revision = loaded.map_or(0, |manifest| manifest.revision);
    ManifestLog::begin(fs_ref(fs), Path::new(DIR), &encode(state), revision)
}

/// What a crash may leave: the state before the step under way or the one after.
#[derive(Debug, Clone, Default)]
struct Possible {
    before: Option<State>,
    after: Option<State>,
}

fn run(seed: u64, with_faults: bool) {
    let fs = disk();
    let mut random = Random::new(seed);
    let possible = Arc::new(Mutex::new(Possible::default()));
    let crashed = Arc::new(Mutex::new(Vec::new()));
    fs.on_operation({
        let (possible, crashed) = (possible.clone(), crashed.clone());
        move |fs, operation| {
            let known = possible.lock().clone();
            crashed.lock().push((fs.crash(seed ^ (operation.index << 20)), known));
        }
    });
    let set = |before: Option<&State>, after: &State| {
        *possible.lock() = Possible { before: before.cloned(), after: Some(after.clone()) };
    };
    let mut state: State = Vec::new();
    set(None, &state);
    let mut log = begin(&fs, &state).unwrap();
    // Failed edits stay possible until a checkpoint.
    let mut doubt: Option<State> = None;
    for number in 0..60 {
        if with_faults && random.below(5) == 0 {
            let skip = random.below(3);
            fs.inject(match random.below(3) {
                0 => Fault::Sync { skip },
                1 => Fault::SyncDir { skip: 0 },
                _ => Fault::Write { skip, written: random.below(800) as usize },
            });
        }
        match random.below(10) {
            0 => {
                set(Some(doubt.as_ref().unwrap_or(&state)), &state);
                if log.checkpoint(&encode(&state), 0).is_ok() {
                    doubt = None;
                    set(Some(&state), &state);
                }
            }
            1 => {
                fs.clear_faults();
                drop(log);
                let found = load(&fs).unwrap();
                assert!(found == state || Some(&found) == doubt.as_ref(), "{found:?}");
                set(Some(doubt.as_ref().unwrap_or(&state)), &state);
                // A killed process' successor takes what it finds.
                if found != state {
                    state = found;
                }
                log = begin(&fs, &state).unwrap();
                doubt = None;
                set(Some(&state), &state);
            }
            _ => {
                let mut next = state.clone();
                next.push(number);
                if doubt.is_none() {
                    set(Some(&state), &next);
                }
                match log.append(&edit(number)) {
                    Ok(()) => {
                        assert_eq!(doubt, None, "no edit before a checkpoint");
                        state = next;
                        set(Some(&state), &state);
                    }
                    Err(error) if error.kind() == ErrorKind::Unknown => doubt = Some(next),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Retry);
                        assert!(log.wants_checkpoint(0));
                    }
                }
            }
        }
    }
    for (disk, possible) in std::mem::take(&mut *crashed.lock()) {
        let found = load(&disk);
        let is_possible = found == possible.before || found == possible.after;
        assert!(is_possible, "seed {seed}: {found:?} is neither of {possible:?}");
        begin(&disk, &found.unwrap_or_default()).unwrap().append(&edit(1000)).unwrap();
        assert_eq!(load(&disk).unwrap().last(), Some(&1000));
    }
}

#[test]
fn edits_survive_a_power_cut_at_every_moment() {
    seeds(0, 15).for_each(|seed| run(seed, false));
}

#[test]
fn edits_survive_failures_and_then_a_power_cut() {
    seeds(100, 30).for_each(|seed| run(seed, true));
}

fn path(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("manifest-{number:020}"))
}

fn closed_manifest() -> SimulatedFs {
    let fs = disk();
    let mut log = begin(&fs, &[1, 2, 3]).unwrap();
    (0..5).for_each(|number| log.append(&edit(number)).unwrap());
    drop(log);
    fs
}

fn contents(fs: &SimulatedFs) -> Vec<u8> {
    let file = fs.open(&path(1), Access::Read).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Where the end mark is, which is the last thing in the file but zeros.
fn end_mark(fs: &SimulatedFs) -> u64 {
    (contents(fs).iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1).next_multiple_of(8) - 32
}

#[test]
fn a_manifest_cut_anywhere_is_an_error_that_names_the_file() {
    let fs = closed_manifest();
    let length = contents(&fs).len() as u64;
    for cut in (0..end_mark(&fs) + 40).chain([length / 2, length - 1]) {
        let disk = fs.snapshot();
        disk.open(&path(1), Access::Write).unwrap().truncate(cut).unwrap();
        let error = manifest_log::load(&fs_ref(&disk), Path::new(DIR)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "cut at {cut}");
        assert_eq!(error.place().unwrap().file, path(1));
    }
}

#[test]
fn revisions_rise_through_all_generations() {
    let fs = disk();
    let mut last = 0;
    for _ in 0..3 {
        let mut log = begin(&fs, &[1]).unwrap();
        for _ in 0..2 {
            assert!(log.revision > last);
            last = log.revision;
            log.append(&edit(1)).unwrap();
        }
        log.checkpoint(&encode(&[2]), 0).unwrap();
        assert_eq!(manifest_log::load(&fs_ref(&fs), Path::new(DIR)).unwrap().unwrap().revision, log.revision);
    }
}

#[test]
fn a_flipped_bit_is_an_error_that_names_the_file() {
    let fs = closed_manifest();
    let end = end_mark(&fs);
    for bit in (0..end * 8).step_by(13) {
        let disk = fs.snapshot();
        disk.flip_bit(&path(1), bit).unwrap();
        let error = manifest_log::load(&fs_ref(&disk), Path::new(DIR)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}");
        assert_eq!(error.place().unwrap().file, path(1));
    }
    for bit in (end * 8..(end + 32) * 8).step_by(3) {
        let disk = fs.snapshot();
        disk.flip_bit(&path(1), bit).unwrap();
        let loaded = manifest_log::load(&fs_ref(&disk), Path::new(DIR)).unwrap().unwrap();
        assert!(loaded.torn && loaded.edits.len() == 5, "bit {bit}");
    }
}

#[test]
fn a_checkpoint_replaces_the_edits_and_is_asked_for_when_they_outgrow_it() {
    let fs = disk();
    let mut log = begin(&fs, &[]).unwrap();
    let mut edits = 0;
    while !log.wants_checkpoint(30_000) {
        log.append(&[7; 30_000]).unwrap();
        edits += 1;
    }
    assert_eq!(edits, 2);
    log.checkpoint(&encode(&[4, 5]), 0).unwrap();
    assert!(!log.wants_checkpoint(30_000));
    assert_eq!(load(&fs), Some(vec![4, 5]));
    assert!(fs.used_bytes() < 100_000, "the old generation is gone");
}

#[test]
fn no_manifest_is_nothing_and_a_full_disk_is_refused() {
    let fs = disk();
    assert_eq!(load(&fs), None);
    let mut log = begin(&fs, &[1]).unwrap();
    fs.set_space(Some(fs.used_bytes()));
    // The room of a generation is taken when it is begun.
    log.append(&edit(5)).unwrap();
    assert_eq!(log.append(&[1; 100_000]).unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(log.checkpoint(&encode(&[1, 5]), 100_000).unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(load(&fs), Some(vec![1, 5]));
    fs.set_space(None);
    log.checkpoint(&encode(&[1, 5]), 100_000).unwrap();
    log.append(&[6; 100_000]).unwrap();
    assert_eq!(load(&fs), Some(vec![1, 5, 0x0606_0606]));
}

#[test]
fn arbitrary_bytes_are_no_panic() {
    let fs = closed_manifest();
    let mut good = contents(&fs);
    assert_eq!(manifest_log::decode(&good).unwrap().edits.len(), 5);
    let mut random = Random::new(4);
    // What is behind says nothing but where it ends.
    good.truncate(end_mark(&fs) as usize + 32);
    for _ in 0..3000 {
        let mut bytes = good.clone();
        bytes[56..60].fill(0);
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        if random.below(2) == 0 {
            bytes.truncate(random.below(good.len() as u64) as usize);
        }
        for _ in 0..random.below(4) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
        }
        if let Ok(loaded) = manifest_log::decode(&bytes) {
            assert!(loaded.edits.len() <= 5);
        }
    }
}
