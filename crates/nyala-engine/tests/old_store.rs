//! Directories that earlier versions wrote are read, written and repaired.

use nyala_core::store::Store;
use nyala_core::{Result, TableId};
use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::{Engine, EngineOptions, block_on, check, repair};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy of a directory that the version before origins in rowsets left when it was killed: 200 points of `cpu` and
/// one of `mem` in rowsets, one of `cpu` in the log.
fn copied() -> (tempfile::TempDir, PathBuf) {
    fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy(&entry.path(), &target)?,
                false => drop(std::fs::copy(entry.path(), &target)?),
            }
        }
        Ok(())
    }
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/store-v2");
    copy(&kept, &data_dir).expect("copied");
    (directory, data_dir)
}

fn open(data_dir: &Path) -> Result<Engine> {
    Engine::open(EngineOptions { maintenance_threads: 0, ..EngineOptions::new(data_dir) })
}

fn table(engine: &Engine, name: &str) -> TableId {
    let found = engine.tables().into_iter().find(|(_, schema)| schema.name.ends_with(name));
    found.expect("the table is there").0
}

#[test]
fn a_directory_of_the_version_before_is_opened_and_goes_on() -> Result<()> {
    let (_directory, data_dir) = copied();
    let real: FsRef = Arc::new(RealFs);
    assert_eq!(check(&real, &data_dir, &mut |_| {})?.damage, []);
    for _ in 0..2 {
        let engine = open(&data_dir)?;
        let info = |name: &str| {
            block_on(engine.partitions(table(&engine, name)))
                .map(|all| all.iter().filter_map(|p| p.rows).sum::<u64>())
        };
        assert_eq!((info("cpu")?, info("mem")?), (201, 1));
        assert_eq!(engine.losses(), [] as [String; 0]);
        engine.flush()?;
        engine.compact()?;
    }
    assert_eq!(check(&real, &data_dir, &mut |_| {})?.damage, []);
    Ok(())
}

#[test]
fn of_an_old_file_without_a_manifest_is_said_that_it_cannot_be_saved() -> Result<()> {
    let (directory, data_dir) = copied();
    let real: FsRef = Arc::new(RealFs);
    std::fs::remove_file(data_dir.join("manifest-00000000000000000002")).expect("removed");
    let new_dir = directory.path().join("new");
    let report = repair(&real, &data_dir, &new_dir, true, &[])?;
    assert_eq!(report.lost.iter().filter(|words| words.contains("earlier version")).count(), 4, "{report:?}");
    assert!(
        report.lost.iter().any(|words| words.contains("of table") && words.contains("in the log")),
        "{report:?}"
    );
    // With the manifest everything is.
    let (directory, data_dir) = copied();
    let new_dir = directory.path().join("new");
    let report = repair(&real, &data_dir, &new_dir, false, &[])?;
    assert_eq!((report.rowsets, report.rows, report.lost.len()), (4, 209, 0), "{report:?}");
    let engine = open(&new_dir)?;
    let cpu = table(&engine, "cpu");
    assert_eq!(
        block_on(engine.partitions(cpu))?.iter().map(|partition| partition.rows.unwrap_or(0)).sum::<u64>(),
        201
    );
    Ok(())
}
