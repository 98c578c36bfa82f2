//! Missing files are noticed: a data directory without its manifest, its log, its rowsets or the end of one of them is
//! refused, or the loss is named, and nothing in it is touched. Only an empty directory is new.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::env::ManualClock;
use nyala_core::store::Store;
use nyala_core::{ErrorKind, Result, TableId, TimeRange};
use nyala_engine::fs::{Access, FileSystem, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, block_on};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{create, options, points, rows};

fn dir() -> &'static Path {
    Path::new("/data")
}

fn files(fs: &SimulatedFs, part: &str) -> Vec<PathBuf> {
    let dir = dir().join(part);
    let entries = fs.list(&dir).expect("listed").into_iter();
    entries.filter(|entry| !entry.is_dir).map(|entry| dir.join(entry.name)).collect()
}

/// The newest one.
fn newest_manifest(fs: &SimulatedFs) -> PathBuf {
    let is_manifest = |file: &PathBuf| file.to_str().is_some_and(|path| path.contains("manifest-"));
    files(fs, "").into_iter().rfind(is_manifest).expect("a manifest")
}

fn remove_all(fs: &SimulatedFs, part: &str) {
    files(fs, part).iter().for_each(|file| fs.remove(file).expect("removed"));
    fs.remove_dir(&dir().join(part)).expect("removed");
}

/// A store with rows in rowsets and in the log, as a killed process leaves it.
fn sample() -> (SimulatedFs, TableId) {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs)).expect("opens");
    let table = create(&engine).expect("a table");
    write(&engine, table, 0..3);
    engine.flush().expect("flushed");
    write(&engine, table, 3..6);
    (fs.snapshot(), table)
}

/// One row each.
fn write(engine: &Engine, table: TableId, rows: std::ops::Range<i64>) {
    for row in rows {
        block_on(engine.write(points(table, &[(1, row * 100, Some(row))]))).expect("written");
    }
}

/// Opening is refused with a message that names the place and a remedy, and nothing is changed.
fn assert_refused(fs: &SimulatedFs, words: &str) {
    let before = (files(fs, ""), fs.used_bytes());
    for _ in 0..2 {
        let error = Engine::open(options(fs)).err().unwrap_or_else(|| panic!("opened without {words}"));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains(words) && error.message().contains("nyala check"), "{error}");
    }
    assert_eq!((files(fs, ""), fs.used_bytes()), before);
}

#[test]
fn without_its_manifest_a_directory_is_refused_and_keeps_what_it_has() {
    let (fs, _) = sample();
    let manifest = newest_manifest(&fs);
    fs.remove(&manifest).expect("removed");
    let rowsets = files(&fs, "rowsets");
    assert!(!rowsets.is_empty());
    assert_refused(&fs, "no manifest");
    assert_eq!(files(&fs, "rowsets"), rowsets);
    // The log alone is enough, and the rowsets are.
    let log_only = fs.snapshot();
    remove_all(&log_only, "rowsets");
    assert_refused(&log_only, "no manifest");
    remove_all(&fs, "wal");
    assert_refused(&fs, "no manifest");
}

#[test]
fn without_its_rowsets_a_directory_is_refused() {
    let (fs, _) = sample();
    remove_all(&fs, "rowsets");
    assert_refused(&fs, "the directory is missing");
    assert!(!fs.exists(&dir().join("rowsets")).expect("asked"), "nothing is made in its place");
}

#[test]
fn without_its_log_or_its_last_segment_a_directory_is_refused() {
    let (fs, table) = sample();
    let missing = fs.snapshot();
    remove_all(&missing, "wal");
    assert_refused(&missing, "segment");
    // The second opening begins a segment, and a flush says so in the manifest.
    let engine = Engine::open(options(&fs)).expect("opens");
    write(&engine, table, 6..7);
    engine.flush().expect("flushed");
    write(&engine, table, 7..8);
    drop(engine);
    let last = files(&fs, "wal").into_iter().rfind(|file| file.extension().is_some_and(|e| e == "wal"));
    fs.remove(&last.expect("a segment")).expect("removed");
    assert_refused(&fs, "segment");
}

#[test]
fn a_missing_rowset_is_named_at_the_start_and_by_what_needs_it() {
    let (fs, table) = sample();
    let rowset = files(&fs, "rowsets").remove(0);
    fs.remove(&rowset).expect("removed");
    for _ in 0..2 {
        let engine = Engine::open(options(&fs)).expect("opens");
        assert_eq!(engine.recovery.damage_count, 1);
        assert_eq!(engine.recovery.damage[0].file, rowset);
        assert!(engine.recovery.damage[0].message.contains("cpu"), "{}", engine.recovery.damage[0]);
        let error = rows(&engine, table).expect_err("named");
        assert_eq!(
            (error.kind(), error.place().map(|place| &place.file)),
            (ErrorKind::Corrupt, Some(&rowset))
        );
    }
}

#[test]
fn a_log_whose_end_is_cut_off_is_named() {
    let (fs, table) = sample();
    let segment = files(&fs, "wal").pop().expect("a segment");
    let file = fs.open(&segment, Access::Read).expect("opens");
    let length = file.length().expect("a length");
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("not empty") as u64;
    let all = rows(&Engine::open(options(&fs.snapshot())).expect("opens"), table).expect("rows");
    let mut lost = 0;
    for cut in (64..end + 40).step_by(9).chain([length - 1]) {
        let cut_off = fs.snapshot();
        cut_off.open(&segment, Access::Write).expect("opens").truncate(cut).expect("cut");
        let engine = Engine::open(options(&cut_off)).expect("opens");
        assert!(engine.recovery.damage_count > 0, "cut at {cut}");
        assert_eq!(engine.recovery.damage[0].file, segment);
        let left = rows(&engine, table).expect("rows");
        assert_eq!(left, all[..left.len()], "cut at {cut}");
        lost += all.len() - left.len();
    }
    assert!(lost > 0);
}

#[test]
fn a_manifest_that_ends_before_it_did_is_refused() {
    let (fs, table) = sample();
    let manifest = newest_manifest(&fs);
    let (mut ends, file) = (Vec::new(), fs.open(&manifest, Access::Read).expect("opens"));
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    // Frames: length, kind, …; the end mark has kind 2.
    let mut at = 64;
    while bytes[at + 4] != 2 {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        at = (at + 32 + length).next_multiple_of(8);
        ends.push(at as u64);
    }
    assert!(ends.len() > 3, "checkpoint and edits");
    for end in &ends {
        let cut = fs.snapshot();
        cut.open(&manifest, Access::Write).expect("opens").truncate(*end).expect("cut");
        let error = Engine::open(options(&cut)).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    // One of an earlier day, whole: the log knows a later one.
    let earlier = bytes;
    let engine = Engine::open(options(&fs)).expect("opens");
    write(&engine, table, 6..7);
    drop(engine);
    let newer = newest_manifest(&fs);
    fs.remove(&newer).expect("removed");
    let file = fs.open(&manifest, Access::Create).expect("created");
    file.write_at(&earlier, 0).expect("written");
    assert_refused(&fs, "revision");
}

#[test]
fn a_directory_of_somebody_else_is_refused_and_left_alone() {
    for foreign in [&["data", "meta", "wal"][..], &["notes.txt"]] {
        let fs = SimulatedFs::new();
        fs.create_dirs(dir()).expect("a directory");
        for name in foreign {
            match name.contains('.') {
                true => drop(fs.open(&dir().join(name), Access::Create).expect("created")),
                false => fs.create_dir(&dir().join(name)).expect("created"),
            }
        }
        let before = fs.list(dir()).expect("listed");
        let error = Engine::open(options(&fs)).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(
            error.message().contains("not a data directory") && error.message().contains(foreign[0]),
            "{error}"
        );
        assert_eq!(fs.list(dir()).expect("listed"), before);
    }
    // Directories of a new file system, and leftovers of an interrupted start, are accepted as new.
    let fs = SimulatedFs::new();
    for part in ["lost+found", "rowsets", "wal"] {
        fs.create_dirs(&dir().join(part)).expect("a directory");
    }
    fs.open(&dir().join("manifest.new"), Access::Create).expect("created");
    Engine::open(options(&fs)).expect("opens");
}

#[test]
fn files_that_no_manifest_names_are_set_aside_for_a_day() -> Result<()> {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let (fs, table) = sample();
    let all = rows(&Engine::open(options(&fs.snapshot()))?, table)?;
    let clock = Arc::new(ManualClock::new(1000 * HOUR_NS));
    let at = |fs: &SimulatedFs, hour: i64| {
        clock.set(hour * HOUR_NS);
        Engine::open(EngineOptions { clock: clock.clone(), ..options(fs) })
    };
    let left = |fs: &SimulatedFs| {
        let orphans = dir().join("orphans");
        if fs.exists(&orphans).expect("asked") { fs.list(&orphans).expect("listed").len() } else { 0 }
    };
    for id in [0xfe, 0xff] {
        let orphan = fs.open(&dir().join(format!("rowsets/{id:016x}.rowset")), Access::Create)?;
        orphan.write_at(&[7; 10_000], 0)?;
    }
    for (hour, expected) in [(1000, 2), (1001, 2), (1023, 2), (1024, 0), (1025, 0)] {
        let engine = at(&fs, hour)?;
        assert_eq!((left(&fs), rows(&engine, table)?), (expected, all.clone()), "hour {hour}");
        assert_eq!(files(&fs, "rowsets").len(), 1, "the one that is named");
    }
    // A clock that was wrong, and a disk on which they would be in the way.
    let orphan = fs.open(&dir().join("rowsets/00000000000000fd.rowset"), Access::Create)?;
    orphan.write_at(&[7; 200_000], 0)?;
    drop(orphan);
    drop(at(&fs, 2000)?);
    assert_eq!(left(&fs), 1);
    drop(at(&fs, 1500)?);
    assert_eq!(left(&fs), 1);
    fs.set_space(Some(fs.used_bytes() + 1_000_000));
    drop(at(&fs, 2001)?);
    assert_eq!(left(&fs), 0, "they take no more than an eighth of the room that is left");
    Ok(())
}

#[test]
fn a_directory_made_by_a_process_that_was_killed_survives_a_power_cut() {
    for seed in 0..20 {
        let fs = SimulatedFs::new();
        for path in ["/a", "/a/b", "/a/b/rowsets"] {
            fs.create_dir(Path::new(path)).expect("a directory");
        }
        let here = || EngineOptions { data_dir: "/a/b".into(), ..options(&fs) };
        let engine = Engine::open(here()).expect("opens");
        let table = create(&engine).expect("a table");
        write(&engine, table, 0..2);
        let crashed = fs.crash(seed);
        let engine =
            Engine::open(EngineOptions { data_dir: "/a/b".into(), ..options(&crashed) }).expect("opens");
        assert_eq!(rows(&engine, table).expect("rows").len(), 2, "seed {seed}");
    }
}

#[test]
fn partitions_dropped_are_not_made_again_by_the_log() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 10, Some(1)), (1, 2500, Some(2)), (2, 1010, Some(3))])))?;
    block_on(engine.drop_partitions(table, TimeRange::new(0, 2000)))?;
    let before = block_on(engine.partitions(table))?;
    assert_eq!(before.len(), 1);
    for _ in 0..2 {
        let engine = Engine::open(options(&fs.snapshot()))?;
        let ranges: Vec<_> =
            block_on(engine.partitions(table))?.iter().map(|partition| partition.range).collect();
        assert_eq!(ranges, [before[0].range]);
        assert_eq!(rows(&engine, table)?, [(1, 2500, Some(2))]);
    }
    Ok(())
}

#[test]
fn rows_written_after_a_power_cut_are_not_hidden_by_what_was_dropped_before() -> Result<()> {
    for sync in [SyncPolicy::Never, SyncPolicy::Interval(std::time::Duration::from_secs(3600))] {
        for seed in 0..20 {
            let fs = SimulatedFs::new();
            let relaxed = |fs: &SimulatedFs| EngineOptions { wal_sync: sync, ..options(fs) };
            let engine = Engine::open(relaxed(&fs))?;
            let table = create(&engine)?;
            write(&engine, table, 0..5);
            // Durable at once, with the sequence of rows that are not.
            block_on(engine.drop_partitions(table, TimeRange::new(0, 1000)))?;
            let crashed = fs.crash(seed);
            let engine = Engine::open(relaxed(&crashed))?;
            assert_eq!(rows(&engine, table)?, [], "seed {seed}");
            write(&engine, table, 0..3);
            assert_eq!(rows(&engine, table)?.len(), 3, "seed {seed}");
            engine.flush()?;
            assert_eq!(rows(&engine, table)?.len(), 3, "seed {seed}, flushed");
            drop(engine);
            let engine = Engine::open(relaxed(&crashed.crash(seed)))?;
            assert_eq!(rows(&engine, table)?.len(), 3, "seed {seed}, again");
        }
    }
    Ok(())
}
