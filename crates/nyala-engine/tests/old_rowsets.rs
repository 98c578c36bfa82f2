//! Rowsets of every version that knows last rows, of series and of keyed tables: every cell that was written is read.
//!
//! `tests/formats/rowsets-v2` was written by the last version before rowsets said where they come from, with the same
//! tables and batches as here. The ignored test wrote the others, each for the version of its time; a new version adds
//! directories.

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::BooleanBuffer;
use nyala_core::arrays::value_at;
use nyala_core::schema::Partitioning;
use nyala_core::store::battery::compare_stores;
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    Alteration, CellColumn, DeleteMode, Direction, Freshness, Operation, Order, RowSelection, ScanRequest,
    Store, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Result, TableId, TableSchema, Value};
use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::{Engine, EngineOptions, block_on, check};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The types that columns outside the keys have.
const TYPES: [ColumnType; 14] = [
    ColumnType::Bool,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal { precision: 38, scale: 4 },
    ColumnType::String,
    ColumnType::Binary,
    ColumnType::Date,
    ColumnType::Timestamp,
];

/// Key columns and other columns by type, and the number of rows.
type Table = (&'static str, &'static [ColumnType], &'static [ColumnType], i64);

/// Points of series with enough rows for last rows, a keyed table with a column of each type, one with nearly a group of
/// rows, and one that is divided by time.
const TABLES: [Table; 4] = [
    ("points", &[ColumnType::UInt32, ColumnType::Timestamp], &TYPES, 210),
    ("types", &[ColumnType::String, ColumnType::Int64], &TYPES, 60),
    ("groups", &[ColumnType::Int64], &[ColumnType::Int64], 1100),
    ("times", &[ColumnType::Timestamp, ColumnType::Binary], &[ColumnType::String], 40),
];

/// A keyed table with several groups in each rowset: in version 3 four of 1024 rows in the first, two in the second. Each key begins
/// with a string, so first keys of groups have several lengths.
const SEVERAL_GROUPS: [Table; 1] =
    [("several", &[ColumnType::String, ColumnType::Int64], &[ColumnType::Int32, ColumnType::String], 4000)];

/// A directory that is kept: its name, the version of its rowsets, its tables, and the most groups of a rowset.
struct Kept {
    name: &'static str,
    version: u32,
    tables: &'static [Table],
    groups_max: u32,
}

const KEPT: [Kept; 5] = [
    Kept { name: "rowsets-v2", version: 2, tables: &TABLES, groups_max: 1 },
    Kept { name: "rowsets-v3", version: 3, tables: &TABLES, groups_max: 1 },
    Kept { name: "rowsets-v3-groups", version: 3, tables: &SEVERAL_GROUPS, groups_max: 4 },
    Kept { name: "rowsets-v4", version: 4, tables: &TABLES, groups_max: 1 },
    Kept { name: "rowsets-v4-groups", version: 4, tables: &SEVERAL_GROUPS, groups_max: 4 },
];

fn schema((name, keys, types, _): Table) -> TableSchema {
    if name == "points" {
        return TableSchema::measurement(name, 1 << 30);
    }
    let columns = (0..).zip(keys.iter().chain(types)).map(|(id, column_type)| {
        let column = ColumnSchema::new(ColumnId(id), format!("column{id}"), *column_type);
        if (id as usize) < keys.len() { column.required() } else { column }
    });
    let key = (0..keys.len() as u32).map(ColumnId).collect();
    let schema = TableSchema::keyed(name, columns.collect(), key);
    match name {
        "times" => TableSchema { partitioning: Partitioning::by_time(1 << 14), ..schema },
        _ => schema,
    }
}

/// A value of a type; numbers that differ need not give values that differ.
fn value(column_type: ColumnType, number: i64) -> Value {
    match column_type {
        ColumnType::Bool => Value::Bool(number % 3 == 0),
        ColumnType::Int8 => Value::Int(number * 7 % 128),
        ColumnType::Int16 => Value::Int(number * -311 % 32_000),
        ColumnType::Int32 | ColumnType::Date => Value::Int(number * 100_003 % 2_000_000_000),
        ColumnType::Int64 => Value::Int(number * number * -31 + 7),
        ColumnType::UInt32 => Value::UInt(number.unsigned_abs() * 1_000_003 % 4_000_000_000),
        ColumnType::UInt64 => Value::UInt(u64::MAX - number.unsigned_abs()),
        ColumnType::Float32 | ColumnType::Float64 => Value::Float(number as f64 / 4.0 - 9.0),
        ColumnType::Decimal { .. } => Value::Decimal(i128::from(number) * -(1 << 90)),
        ColumnType::String => Value::String(format!("text {number}").split_off(number as usize % 5)),
        ColumnType::Binary => Value::Binary(vec![number as u8; number as usize % 4]),
        ColumnType::Timestamp => Value::Int(number * 1_000_000_007 - 5),
    }
}

fn array(column_type: ColumnType, cells: &[Option<Value>]) -> ArrayRef {
    macro_rules! collect {
        ($array:ty, $variant:ident, $native:ty) => {{
            let cells = cells.iter().map(|cell| match cell {
                Some(Value::$variant(value)) => Some(value.clone() as $native),
                _ => None,
            });
            cells.collect::<$array>()
        }};
    }
    match column_type {
        ColumnType::Bool => Arc::new(collect!(BooleanArray, Bool, bool)),
        ColumnType::Int8 => Arc::new(collect!(Int8Array, Int, i8)),
        ColumnType::Int16 => Arc::new(collect!(Int16Array, Int, i16)),
        ColumnType::Int32 => Arc::new(collect!(Int32Array, Int, i32)),
        ColumnType::Int64 => Arc::new(collect!(Int64Array, Int, i64)),
        ColumnType::UInt32 => Arc::new(collect!(UInt32Array, UInt, u32)),
        ColumnType::UInt64 => Arc::new(collect!(UInt64Array, UInt, u64)),
        ColumnType::Float32 => Arc::new(collect!(Float32Array, Float, f32)),
        ColumnType::Float64 => Arc::new(collect!(Float64Array, Float, f64)),
        ColumnType::Decimal { precision, scale } => {
            let array = collect!(Decimal128Array, Decimal, i128).with_precision_and_scale(precision, scale);
            Arc::new(array.expect("the numbers are small enough"))
        }
        ColumnType::String => Arc::new(collect!(StringArray, String, String)),
        ColumnType::Binary => Arc::new(collect!(BinaryArray, Binary, Vec<u8>)),
        ColumnType::Date => Arc::new(collect!(Date32Array, Int, i32)),
        ColumnType::Timestamp => Arc::new(collect!(TimestampNanosecondArray, Int, i64)),
    }
}

/// The key of a row, in one array for each column.
fn keys((name, types, _, _): Table, rows: &[i64]) -> Vec<ArrayRef> {
    let of_row = |row: i64| match name {
        "points" => vec![Value::UInt(row as u64 / 70), Value::Int(row % 70 * 10)],
        "types" => vec![Value::String(format!("key {}", row / 7)), Value::Int(row % 7 - 3)],
        "groups" => vec![Value::Int(row * 3)],
        "several" => vec![Value::String("k".repeat(row as usize / 500)), Value::Int(row % 500 * 7)],
        _ => vec![Value::Int(row * 777), Value::Binary(vec![0, row as u8])],
    };
    let rows: Vec<Vec<Value>> = rows.iter().map(|row| of_row(*row)).collect();
    let column = |index: usize| rows.iter().map(|row| Some(row[index].clone())).collect::<Vec<_>>();
    types.iter().enumerate().map(|(index, key_type)| array(*key_type, &column(index))).collect()
}

/// Writes some rows. Of the cells outside the key every fifth is absent, and every seventh NULL.
fn upsert(id: TableId, table: Table, rows: &[i64], salt: i64) -> Operation {
    let (_, keys_types, types, _) = table;
    let mut columns: Vec<CellColumn> = (0..)
        .zip(keys(table, rows))
        .map(|(column, values)| CellColumn { column: ColumnId(column), values, null_cells: None })
        .collect();
    for (column, column_type) in (keys_types.len() as i64..).zip(types) {
        let kind = |row: i64| row + column + salt;
        let cells: Vec<Option<Value>> = rows
            .iter()
            .map(|row| (kind(*row) % 5 > 0 && kind(*row) % 7 > 0).then(|| value(*column_type, row + salt)))
            .collect();
        let values = array(*column_type, &cells);
        let is_null = |at: usize| values.is_null(at) && kind(rows[at]) % 7 == 0;
        let null_cells = Some(BooleanBuffer::collect_bool(rows.len(), is_null));
        columns.push(CellColumn { column: ColumnId(column as u32), values, null_cells });
    }
    Operation::Upsert(Upsert { table: id, mode: WriteMode::Upsert, columns })
}

fn create(store: &dyn Store, tables: &[Table]) -> Result<Vec<TableId>> {
    let create = |table: Table| {
        let id = block_on(store.create_table(schema(table)))?;
        if table.0 == "points" {
            let fields = (2..).zip(table.2);
            let fields = fields.map(|(id, field)| Alteration::add_column(format!("column{id}"), *field));
            block_on(store.alter_table(id, fields.collect()))?;
        }
        Ok(id)
    };
    tables.iter().copied().map(create).collect()
}

/// All that is written; after each item the store is flushed. The second writes some rows again, deletes others and
/// brings new ones.
fn batches(ids: &[TableId], tables: &[Table]) -> [Vec<WriteBatch>; 2] {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (id, table) in ids.iter().zip(tables.iter().copied()) {
        let rows = |wanted: &dyn Fn(i64) -> bool| (0..table.3).filter(|row| wanted(*row)).collect::<Vec<_>>();
        let batch = |operation| WriteBatch { operations: vec![operation] };
        first.push(batch(upsert(*id, table, &rows(&|row| row % 10 < 9), 0)));
        second.push(batch(upsert(*id, table, &rows(&|row| row % 4 == 1), 1000)));
        let keys = keys(table, &rows(&|row| row % 6 == 2));
        second.push(batch(Operation::DeleteKeys { table: *id, mode: DeleteMode::Blind, keys }));
    }
    [first, second]
}

fn open(data_dir: &Path) -> Result<Engine> {
    let options = EngineOptions::new(data_dir);
    Engine::open(EngineOptions { maintenance_threads: 0, wal_segment_bytes: 4096, ..options })
}

fn path_of(kept: &Kept) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(kept.name)
}

/// The groups of a rowset, as the pages of its footer count them.
fn groups(rowset: &[u8]) -> u32 {
    let number = |at: usize| u32::from_le_bytes(rowset[at..at + 4].try_into().expect("four bytes"));
    let footer = number(rowset.len() - 24) as usize;
    let columns = number(footer + 9) as usize;
    let last_key = footer + 13 + columns * 7;
    let mut at = last_key + 4 + number(last_key) as usize + 16;
    let pages = number(at);
    at += 4;
    let mut groups = 0;
    for _ in 0..pages {
        groups += number(at);
        at += 28;
        at += 4 + number(at) as usize + 16 * (columns + 1);
    }
    groups
}

/// The files of rowsets below a directory, and a copy of everything else too.
fn copy(from: &Path, to: &Path, rowsets: &mut Vec<PathBuf>) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (path, target) = { entry.map(|entry| (entry.path(), to.join(entry.file_name())))? };
        if path.is_dir() {
            copy(&path, &target, rowsets)?;
        } else {
            std::fs::copy(&path, &target)?;
            rowsets.extend(path.extension().is_some_and(|extension| extension == "rowset").then_some(path));
        }
    }
    Ok(())
}

/// Compares scans between rows of a keyed table, in both directions: from and to a place in each group, and its ends.
fn compare_ranges(stores: [&dyn Store; 2], ids: [TableId; 2], table: Table, when: &str) -> Result<()> {
    let columns: Vec<ColumnId> = (0..(table.1.len() + table.2.len()) as u32).map(ColumnId).collect();
    let places: Vec<i64> = (0..table.3).step_by(170).collect();
    let key = |row: i64| {
        let keys = keys(table, &[row]);
        keys.iter().map(|column| value_at(column, 0).expect("keys have values")).collect::<Vec<_>>()
    };
    let rows_of = |store: &dyn Store, request: ScanRequest| {
        block_on(async {
            let mut stream = store.snapshot(Freshness::Latest).await?.scan(request).await?;
            let mut rows = Vec::new();
            while let Some(batch) = stream.next().await? {
                let cells =
                    |row| batch.columns.iter().map(|column| value_at(column, row)).collect::<Vec<_>>();
                rows.extend((0..batch.rows).map(cells));
            }
            Result::Ok(rows)
        })
    };
    for (first, last) in
        places.iter().flat_map(|first| [0, 1, 7].map(|more| (*first, *first + more * 170 + 3)))
    {
        for direction in [Direction::Forward, Direction::Backward] {
            for end in [Bound::Excluded(key(last)), Bound::Included(key(first))] {
                let request = |id| {
                    let rows = RowSelection::Keys { start: Bound::Included(key(first)), end: end.clone() };
                    let request = ScanRequest::by_key(id, rows, columns.clone());
                    ScanRequest { order: Order::Key(direction), ..request }
                };
                let found = rows_of(stores[0], request(ids[0]))?;
                assert_eq!(found, rows_of(stores[1], request(ids[1]))?, "{when}: {first} to {end:?}");
            }
        }
    }
    Ok(())
}

fn is_read(kept: &Kept) -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut rowsets = Vec::new();
    copy(&path_of(kept), &data_dir, &mut rowsets).expect("copied");
    // Two of each table, and more of one that is divided.
    assert!(rowsets.len() >= 2 * kept.tables.len(), "{rowsets:?}");
    let mut groups_max = 0;
    for path in rowsets {
        let bytes = std::fs::read(&path).expect("is read");
        assert_eq!(bytes[8..12], kept.version.to_le_bytes(), "{path:?}");
        groups_max = groups_max.max(groups(&bytes));
    }
    assert_eq!(groups_max, kept.groups_max);
    let real: FsRef = Arc::new(RealFs);
    assert_eq!(check(&real, &data_dir, &mut |_| {})?.damage, []);

    let engine = open(&data_dir)?;
    let model = MemoryStore::model_of(engine.capabilities());
    let models = create(&model, kept.tables)?;
    for batch in batches(&models, kept.tables).into_iter().flatten() {
        block_on(model.write(batch))?;
    }
    let found: Vec<TableId> = (0..kept.tables.len() as u32).map(TableId).collect();
    let pairs: Vec<_> = found.iter().copied().zip(models.iter().copied()).collect();
    let agree = |when: &str| {
        block_on(compare_stores(&engine, &model, &pairs)).unwrap_or_else(|error| panic!("{when}: {error}"));
        for ((of_engine, of_model), table) in pairs.iter().zip(kept.tables) {
            if table.0 != "points" {
                compare_ranges([&engine, &model], [*of_engine, *of_model], *table, when)?;
            }
        }
        Result::Ok(())
    };
    agree("as it was kept")?;
    for ((of_engine, of_model), table) in pairs.iter().zip(kept.tables) {
        let rows: Vec<i64> = (0..table.3).step_by(9).collect();
        let batch = |id: &TableId| WriteBatch { operations: vec![upsert(*id, *table, &rows, 7)] };
        block_on(engine.write(batch(of_engine)))?;
        block_on(model.write(batch(of_model)))?;
    }
    agree("with newer rows in memory")?;
    engine.flush()?;
    agree("with newer rowsets")?;
    engine.compact()?;
    agree("merged into rowsets of this version")?;
    drop(engine);
    assert_eq!(check(&real, &data_dir, &mut |_| {})?.damage, []);
    Ok(())
}

#[test]
fn rowsets_of_version_2_are_read() -> Result<()> {
    is_read(&KEPT[0])
}

#[test]
fn rowsets_of_version_3_are_read() -> Result<()> {
    is_read(&KEPT[1])
}

#[test]
fn keyed_rowsets_of_several_groups_of_version_3_are_read() -> Result<()> {
    is_read(&KEPT[2])
}

#[test]
fn rowsets_of_this_version_are_read() -> Result<()> {
    is_read(&KEPT[3])
}

#[test]
fn keyed_rowsets_of_several_groups_are_read() -> Result<()> {
    is_read(&KEPT[4])
}

#[test]
#[ignore = "writes the kept directories of the version that this program writes, unless they are there"]
fn write_rowsets() -> Result<()> {
    for kept in KEPT.iter().filter(|kept| kept.version == 4 && !path_of(kept).exists()) {
        let engine = open(&path_of(kept))?;
        for batches in batches(&create(&engine, kept.tables)?, kept.tables) {
            for batch in batches {
                block_on(engine.write(batch))?;
            }
            engine.flush()?;
        }
    }
    Ok(())
}
