//! Rows of long strings: the memory of a scan is charged, and bounded by bytes, not only by rows.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array};
use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::{
    AggregateFunction, AggregateRequest, Alteration, CellColumn, Direction, Measure, Operation, Order,
    RowSelection, ScanRequest, Store, Upsert, Windows, WriteBatch, WriteMode,
};
use nyala_core::{
    ColumnId, ColumnSchema, ColumnType, ErrorKind, Result, SeriesId, TableId, TableSchema, TimeRange,
};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::sync::Arc;

fn options(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        ..EngineOptions::new("/data")
    }
}

const MIB: usize = 1 << 20;
/// A batch ends with the step that passes its 8 MiB: one of a few MiB.
const BATCH_BYTES_MAX: usize = 24 * MIB;
const TEXT: ColumnId = ColumnId(2);

/// A text of a MiB that says what it is.
fn text(key: i64, version: i64) -> String {
    let mut text = format!("{key}/{version}/");
    let rest = MIB - text.len();
    text.extend(std::iter::repeat_n('.', rest));
    text
}

fn name_of(text: &str) -> &str {
    text.split('.').next().unwrap_or_default()
}

struct Wide {
    engine: Engine,
    memory: Arc<MemoryBudget>,
    table: TableId,
    by_series: bool,
}

impl Wide {
    fn new(by_series: bool, memory_limit_bytes: u64) -> Result<Self> {
        let fs = SimulatedFs::new();
        let memory = MemoryBudget::new(memory_limit_bytes);
        let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
        let table = if by_series {
            let table = block_on(engine.create_table(TableSchema::measurement("t", 1 << 40)))?;
            let text = Alteration::add_column("text", ColumnType::String);
            block_on(engine.alter_table(table, vec![text]))?;
            table
        } else {
            let key = ColumnSchema::new(ColumnId(0), "k", ColumnType::Int64).required();
            let columns = vec![key, ColumnSchema::new(TEXT, "text", ColumnType::String)];
            block_on(engine.create_table(TableSchema::keyed("t", columns, vec![ColumnId(0)])))?
        };
        Ok(Self { engine, memory, table, by_series })
    }

    /// Writes a row: of a series-keyed table of a series at a time.
    fn write(&self, series: u32, key: i64, version: i64) -> Result<()> {
        let cells = |column, values: ArrayRef| CellColumn { column, values, null_cells: None };
        let mut columns = match self.by_series {
            true => vec![
                cells(ColumnId(0), Arc::new(UInt32Array::from(vec![series]))),
                cells(ColumnId(1), Arc::new(TimestampNanosecondArray::from(vec![key]))),
            ],
            false => vec![cells(ColumnId(0), Arc::new(Int64Array::from(vec![key])))],
        };
        columns.push(cells(TEXT, Arc::new(StringArray::from(vec![text(key, version)]))));
        let upsert = Upsert { table: self.table, mode: WriteMode::Upsert, columns };
        block_on(self.engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] })).map(drop)
    }

    /// The names of all texts; no batch is too large, and everything held is charged.
    fn scan(&self, order: Order) -> Result<Vec<String>> {
        let request = ScanRequest { order, ..ScanRequest::by_key(self.table, RowSelection::All, vec![TEXT]) };
        let memory = &self.memory;
        let names = block_on(async {
            let (mut stream, mut names) = (self.engine.latest().scan(request).await?, Vec::new());
            while let Some(batch) = stream.next().await? {
                let texts = batch.columns[0].as_string::<i32>();
                let bytes: usize = texts.offsets().lengths().sum();
                assert!(bytes <= BATCH_BYTES_MAX, "{order:?}: a batch of {} MiB", bytes / MIB);
                let charged = memory.used_bytes(Component::Query);
                assert!(charged >= bytes as u64, "{order:?}: {charged} bytes are charged, of {bytes}");
                names.extend((0..texts.len()).map(|row| name_of(texts.value(row)).to_owned()));
            }
            Result::Ok(names)
        });
        assert_eq!(memory.used_bytes(Component::Query), 0, "{order:?}: all is given back");
        names
    }

    fn check(&self, expected: &[String], when: &str) -> Result<()> {
        for direction in [Direction::Forward, Direction::Backward] {
            let mut orders = vec![Order::Key(direction)];
            if self.by_series {
                orders.push(Order::Time(direction));
            }
            for order in orders {
                let mut found = self.scan(order)?;
                if direction == Direction::Backward {
                    found.reverse();
                }
                assert!(found == expected, "{when}, {order:?}: {found:?}");
            }
        }
        Ok(())
    }
}

#[test]
fn scans_of_long_strings_come_in_batches_that_can_be_held() -> Result<()> {
    for by_series in [true, false] {
        let wide = Wide::new(by_series, 512 << 20)?;
        let expected = |versions: &dyn Fn(i64) -> i64| -> Vec<String> {
            (0..32).map(|key| format!("{key}/{}/", versions(key))).collect()
        };
        for key in 0..32 {
            wide.write(7, key, 0)?;
        }
        // Strings of replaced versions are not copied.
        for version in 1..6 {
            wide.write(7, 5, version)?;
        }
        let of_first = |key| if key == 5 { 5 } else { 0 };
        wide.check(&expected(&of_first), "in memory")?;
        assert!(wide.engine.flush()?);
        wide.check(&expected(&of_first), "flushed")?;
        // Every second row is written again: rows in memory and flushed rows must be merged.
        for key in (0..32).step_by(2) {
            wide.write(7, key, 99)?;
        }
        let of_second = |key| if key % 2 == 0 { 99 } else { of_first(key) };
        wide.check(&expected(&of_second), "merged")?;
        assert!(wide.engine.flush()?);
        wide.check(&expected(&of_second), "of two files")?;
        assert!(wide.engine.compact()?);
        wide.check(&expected(&of_second), "compacted")?;
    }
    Ok(())
}

#[test]
fn strings_of_one_time_that_do_not_fit_into_memory_are_refused() -> Result<()> {
    let wide = Wide::new(true, 64 << 20)?;
    for series in 0..70 {
        wide.write(series, 1000, 0)?;
        if series % 10 == 9 {
            assert!(wide.engine.flush()?);
        }
    }
    let error = wide.scan(Order::Time(Direction::Forward)).expect_err("70 MiB at one time");
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(error.message().contains("memory is full"), "{error}");
    // Series by series they are as good as any others.
    assert_eq!(wide.scan(Order::Key(Direction::Forward))?.len(), 70);
    Ok(())
}

/// Many rows of one series in memory are read some at a time, too.
#[test]
fn rows_of_one_series_in_memory_come_in_batches_that_can_be_held() -> Result<()> {
    const COLUMNS: u32 = 300;
    const ROWS: i64 = 24_000;
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = block_on(engine.create_table(TableSchema::measurement("t", 1 << 40)))?;
    let field = |id: u32| Alteration::add_column(format!("f{id}"), ColumnType::Int64);
    block_on(engine.alter_table(table, (0..COLUMNS).map(field).collect()))?;
    let cells = |column, values: ArrayRef| CellColumn { column: ColumnId(column), values, null_cells: None };
    for begin in (0..ROWS).step_by(4_000) {
        let times: Vec<i64> = (begin..begin + 4_000).collect();
        let mut columns = vec![
            cells(0, Arc::new(UInt32Array::from(vec![1; times.len()]))),
            cells(1, Arc::new(TimestampNanosecondArray::from(times.clone()))),
        ];
        let values: ArrayRef = Arc::new(Int64Array::from(times));
        columns.extend((0..COLUMNS).map(|id| cells(2 + id, values.clone())));
        let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
        block_on(engine.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }))?;
    }
    let check = |columns: u32, when: &str| -> Result<()> {
        let request =
            ScanRequest::by_key(table, RowSelection::All, (0..=columns).map(|id| ColumnId(1 + id)).collect());
        block_on(async {
            let (mut stream, mut times) = (engine.latest().scan(request).await?, Vec::new());
            while let Some(batch) = stream.next().await? {
                assert!(batch.rows <= ROWS as usize / 2, "{when}: a batch of {} rows", batch.rows);
                let of_batch = batch.columns[0].as_primitive::<arrow_array::types::TimestampNanosecondType>();
                let last = &batch.columns[batch.columns.len() - 1];
                if columns > 0 {
                    assert_eq!(
                        of_batch.values(),
                        last.as_primitive::<arrow_array::types::Int64Type>().values()
                    );
                }
                times.extend_from_slice(of_batch.values());
            }
            assert!(times == (0..ROWS).collect::<Vec<_>>(), "{when}");
            Result::Ok(())
        })
    };
    check(COLUMNS, "in memory")?;
    assert!(engine.flush()?);
    check(0, "flushed")
}

#[test]
fn selected_strings_are_charged_while_they_are_selected() -> Result<()> {
    let wide = Wide::new(true, 64 << 20)?;
    for time_ns in 0..70 {
        wide.write(7, time_ns, 0)?;
        if time_ns % 10 == 9 {
            assert!(wide.engine.flush()?);
        }
    }
    let first = |width_ns: i64| {
        let request = AggregateRequest {
            table: wide.table,
            series: [(SeriesId(7), 0)].into(),
            groups: 1,
            time: TimeRange::ALL,
            windows: Windows::Regular { start_ns: 0, width_ns, count: (70 / width_ns) as usize },
            predicates: Vec::new(),
            measures: vec![Measure { column: TEXT, function: AggregateFunction::First }],
            times: false,
        };
        let outcome = block_on(wide.engine.latest().aggregate(request));
        assert_eq!(wide.memory.used_bytes(Component::Query), 0, "all is given back");
        outcome
    };
    let error = first(1).expect_err("70 MiB");
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(error.message().contains("memory is full"), "{error}");
    assert_eq!(first(10)?.measures.len(), 1, "seven MiB");
    Ok(())
}
