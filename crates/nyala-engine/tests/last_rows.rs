//! The newest row and the newest values of every series equal those of a read of all rows, whatever newer data lies
//! over the last rows that rowsets keep.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::aggregate::SelectedValues;
use nyala_core::store::{
    AggregateFunction, AggregateRequest, Alteration, CellColumn, Delete, DeleteMode, Direction, Measure,
    Operation, Order, PartialAggregate, RowSelection, ScanRequest, SeriesSet, Store, Upsert, Windows,
    WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, SeriesId, TableId, TableSchema, TimeRange};
use nyala_engine::fs::{FsRef, RealFs, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on, check};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SERIES: u32 = 5;
/// Enough of a series for its last row to be kept.
const ROWS: i64 = 100;

/// A row: series, time, the fields.
type Row = (u32, i64, Option<i64>, Option<f64>);
/// By series a time and a value.
type Values = Vec<Option<(i64, f64)>>;

fn options(fs: FsRef, dir: impl Into<PathBuf>) -> EngineOptions {
    EngineOptions { fs, maintenance_threads: 0, wal_segment_bytes: 64 << 10, ..EngineOptions::new(dir) }
}

fn create(engine: &Engine) -> Result<TableId> {
    let table = block_on(engine.create_table(TableSchema::measurement("points", 1_000_000)))?;
    let types = [(2, ColumnType::Int64), (3, ColumnType::Float64)];
    let added = types.map(|(id, column_type)| Alteration::add_column(format!("field{id}"), column_type));
    block_on(engine.alter_table(table, added.to_vec()))?;
    Ok(table)
}

fn keys(rows: &[Row]) -> [ArrayRef; 2] {
    [
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1))),
    ]
}

fn write(engine: &Engine, table: TableId, rows: &[Row]) -> Result<()> {
    let [series, times] = keys(rows);
    let fields: [ArrayRef; 2] = [
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2))),
        Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.3))),
    ];
    let [first, second] = fields;
    let columns = (0..).zip([series, times, first, second]);
    let cells = |(id, values)| CellColumn { column: ColumnId(id), values, null_cells: None };
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns: columns.map(cells).collect() };
    block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
}

fn delete(engine: &Engine, table: TableId, rows: &[Row]) -> Result<()> {
    let keys = keys(rows).to_vec();
    block_on(engine.write(WriteBatch {
        operations: vec![Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys }],
    }))
    .map(drop)
}

fn scan(engine: &Engine, table: TableId, skip_empty_rows: bool, newest: bool) -> Result<Vec<Row>> {
    let rows = RowSelection::Series { series: SeriesSet::All, time: TimeRange::ALL };
    let request = ScanRequest {
        skip_empty_rows,
        order: Order::Key(if newest { Direction::Backward } else { Direction::Forward }),
        limit_per_prefix: newest.then_some(1),
        ..ScanRequest::by_key(table, rows, [1, 2, 3].map(ColumnId).to_vec())
    };
    block_on(async {
        let mut stream = engine.latest().scan(request).await?;
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await? {
            let times = batch.columns[0].as_primitive::<TimestampNanosecondType>();
            let first = batch.columns[1].as_primitive::<Int64Type>();
            let second = batch.columns[2].as_primitive::<Float64Type>();
            let series =
                batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
            rows.extend(series.enumerate().map(|(row, series)| {
                let of = |array: &dyn Array| array.is_valid(row);
                let (a, b) = (of(first).then(|| first.value(row)), of(second).then(|| second.value(row)));
                (series, times.value(row), a, b)
            }));
        }
        rows.sort_by_key(|row| (row.0, row.1));
        Ok(rows)
    })
}

/// Per series the newest value of both fields together, and of the first alone.
fn last(engine: &Engine, table: TableId, fields: &[u32]) -> Result<Vec<Values>> {
    let measure = |id: &u32| Measure { column: ColumnId(*id), function: AggregateFunction::Last };
    let request = AggregateRequest {
        table,
        series: (0..SERIES).map(|series| (SeriesId(series), series)).collect(),
        groups: SERIES as usize,
        time: TimeRange::ALL,
        windows: Windows::single(TimeRange::ALL),
        predicates: Vec::new(),
        measures: fields.iter().map(measure).collect(),
        times: true,
    };
    let states = block_on(engine.latest().aggregate(request))?;
    let of = |state: &PartialAggregate| {
        let PartialAggregate::Selected(selected) = state else { panic!("a selecting function") };
        let value = |slot: usize| match &selected.values {
            SelectedValues::Int(values) => values[slot] as f64,
            SelectedValues::Float(values) => values[slot],
            _ => panic!("another type"),
        };
        let found = |slot: usize| selected.series[slot].map(|_| (selected.times_ns[slot], value(slot)));
        (0..SERIES as usize).map(found).collect()
    };
    Ok(states.measures.iter().map(of).collect())
}

/// Compares what is newest with all rows.
fn judge(engine: &Engine, table: TableId, what: &str) -> Result<()> {
    for skip_empty_rows in [false, true] {
        let all = scan(engine, table, skip_empty_rows, false)?;
        let of = |series| all.iter().rev().find(|row: &&Row| row.0 == series).copied();
        let newest: Vec<Row> = (0..SERIES).filter_map(of).collect();
        assert_eq!(scan(engine, table, skip_empty_rows, true)?, newest, "{what}, empty: {skip_empty_rows}");
        let valued = |series, value: &dyn Fn(&Row) -> Option<f64>| {
            let mut rows = all.iter().rev().filter(|row| row.0 == series);
            rows.find_map(|row| Some((row.1, value(row)?)))
        };
        let first: Vec<_> =
            (0..SERIES).map(|id| valued(id, &|row| row.2.map(|value| value as f64))).collect();
        let second: Vec<_> = (0..SERIES).map(|id| valued(id, &|row| row.3)).collect();
        assert_eq!(last(engine, table, &[2, 3])?, [first.clone(), second], "{what}");
        assert_eq!(last(engine, table, &[2])?, [first], "{what}");
    }
    Ok(())
}

/// Rows of all series at times from `from` on, every tenth nanosecond.
fn history(from: i64) -> Vec<Row> {
    let row = |series: u32, at: i64| (series, from + at * 10, Some(at), Some(at as f64 / 4.0));
    (0..SERIES).flat_map(|series| (0..ROWS).map(move |at| row(series, at))).collect()
}

#[test]
fn what_is_newest_is_what_all_rows_end_with() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(Arc::new(fs.clone()), "/data"))?;
    let table = create(&engine)?;
    let end = 20_000 + 10 * (ROWS - 1);
    write(&engine, table, &history(20_000))?;
    engine.flush()?;
    judge(&engine, table, "one rowset")?;
    // A rowset each, all with many rows per series: only few of these rows matter.
    let over = |rows: &[Row], what: &str| -> Result<()> {
        let filler = history(5_000).into_iter().map(|row| (row.0, row.1 - rows[0].1.abs() % 7, row.2, row.3));
        write(&engine, table, &filler.chain(rows.iter().copied()).collect::<Vec<_>>())?;
        judge(&engine, table, &format!("{what}, in memory"))?;
        engine.flush()?;
        judge(&engine, table, what)
    };
    over(&[(1, end, Some(-1), None)], "a cell of the last row written again")?;
    over(&[(2, end + 10, None, Some(0.5))], "a newer row with one value")?;
    over(&[(3, end + 10, None, None)], "a newer row without any")?;
    over(&[(0, end - 10, Some(77), None), (4, end + 500, Some(4), Some(4.0))], "rows before and after")?;
    let gone = [(2, end + 10), (0, end), (1, 20), (3, end + 700)];
    delete(&engine, table, &gone.map(|(series, time)| (series, time, None, None)))?;
    judge(&engine, table, "last rows deleted, in memory")?;
    over(&[(4, end + 500, None, Some(4.5))], "last rows deleted")?;
    let series = SeriesSet::Ids(Arc::new([SeriesId(1), SeriesId(4)]));
    let rows = RowSelection::Series { series, time: TimeRange::new(end - 100, i64::MAX) };
    block_on(engine.delete(Delete { table, rows, predicates: Vec::new() }))?;
    judge(&engine, table, "a range of times deleted")?;
    over(&[(1, end - 50, Some(5), None)], "written again")?;
    engine.compact()?;
    judge(&engine, table, "compacted")?;
    write(&engine, table, &history(5_000_000))?;
    judge(&engine, table, "another partition, in memory")?;
    engine.flush()?;
    judge(&engine, table, "another partition")?;
    drop(engine);
    let disk: FsRef = Arc::new(fs);
    let report = check(&disk, Path::new("/data"), &mut |_| {})?;
    assert_eq!(report.damage_count, 0, "{:?}", report.damage);
    Ok(())
}

#[test]
fn where_last_rows_are_given_up_half_way_none_is_an_older_one() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(Arc::new(fs.clone()), "/data"))?;
    let table = create(&engine)?;
    // More than a group of last rows, of series that are too short to have them kept.
    const SHORT: u32 = 8200;
    for from in [0, 100_i64] {
        let row = |series: u32, at: i64| (series, from + at * 10, Some(from + at), None);
        let rows: Vec<Row> = (0..SHORT).flat_map(|series| (0..10).map(move |at| row(series, at))).collect();
        write(&engine, table, &rows)?;
        engine.flush()?;
    }
    engine.compact()?;
    let newest: Vec<Row> = (0..SHORT).map(|series| (series, 190, Some(109), None)).collect();
    assert_eq!(scan(&engine, table, true, true)?, newest);
    drop(engine);
    let disk: FsRef = Arc::new(fs);
    assert_eq!(check(&disk, Path::new("/data"), &mut |_| {})?.damage_count, 0);
    Ok(())
}

fn kept(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/store-v{version}"))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, target) =
            (entry.as_ref().expect("is read").path(), to.join(entry.as_ref().expect("is read").file_name()));
        if entry.is_dir() { copy(&entry, &target)? } else { std::fs::copy(&entry, &target).map(drop)? }
    }
    Ok(())
}

#[test]
fn a_store_whose_rowsets_keep_no_last_rows_is_read() -> Result<()> {
    is_read(1)
}

#[test]
fn a_store_of_this_version_is_read() -> Result<()> {
    is_read(3)
}

fn is_read(version: u32) -> Result<()> {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("data");
    copy(&kept(version), &dir).expect("copied");
    let real: FsRef = Arc::new(RealFs);
    let report = check(&real, &dir, &mut |_| {})?;
    assert_eq!(
        (report.damage_count, report.rows),
        (0, u64::from(SERIES) * ROWS as u64),
        "{:?}",
        report.damage
    );
    let engine = Engine::open(options(real.clone(), &dir))?;
    let table = TableId(0);
    judge(&engine, table, "as it was kept")?;
    write(&engine, table, &history(500))?;
    engine.flush()?;
    judge(&engine, table, "a newer rowset over it")?;
    engine.compact()?;
    judge(&engine, table, "compacted")?;
    drop(engine);
    assert_eq!(check(&real, &dir, &mut |_| {})?.damage_count, 0);
    Ok(())
}

#[test]
#[ignore = "writes the kept store of the version that this program writes"]
fn write_store() -> Result<()> {
    let engine = Engine::open(options(Arc::new(RealFs), kept(3)))?;
    let table = create(&engine)?;
    assert_eq!(table, TableId(0));
    write(&engine, table, &history(0))?;
    engine.flush().map(drop)
}
