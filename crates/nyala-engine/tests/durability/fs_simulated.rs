//! The simulated disk loses what it may lose, keeps what it must, and does each of the possible things sometimes.

use std::collections::BTreeSet;
use std::path::Path;

use nyala_core::ErrorKind;
use nyala_engine::fs::{Access, Fault, FileSystem, OperationKind, SimulatedFs};
use parking_lot::Mutex;

const SEEDS: u64 = 300;

fn read(fs: &SimulatedFs, name: &str) -> Option<Vec<u8>> {
    let file = fs.open(Path::new(name), Access::Read).ok()?;
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

/// All that crashes of this disk leave of a file.
fn outcomes(fs: &SimulatedFs, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..SEEDS).map(|seed| read(&fs.crash(seed), name)).collect()
}

fn write(fs: &SimulatedFs, name: &str, bytes: &[u8]) -> nyala_engine::fs::FileRef {
    let file = fs.open(Path::new(name), Access::Create).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn root() -> &'static Path {
    Path::new("")
}

#[test]
fn what_is_synced_stays() {
    let fs = SimulatedFs::new();
    write(&fs, "a", b"synced").sync_data().unwrap();
    fs.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&fs, "a"), BTreeSet::from([Some(b"synced".to_vec())]));
}

#[test]
fn contents_and_names_are_lost_apart() {
    let fs = SimulatedFs::new();
    let file = write(&fs, "a", b"1234");
    let found = outcomes(&fs, "a");
    for outcome in [None, Some(&b""[..]), Some(b"12"), Some(b"1234"), Some(&[0; 4])] {
        assert!(found.contains(&outcome.map(<[u8]>::to_vec)), "{outcome:?} in {found:?}");
    }
    file.sync_data().unwrap();
    assert_eq!(outcomes(&fs, "a"), BTreeSet::from([None, Some(b"1234".to_vec())]));
}

#[test]
fn sectors_arrive_out_of_order() {
    let fs = SimulatedFs::new();
    let file = write(&fs, "a", &[1; 8192]);
    file.sync_data().unwrap();
    fs.sync_dir(root()).unwrap();
    file.write_at(&[2; 8192], 0).unwrap();
    let found: Vec<Vec<u8>> = outcomes(&fs, "a").into_iter().flatten().collect();
    assert!(found.iter().any(|bytes| bytes[0] == 1 && bytes[8191] == 2));
    assert!(found.iter().any(|bytes| bytes[0] == 2 && bytes[8191] == 1));
    assert!(found.iter().any(|bytes| bytes[0] == 2 && bytes[8191] == 2));
    assert!(
        found.iter().any(|bytes| (1..8192).any(|at| at % 512 != 0 && bytes[at - 1] != bytes[at])),
        "inside a sector"
    );
    assert!(found.iter().any(|bytes| bytes[..4096].windows(2).filter(|pair| pair[0] != pair[1]).count() > 2));
}

#[test]
fn renames_and_removals_are_done_or_undone() {
    let fs = SimulatedFs::new();
    for name in ["old", "new", "gone"] {
        write(&fs, name, name.as_bytes()).sync_data().unwrap();
    }
    fs.sync_dir(root()).unwrap();
    fs.rename(Path::new("new"), Path::new("old")).unwrap();
    fs.remove(Path::new("gone")).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let crashed = fs.crash(seed);
        let names = (read(&crashed, "old").unwrap(), read(&crashed, "new"), read(&crashed, "gone"));
        assert!(names.0 == b"old" && names.1.is_some() || names.0 == b"new" && names.1.is_none());
        seen.insert((names.0, names.2.is_some()));
    }
    assert_eq!(seen.len(), 4, "independent of each other");
    fs.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&fs, "old"), BTreeSet::from([Some(b"new".to_vec())]));
    assert_eq!(outcomes(&fs, "gone"), BTreeSet::from([None]));
}

#[test]
fn a_file_needs_its_directory() {
    let fs = SimulatedFs::new();
    let dir = Path::new("dir");
    fs.create_dir(dir).unwrap();
    write(&fs, "dir/a", b"x").sync_data().unwrap();
    fs.sync_dir(dir).unwrap();
    assert_eq!(outcomes(&fs, "dir/a"), BTreeSet::from([None, Some(b"x".to_vec())]));
    fs.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&fs, "dir/a"), BTreeSet::from([Some(b"x".to_vec())]));
    assert!(fs.remove_dir(dir).is_err());
    assert!(fs.open(Path::new("none/a"), Access::Create).is_err());
}

#[test]
fn after_a_failed_sync_a_later_one_proves_nothing() {
    let mut seen = BTreeSet::new();
    for operations in 0..40 {
        let fs = SimulatedFs::new();
        let file = write(&fs, "a", b"old");
        (0..operations).for_each(|_| fs.sync_dir(root()).unwrap());
        file.sync_data().unwrap();
        fs.sync_dir(root()).unwrap();
        file.write_at(b"new", 0).unwrap();
        fs.inject(Fault::Sync { skip: 0 });
        assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Io);
        file.sync_data().unwrap();
        let after = outcomes(&fs, "a");
        assert_eq!(after.len(), 1, "settled");
        seen.insert((read(&fs, "a"), after));
    }
    let lost = BTreeSet::from([Some(b"old".to_vec())]);
    assert!(seen.contains(&(Some(b"new".to_vec()), lost)), "read from memory, not on disk");
}

#[test]
fn faults_hit_once_and_space_runs_out() {
    let fs = SimulatedFs::new();
    let file = write(&fs, "a", b"");
    fs.inject(Fault::Write { skip: 1, written: 2 });
    file.write_at(b"good", 0).unwrap();
    file.write_at(b"1234", 4).unwrap_err();
    assert_eq!(read(&fs, "a").unwrap(), b"good12");
    file.write_at(b"1234", 4).unwrap();
    fs.inject(Fault::Read { path: "a".into(), range: 2..3 });
    file.read_at(&mut [0; 2], 0).unwrap();
    file.read_at(&mut [0; 3], 0).unwrap_err();
    fs.clear_faults();
    fs.set_space(Some(8192));
    assert_eq!(file.preallocate(8193).unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(file.write_at(&[1; 9000], 0).unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(file.length().unwrap(), 8192, "a part was written");
    assert_eq!(fs.open(Path::new("b"), Access::Create).unwrap_err().kind(), ErrorKind::Retry);
    file.write_at(&[2; 8192], 0).unwrap();
    fs.remove(Path::new("a")).unwrap();
    assert_eq!(fs.free_bytes(root()).unwrap(), 0, "still open");
    drop(file);
    fs.sync_dir(root()).unwrap();
    assert_eq!(fs.free_bytes(root()).unwrap(), 8192);
}

#[test]
fn a_crash_repeats_from_its_seed_and_the_hook_sees_every_change() {
    let fs = SimulatedFs::new();
    let kinds = std::sync::Arc::new(Mutex::new(Vec::new()));
    fs.on_operation({
        let kinds = kinds.clone();
        move |_, operation| kinds.lock().push(operation.kind)
    });
    let file = write(&fs, "a", &[7; 3000]);
    fs.crash(1);
    file.sync_data().unwrap();
    fs.rename(Path::new("a"), Path::new("b")).unwrap();
    fs.sync_dir(root()).unwrap();
    file.write_at(&[8; 3000], 100).unwrap();
    use OperationKind::{Create, Rename, Sync, SyncDir, Write};
    assert_eq!(*kinds.lock(), [Create, Write, Sync, Rename, SyncDir, Write]);
    assert_eq!(fs.operations(), 6);
    for seed in 0..50 {
        assert_eq!(read(&fs.crash(seed), "b"), read(&fs.crash(seed), "b"));
    }
}

#[test]
fn a_directory_has_one_owner_until_the_process_dies() {
    let fs = SimulatedFs::new();
    fs.create_dirs(Path::new("data")).unwrap();
    let lock = fs.lock_dir(Path::new("data")).unwrap();
    assert!(fs.lock_dir(Path::new("data")).unwrap_err().message().contains("data"));
    fs.snapshot().lock_dir(Path::new("data")).unwrap();
    drop(lock);
    fs.lock_dir(Path::new("data")).unwrap();
}
