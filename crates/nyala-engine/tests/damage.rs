//! Flips bits, cuts files and removes files in copies of a real store: nothing panics, and nothing is lost silently.
//! Either every row is there, or opening refuses, or the loss is named, or the query that needs the data fails. In
//! every case a repair makes a sound store.
//!
//! `NYALA_DAMAGED_COPIES` says how many copies; 1000 take minutes.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::store::Store;
use nyala_core::{ErrorKind, Result, TableId};
use nyala_engine::fs::{Access, Fault, FileSystem, FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, accept, block_on, check, repair};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{create, options, points, rows};

type Row = (u32, i64, Option<i64>);

const DIR: &str = "/data";
const NEW_DIR: &str = "/new";
const SECTOR_BYTES: u64 = 4096;

/// A seeded generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % end
    }
}

/// A store with everything that a store has: several rowsets in several partitions, some compacted, a log of several
/// segments, edits in the manifest; rows of the log are in no rowset.
fn sample() -> Result<(SimulatedFs, TableId, Vec<Row>)> {
    let fs = SimulatedFs::new();
    let mut engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    let batch = |from: i64, rows: i64| -> Vec<Row> {
        (0..rows).map(|row| (row as u32 % 11, from + row * 7, (row % 5 != 0).then_some(from * row))).collect()
    };
    for round in 0..6 {
        block_on(engine.write(points(table, &batch(round * 13, 300))))?;
        if round < 4 {
            engine.flush()?;
        }
        if round == 2 {
            engine.compact()?;
        }
        if round == 4 {
            drop(engine);
            engine = Engine::open(options(&fs))?;
        }
    }
    let all = rows(&engine, table)?;
    // A killed process may leave no mark behind its last record, and then rot there is a torn tail.
    drop(engine);
    Ok((fs.snapshot(), table, all))
}

fn files(fs: &SimulatedFs) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for part in ["", "rowsets", "wal"] {
        let dir = Path::new(DIR).join(part);
        let entries =
            if fs.exists(&dir).expect("asked") { fs.list(&dir).expect("listed") } else { Vec::new() };
        files.extend(entries.into_iter().filter(|entry| !entry.is_dir).map(|entry| dir.join(entry.name)));
    }
    files
}

/// Damages a copy; returns what it did.
fn harm(fs: &SimulatedFs, random: &mut Random) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let mut flipped = BTreeSet::new();
    for _ in 0..1 + random.below(3) {
        let files = files(fs);
        if files.is_empty() {
            break;
        }
        let file = files[random.below(files.len() as u64) as usize].clone();
        let name = file.display();
        let length = fs.open(&file, Access::Read)?.length()?;
        match random.below(12) {
            // Once a file: rot in the last record of a log and in the mark behind it is a torn tail.
            0..6 if length > 0 && flipped.insert(file.clone()) => {
                // Mostly where something was written.
                let within = if random.below(4) > 0 { length.min(4000) } else { length };
                let bit = random.below(within * 8);
                fs.flip_bit(&file, bit)?;
                done.push(format!("bit {bit} of {name}"));
            }
            6 | 7 => {
                let within = if random.below(4) > 0 { length.min(4000) } else { length };
                let cut = random.below(within.max(1));
                fs.open(&file, Access::Write)?.truncate(cut)?;
                done.push(format!("{name} cut at {cut} of {length}"));
            }
            8 => {
                fs.remove(&file)?;
                done.push(format!("{name} removed"));
            }
            9 if random.below(3) == 0 => {
                let part = ["rowsets", "wal"][random.below(2) as usize];
                let dir = Path::new(DIR).join(part);
                if fs.exists(&dir)? {
                    files
                        .iter()
                        .filter(|file| file.starts_with(&dir))
                        .try_for_each(|file| fs.remove(file))?;
                    fs.remove_dir(&dir)?;
                    done.push(format!("{part}/ removed"));
                }
            }
            // A sector that the disk cannot read.
            10 | 11 if length > 0 => {
                let within = if random.below(4) > 0 { length.min(16_000) } else { length };
                let start = random.below(within) / SECTOR_BYTES * SECTOR_BYTES;
                fs.inject(Fault::Read { path: file.clone(), range: start..start + SECTOR_BYTES });
                done.push(format!("byte {start} of {name} unreadable"));
            }
            _ => {}
        }
    }
    Ok(done)
}

/// Whether data cannot be read.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::Io)
}

/// Whether the store opens once its losses are accepted, unless that is refused because it takes a repair.
fn judge_accepted(fs: &SimulatedFs) -> std::result::Result<(), String> {
    let disk: FsRef = Arc::new(fs.clone());
    match accept(&disk, Path::new(DIR), &[]) {
        Ok(_) => {}
        Err(error) if error.to_string().contains("check --repair") => return Ok(()),
        Err(error) => return Err(format!("accept: {error}")),
    }
    let engine = Engine::open(options(fs)).map_err(|error| format!("accepted, does not open: {error}"))?;
    match engine.losses().is_empty() {
        true => Ok(()),
        false => Err(format!("accepted, and lost: {:?}", engine.losses())),
    }
}

/// Whether all rows are there or something says that they are not.
fn judge(fs: &SimulatedFs, table: TableId, all: &[Row]) -> std::result::Result<(), String> {
    let refused = |kind| is_damage(kind) || matches!(kind, ErrorKind::Conflict | ErrorKind::Unsupported);
    let disk: FsRef = Arc::new(fs.clone());
    let report = check(&disk, Path::new(DIR), &mut |_| {}).map_err(|error| format!("check: {error}"))?;
    let engine = match Engine::open(options(fs)) {
        Ok(engine) => engine,
        Err(error) if refused(error.kind()) => return Ok(()),
        Err(error) => return Err(format!("open: {error}")),
    };
    let is_named = engine.recovery.damage_count > 0 && !engine.losses().is_empty();
    match rows(&engine, table) {
        Ok(found) if found == all => Ok(()),
        Ok(_) if is_named && report.damage_count > 0 => Ok(()),
        Ok(found) => Err(format!(
            "{} of {} rows are there, and nothing says that others were lost (check: {:?})",
            found.len(),
            all.len(),
            report.damage
        )),
        Err(error) if is_damage(error.kind()) && report.damage_count > 0 => Ok(()),
        Err(error) => Err(format!("a query: {error}")),
    }
}

/// Whether a repair makes a sound store of it.
fn judge_repair(fs: &SimulatedFs) -> std::result::Result<(), String> {
    let disk: FsRef = Arc::new(fs.clone());
    let repaired = repair(&disk, Path::new(DIR), Path::new(NEW_DIR), true, &[]);
    let report = repaired.map_err(|error| format!("repair: {error}"))?;
    let checked =
        check(&disk, Path::new(NEW_DIR), &mut |_| {}).map_err(|error| format!("repaired: {error}"))?;
    if checked.damage_count > 0 {
        return Err(format!("repaired, and damaged: {:?}, {report:?}", checked.damage));
    }
    let engine = Engine::open(EngineOptions { data_dir: NEW_DIR.into(), ..options(fs) });
    let engine = engine.map_err(|error| format!("repaired, and does not open: {error}, {report:?}"))?;
    for (table, _) in engine.tables() {
        rows(&engine, table).map_err(|error| format!("repaired, and cannot be read: {error}, {report:?}"))?;
    }
    Ok(())
}

#[test]
fn damaged_copies_neither_panic_nor_lose_anything_without_a_word() -> Result<()> {
    let copies = std::env::var("NYALA_DAMAGED_COPIES").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let (fs, table, all) = sample()?;
    judge(&fs.snapshot(), table, &all).expect("it was sound");
    for seed in 1..=copies {
        let damaged = fs.snapshot();
        let done = harm(&damaged, &mut Random(seed))?;
        // The same again: what is unreadable is no part of a snapshot.
        let [for_repair, for_accept] = [fs.snapshot(), fs.snapshot()];
        for copy in [&for_repair, &for_accept] {
            harm(copy, &mut Random(seed))?;
        }
        let judged = catch_unwind(AssertUnwindSafe(|| {
            judge(&damaged, table, &all)?;
            judge_repair(&for_repair)?;
            judge_accepted(&for_accept)
        }));
        match judged {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("seed {seed}, {done:?}: {error}"),
            Err(_) => panic!("seed {seed}, {done:?}: a panic"),
        }
    }
    Ok(())
}
