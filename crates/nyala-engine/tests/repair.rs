//! Repairs a damaged directory into a new one. Nothing in the new one is damaged, and it has everything that the old
//! one had, except what the report names.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::store::{Delete, RowSelection, SeriesSet, Store};
use nyala_core::{Result, TableId, TimeRange};
use nyala_engine::fs::{Access, FileSystem, FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, RepairReport, accept, block_on, check, repair};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{create, options, points, rows};

type Row = (u32, i64, Option<i64>);

fn dir() -> &'static Path {
    Path::new("/data")
}

fn new_dir() -> &'static Path {
    Path::new("/new")
}

fn files(fs: &SimulatedFs, part: &str, suffix: &str) -> Vec<PathBuf> {
    let dir = dir().join(part);
    let names = fs.list(&dir).expect("listed").into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(suffix)).map(|name| dir.join(name)).collect()
}

fn manifest(fs: &SimulatedFs) -> PathBuf {
    let names = fs.list(dir()).expect("listed").into_iter().map(|entry| entry.name);
    dir().join(names.filter(|name| name.starts_with("manifest-")).max().expect("a manifest"))
}

fn shared(fs: &SimulatedFs) -> FsRef {
    Arc::new(fs.clone())
}

/// A store whose rows are in several partitions, rowsets and compacted ones, and in the log; some deleted.
fn sample() -> Result<(SimulatedFs, TableId, Vec<Row>)> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    let batch = |from: i64| -> Vec<Row> {
        (0..400).map(|row| (row as u32 % 7, from + row * 10, Some(from * 1000 + row))).collect()
    };
    for from in [0, 3, 2000] {
        block_on(engine.write(points(table, &batch(from))))?;
        engine.flush()?;
    }
    engine.compact()?;
    block_on(engine.write(points(table, &batch(5))))?;
    engine.flush()?;
    let times = RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(1500, 1600) };
    block_on(engine.delete(Delete { table, rows: times, predicates: Vec::new() }))?;
    block_on(engine.write(points(table, &batch(7))))?;
    let all = rows(&engine, table)?;
    Ok((fs.snapshot(), table, all))
}

fn open_new(fs: &SimulatedFs) -> Result<Engine> {
    Engine::open(EngineOptions { data_dir: new_dir().into(), ..options(fs) })
}

/// Repairs; returns what is in the new directory, which must be sound. The old one must not change.
fn repaired(fs: &SimulatedFs, table: TableId, accepted: bool) -> Result<(RepairReport, Vec<Row>)> {
    let before: Vec<_> = ["", "rowsets", "wal"].iter().map(|part| fs.list(&dir().join(part)).ok()).collect();
    let report = repair(&shared(fs), dir(), new_dir(), accepted, &[])?;
    let after: Vec<_> = ["", "rowsets", "wal"].iter().map(|part| fs.list(&dir().join(part)).ok()).collect();
    assert_eq!(before, after);
    if !report.written {
        assert!(!fs.exists(new_dir())?, "nothing is written");
        return Ok((report, Vec::new()));
    }
    let checked = check(&shared(fs), new_dir(), &mut |_| {})?;
    assert_eq!(checked.damage, [], "{report:?}");
    let engine = open_new(fs)?;
    assert_eq!(engine.losses(), [] as [String; 0]);
    let found = rows(&engine, table)?;
    // It is a store like any other.
    block_on(engine.write(points(table, &[(1, 999_999, Some(1))])))?;
    engine.flush()?;
    engine.compact()?;
    assert_eq!(rows(&engine, table)?.len(), found.len() + 1);
    Ok((report, found))
}

#[test]
fn a_sound_directory_is_repaired_to_itself() -> Result<()> {
    let (fs, table, all) = sample()?;
    let (report, found) = repaired(&fs, table, false)?;
    assert_eq!(found, all);
    assert_eq!((report.may_return, report.lost, report.rewritten), (vec![], vec![], 0));
    Ok(())
}

#[test]
fn without_its_manifest_a_directory_is_repaired_from_its_files() -> Result<()> {
    let (fs, table, all) = sample()?;
    fs.remove(&manifest(&fs))?;
    let (report, _) = repaired(&fs, table, false)?;
    assert!(!report.written && report.may_return.iter().any(|words| words.contains("cpu")), "{report:?}");
    let (report, found) = repaired(&fs, table, true)?;
    // What was deleted in the log is deleted.
    assert_eq!(found, all, "{report:?}");
    assert_eq!(report.lost, ["the manifest is missing"]);
    Ok(())
}

#[test]
fn a_manifest_cut_anywhere_is_made_up_for_by_the_files() -> Result<()> {
    let (fs, table, all) = sample()?;
    let manifest = manifest(&fs);
    let mut bytes = vec![0; fs.open(&manifest, Access::Read)?.length()? as usize];
    fs.open(&manifest, Access::Read)?.read_exact_at(&mut bytes, 0)?;
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("not empty") as u64;
    for cut in (0..written).step_by(97) {
        let damaged = fs.snapshot();
        damaged.open(&manifest, Access::Write)?.truncate(cut)?;
        let (report, found) = repaired(&damaged, table, true)?;
        assert_eq!(found, all, "cut at {cut}: {report:?}");
    }
    Ok(())
}

#[test]
fn a_damaged_rowset_costs_what_it_hit() -> Result<()> {
    let (fs, table, all) = sample()?;
    let (mut saved, mut hit) = (0, 0);
    for rowset in files(&fs, "rowsets", ".rowset") {
        let length = fs.open(&rowset, Access::Read)?.length()?;
        for bit in (0..length * 8).step_by(997) {
            let damaged = fs.snapshot();
            damaged.flip_bit(&rowset, bit)?;
            let (report, found) = repaired(&damaged, table, true)?;
            assert!(!report.lost.is_empty(), "bit {bit} of {rowset:?}");
            // A row is as it was, or lost, or it has lost its cell; or what it had replaced is seen again.
            for row in &found {
                let is_old = report.may_return.iter().any(|words| words.contains("older rows"));
                let is_known = all
                    .iter()
                    .any(|other| (other.0, other.1) == (row.0, row.1) && (*other == *row || row.2.is_none()));
                assert!(is_known || is_old, "bit {bit} of {rowset:?}: {row:?}");
            }
            saved += found.len();
            hit += 1;
        }
    }
    assert!(saved > hit * all.len() / 2, "{saved} rows of {hit} times {}", all.len());
    Ok(())
}

#[test]
fn a_missing_log_is_accepted_or_repaired() -> Result<()> {
    let (fs, table, _) = sample()?;
    files(&fs, "wal", "").iter().try_for_each(|file| fs.remove(file))?;
    fs.remove_dir(&dir().join("wal"))?;
    assert!(Engine::open(options(&fs)).is_err());
    let in_place = fs.snapshot();
    let (report, found) = repaired(&fs, table, true)?;
    assert!(report.lost.iter().any(|words| words.contains("the log ends")), "{report:?}");
    assert!(!found.is_empty());
    let accepted = accept(&shared(&in_place), dir(), &[])?;
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    for _ in 0..2 {
        let engine = Engine::open(options(&in_place))?;
        assert_eq!(rows(&engine, table)?, found);
        assert_eq!(engine.losses(), [] as [String; 0]);
    }
    assert_eq!(accept(&shared(&in_place), dir(), &[])?, [] as [String; 0]);
    Ok(())
}

#[test]
fn losses_of_the_log_are_remembered_until_they_are_accepted() -> Result<()> {
    let (fs, table, all) = sample()?;
    let segment = files(&fs, "wal", ".wal").pop().expect("a segment");
    fs.open(&segment, Access::Write)?.truncate(200)?;
    for _ in 0..3 {
        let engine = Engine::open(options(&fs))?;
        assert!(engine.losses()[0].contains("bytes long"), "{:?}", engine.losses());
        assert!(rows(&engine, table)?.len() < all.len());
        // The segment that shows it is given up.
        block_on(engine.write(points(table, &[(1, 1, Some(1))])))?;
        engine.flush()?;
    }
    assert!(!accept(&shared(&fs), dir(), &[])?.is_empty());
    let engine = Engine::open(options(&fs))?;
    assert_eq!(engine.losses(), [] as [String; 0]);
    Ok(())
}

#[test]
fn a_missing_rowset_is_given_up_when_that_is_accepted() -> Result<()> {
    let (fs, table, all) = sample()?;
    fs.remove(&files(&fs, "rowsets", ".rowset")[0])?;
    assert!(rows(&Engine::open(options(&fs.snapshot()))?, table).is_err());
    assert_eq!(accept(&shared(&fs), dir(), &[])?.len(), 1);
    let engine = Engine::open(options(&fs))?;
    assert_eq!(engine.recovery.damage_count, 0);
    assert!(rows(&engine, table)?.len() < all.len());
    Ok(())
}

#[test]
fn what_is_in_the_way_is_refused() -> Result<()> {
    let (fs, ..) = sample()?;
    fs.create_dirs(new_dir())?;
    fs.open(&new_dir().join("something"), Access::Create)?;
    assert!(repair(&shared(&fs), dir(), new_dir(), true, &[]).is_err());
    assert!(repair(&shared(&fs), Path::new("/nowhere"), Path::new("/other"), true, &[]).is_err());
    fs.remove(&manifest(&fs))?;
    assert!(accept(&shared(&fs), dir(), &[]).is_err(), "without a manifest nothing can be accepted");
    Ok(())
}
