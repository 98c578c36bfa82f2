//! A bit that is flipped in any region of any kind of file is found by the check and by readers, is never returned, and
//! costs only the data that it hit.
//!
//! `NYALA_FLIP_ALL` flips far more bits (minutes).

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array,
};
use nyala_core::store::{
    Alteration, CellColumn, Operation, RowSelection, ScanRequest, SeriesSet, Store, Upsert, WriteBatch,
    WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, TableId, TableSchema, TimeRange};
use nyala_engine::fs::{Access, DirEntry, FileSystem, FsRef, SimulatedFs};
use nyala_engine::{CheckReport, Engine, EngineOptions, block_on, check};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIR: &str = "/data";
/// A partition of the measurement holds so many nanoseconds.
const WIDTH_NS: i64 = 1_000_000;
const SERIES: u32 = 20;

fn open(fs: &SimulatedFs) -> Result<Engine> {
    Engine::open(EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        ..EngineOptions::new(DIR)
    })
}

fn cells(id: u32, values: ArrayRef) -> CellColumn {
    CellColumn { column: ColumnId(id), values, null_cells: None }
}

fn write(engine: &Engine, table: TableId, columns: Vec<CellColumn>) {
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
    block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).expect("written");
}

/// Rows of all series of the measurement in a partition.
fn write_points(engine: &Engine, table: TableId, partition: i64, rows: i64) {
    let keys: Vec<_> = (0..SERIES).flat_map(|series| (0..rows).map(move |row| (series, row))).collect();
    let keys = || keys.iter().copied();
    let time = |row: i64| partition * WIDTH_NS + row * 1000;
    let columns = vec![
        cells(0, Arc::new(UInt32Array::from_iter_values(keys().map(|(series, _)| series)))),
        cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(keys().map(|(_, row)| time(row))))),
        cells(
            2,
            Arc::new(Int64Array::from_iter(
                keys()
                    .map(|(series, row)| (row % 7 != 3).then_some(i64::from(series) * 1_000_003 + row * row)),
            )),
        ),
        cells(
            3,
            Arc::new(Float64Array::from_iter_values(
                keys().map(|(series, row)| f64::from(series) / 7.0 + row as f64),
            )),
        ),
        cells(
            4,
            Arc::new(StringArray::from_iter_values(
                keys().map(|(series, row)| format!("text {series} {row}")),
            )),
        ),
    ];
    write(engine, table, columns);
}

fn write_named(engine: &Engine, table: TableId, from: i64, to: i64) {
    let columns = vec![
        cells(0, Arc::new(StringArray::from_iter_values((from..to).map(|row| format!("name {row:05}"))))),
        cells(1, Arc::new(Int64Array::from_iter_values((from..to).map(|row| row * row)))),
    ];
    write(engine, table, columns);
}

/// A store with every kind of file and region: two tables, two partitions, rowsets with and without directory,
/// a log with records behind the last flush, edits in the manifest. Nothing was flushed at its end.
fn sample() -> (SimulatedFs, TableId, TableId) {
    let fs = SimulatedFs::new();
    let engine = open(&fs).expect("opens");
    let points = TableSchema::measurement("points", WIDTH_NS);
    let points = block_on(engine.create_table(points)).expect("a table");
    let types = [(2, ColumnType::Int64), (3, ColumnType::Float64), (4, ColumnType::String)];
    let added = types.map(|(id, column_type)| Alteration::add_column(format!("field{id}"), column_type));
    block_on(engine.alter_table(points, added.to_vec())).expect("altered");
    let name = ColumnSchema::new(ColumnId(0), "name", ColumnType::String).required();
    let columns = vec![name, ColumnSchema::new(ColumnId(1), "square", ColumnType::Int64)];
    let named = TableSchema::keyed("named", columns, vec![ColumnId(0)]);
    let named = block_on(engine.create_table(named)).expect("a table");
    write_points(&engine, points, 0, 30);
    write_points(&engine, points, 1, 120);
    write_named(&engine, named, 0, 1500);
    engine.flush().expect("flushed");
    write_named(&engine, named, 1500, 2000);
    write_points(&engine, points, 1, 3);
    // A killed process may leave no mark behind its last record, and then rot there is a torn tail.
    drop(engine);
    (fs.snapshot(), points, named)
}

/// One thing that is asked of a store: a column of a table in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Question {
    table: TableId,
    partition: Option<i64>,
    column: u32,
}

fn ask(engine: &Engine, question: Question) -> Result<Vec<ArrayRef>> {
    let rows = match question.partition {
        None => RowSelection::All,
        Some(partition) => RowSelection::Series {
            series: SeriesSet::All,
            time: TimeRange::new(partition * WIDTH_NS, (partition + 1) * WIDTH_NS),
        },
    };
    block_on(async {
        let request = ScanRequest::by_key(question.table, rows, vec![ColumnId(question.column)]);
        let mut stream = engine.latest().scan(request).await?;
        let mut answer = Vec::new();
        while let Some(batch) = stream.next().await? {
            answer.extend(batch.columns);
        }
        Ok(answer)
    })
}

fn questions(points: TableId, named: TableId) -> Vec<Question> {
    let points = [0, 1].into_iter().flat_map(|partition| {
        (1..5).map(move |column| Question { table: points, partition: Some(partition), column })
    });
    points.chain((0..2).map(|column| Question { table: named, partition: None, column })).collect()
}

fn checked(fs: &SimulatedFs) -> CheckReport {
    let fs: FsRef = Arc::new(fs.clone());
    check(&fs, Path::new(DIR), &mut |_| {}).expect("can be checked")
}

fn files(fs: &SimulatedFs, part: &str) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join(part);
    let entries = fs.list(&dir).expect("listed").into_iter();
    let says_something = |entry: &DirEntry| !entry.is_dir && entry.name != "LOCK" && entry.name != "reserve";
    entries.filter(says_something).map(|entry| dir.join(entry.name)).collect()
}

fn length(fs: &SimulatedFs, path: &Path) -> u64 {
    fs.open(path, Access::Read).and_then(|file| file.length()).expect("a file")
}

/// Bits all over a file: every byte if `stride` is 1.
fn bits(length: u64, stride: u64) -> impl Iterator<Item = u64> {
    (0..length).step_by(stride as usize).map(move |byte| byte * 8 + byte / stride % 8)
}

#[test]
fn a_sound_store_has_no_damage_and_everything_was_looked_at() {
    let (fs, ..) = sample();
    let mut last = 0;
    let shared: FsRef = Arc::new(fs.clone());
    let report = check(&shared, Path::new(DIR), &mut |progress| {
        assert!(progress.done_bytes >= last, "progress does not go back");
        last = progress.done_bytes;
    })
    .expect("can be checked");
    assert_eq!((report.damage.as_slice(), report.notes.as_slice()), (&[][..], &[][..]));
    assert_eq!((report.tables, report.rowsets, report.log_records), (2, 3, 2));
    assert_eq!(report.rows, u64::from(SERIES) * 150 + 1500);
    let rowsets: u64 = files(&fs, "rowsets").iter().map(|file| length(&fs, file)).sum();
    assert!(report.bytes > rowsets);
}

#[test]
fn a_bit_flipped_in_a_rowset_is_found_and_costs_only_what_it_hit() {
    let (fs, points, named) = sample();
    let questions = questions(points, named);
    let truth: Vec<_> = {
        let engine = open(&fs.snapshot()).expect("opens");
        questions.iter().map(|question| ask(&engine, *question).expect("an answer")).collect()
    };
    let (mut failures, mut flips) = (0, 0);
    let mut lost_by_file = Vec::new();
    for file in files(&fs, "rowsets") {
        let mut lost: Vec<Question> = Vec::new();
        let length = length(&fs, &file);
        // Header and first blocks, footer and tail, and something of every block between.
        let (edges, between) = if std::env::var_os("NYALA_FLIP_ALL").is_some() { (1, 17) } else { (7, 1499) };
        let ends = bits(120, edges).chain(bits(400, edges).map(|bit| (length - 400) * 8 + bit));
        for bit in ends.chain(bits(length, between)) {
            let damaged = fs.snapshot();
            damaged.flip_bit(&file, bit).expect("flipped");
            let report = checked(&damaged);
            assert!(report.damage_count > 0, "bit {bit} of {file:?} is not found");
            assert!(report.damage.iter().all(|damage| damage.file == file), "{:?}", report.damage);
            let engine = open(&damaged).expect("a damaged rowset keeps no store from opening");
            for (question, truth) in questions.iter().zip(&truth) {
                match ask(&engine, *question) {
                    Ok(answer) => assert_eq!(&answer, truth, "bit {bit} of {file:?}: {question:?}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                        assert_eq!(error.place().map(|place| &place.file), Some(&file), "{error}");
                        failures += 1;
                        if !lost.contains(question) {
                            lost.push(*question);
                        }
                    }
                }
            }
            flips += 1;
        }
        // A file holds one partition of one table: nothing else is ever lost with it.
        let first = lost.first().expect("some bit hits something");
        assert!(lost.iter().all(|q| (q.table, q.partition) == (first.table, first.partition)), "{lost:?}");
        lost_by_file.push((first.table, first.partition));
    }
    lost_by_file.dedup();
    assert_eq!(lost_by_file.len(), 3, "each file is its own partition");
    // Most bits are in the block of one column.
    assert!(failures < flips * 4, "{failures} failures of {flips} flips");
}

#[test]
fn a_bit_flipped_in_the_log_is_found_and_costs_only_its_record() {
    let (fs, points, named) = sample();
    let log = files(&fs, "wal").into_iter().find(|file| file.extension().is_some_and(|e| e == "wal"));
    let log = log.expect("a segment");
    let written = {
        let file = fs.open(&log, Access::Read).expect("opens");
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("read");
        bytes.iter().rposition(|byte| *byte != 0).expect("not empty") as u64 + 1
    };
    let sound = open(&fs.snapshot()).expect("opens");
    let names = |engine: &Engine| -> usize {
        let column = Question { table: named, partition: None, column: 0 };
        ask(engine, column).expect("an answer").iter().map(|array| array.len()).sum()
    };
    let all = names(&sound);
    // The frame of the end mark is the last thing: it carries no data.
    let records_end = written.next_multiple_of(8) - 32;
    let mut lost = 0;
    for bit in bits(64, 1).chain(bits(records_end, 2003)) {
        let damaged = fs.snapshot();
        damaged.flip_bit(&log, bit).expect("flipped");
        let report = checked(&damaged);
        assert!(report.damage_count > 0, "bit {bit} is not found");
        assert!(report.damage.iter().all(|damage| damage.file == log), "{:?}", report.damage);
        let engine = open(&damaged).expect("a damaged log keeps no store from opening");
        assert!(!engine.recovery.damage.is_empty(), "bit {bit}");
        let found = names(&engine);
        assert!(found == all || found == 1500, "{found} names");
        lost += usize::from(found < all);
        ask(&engine, Question { table: points, partition: Some(0), column: 2 }).expect("an answer");
    }
    assert!(lost > 0);
}

#[test]
fn a_bit_flipped_in_the_manifest_is_found_and_keeps_the_store_from_guessing() {
    let (fs, ..) = sample();
    let manifest = files(&fs, "").pop().expect("a manifest");
    let written = {
        let file = fs.open(&manifest, Access::Read).expect("opens");
        let mut bytes = vec![0; file.length().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("read");
        bytes.iter().rposition(|byte| *byte != 0).expect("not empty") as u64 + 1
    };
    let edits_end = written.next_multiple_of(8) - 32;
    for bit in bits(edits_end, 11) {
        let damaged = fs.snapshot();
        damaged.flip_bit(&manifest, bit).expect("flipped");
        let report = checked(&damaged);
        assert!(report.damage.iter().any(|damage| damage.file == manifest), "bit {bit} is not found");
        let error = open(&damaged).err().expect("does not open");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.place().map(|place| &place.file), Some(&manifest), "{error}");
    }
}

#[test]
fn missing_and_foreign_files_are_named() {
    let (fs, points, named) = sample();
    let rowset = files(&fs, "rowsets").remove(0);
    let lost = fs.snapshot();
    lost.remove(&rowset).expect("removed");
    lost.open(Path::new("/data/rowsets/00000000000000ff.rowset"), Access::Create).expect("created");
    lost.open(Path::new("/data/rowsets/hello"), Access::Create).expect("created");
    let report = checked(&lost);
    assert_eq!(report.damage.len(), 1);
    assert!(report.damage[0].file == rowset && report.damage[0].message.contains("missing"));
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    let engine = open(&lost).expect("opens");
    let asked = questions(points, named);
    let failed: Vec<_> = asked.iter().filter(|question| ask(&engine, **question).is_err()).collect();
    assert!(!failed.is_empty() && failed.len() < asked.len());

    let without = fs.snapshot();
    without.remove(&files(&fs, "").pop().expect("a manifest")).expect("removed");
    let report = checked(&without);
    assert!(report.damage[0].message.contains("no manifest"));
    assert_eq!((report.rowsets, report.damage_count), (3, 1), "the rowsets are sound: {:?}", report.damage);
    assert!(report.column_blocks > 0);
}

#[test]
fn a_store_in_use_and_what_is_no_store_are_refused() {
    let (fs, ..) = sample();
    let engine = open(&fs).expect("opens");
    let shared: FsRef = Arc::new(fs.clone());
    let error = check(&shared, Path::new(DIR), &mut |_| {}).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    drop(engine);
    check(&shared, Path::new(DIR), &mut |_| {}).expect("checked");
    fs.create_dirs(Path::new("/other")).expect("a directory");
    let error = check(&shared, Path::new("/other"), &mut |_| {}).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert!(!fs.exists(Path::new("/other/LOCK")).expect("asked"), "nothing is left there");
}
