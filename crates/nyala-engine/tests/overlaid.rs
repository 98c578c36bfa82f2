//! Rowsets with few newer rows above them: whatever is asked of encoded blocks, the changed rows count as they are now.

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::BooleanBuffer;
use nyala_core::store::battery::{Generator, compare_aggregate, compare_scan};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    AggregateFunction, AggregateRequest, Alteration, CellColumn, Comparison, DeleteMode, Direction, Measure,
    Operation, Order, Predicate, RowSelection, ScanRequest, SeriesSet, Store, Upsert, Windows, WriteBatch,
    WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, SeriesId, TableId, TableSchema, TimeRange, Value};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::sync::Arc;

const SERIES: u64 = 6;
const ROWS: u64 = 300;
const STEP_NS: i64 = 10;
const TYPES: [ColumnType; 5] =
    [ColumnType::Int64, ColumnType::UInt64, ColumnType::Float64, ColumnType::Bool, ColumnType::String];
/// The first column that is no key.
const FIRST: u32 = 2;

fn create(store: &dyn Store) -> Result<TableId> {
    block_on(async {
        let table = store.create_table(TableSchema::measurement("cpu", 1_000_000)).await?;
        let fields = TYPES.iter().map(|kind| Alteration::add_column(format!("{kind:?}"), *kind));
        store.alter_table(table, fields.collect()).await?;
        Ok(table)
    })
}

/// Random values, of which some do not exist.
fn values(random: &mut Generator, column_type: ColumnType, rows: usize, missing: u64) -> ArrayRef {
    let cells: Vec<Option<u64>> =
        (0..rows).map(|_| (missing == 0 || !random.chance(missing)).then(|| random.below(50))).collect();
    let cells = cells.into_iter();
    match column_type {
        ColumnType::Int64 => Arc::new(cells.map(|cell| Some(cell? as i64 - 25)).collect::<Int64Array>()),
        ColumnType::UInt64 => Arc::new(cells.collect::<UInt64Array>()),
        ColumnType::Float64 => {
            let float = |cell| if cell == 7 { f64::NAN } else { cell as f64 / 7.0 };
            Arc::new(cells.map(|cell| cell.map(float)).collect::<Float64Array>())
        }
        ColumnType::Bool => Arc::new(cells.map(|cell| Some(cell? % 2 == 0)).collect::<BooleanArray>()),
        _ => Arc::new(cells.map(|cell| Some(format!("v{}", cell?))).collect::<StringArray>()),
    }
}

/// The keys of some rows, as columns.
fn keys(rows: &[(u32, i64)]) -> [ArrayRef; 2] {
    let times = TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1));
    [Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0))), Arc::new(times)]
}

fn upsert(table: TableId, rows: &[(u32, i64)], cells: Vec<CellColumn>) -> Operation {
    let columns = (0..).zip(keys(rows)).map(|(id, values)| CellColumn::whole(ColumnId(id), values));
    let columns = columns.chain(cells).collect();
    Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })
}

/// Regular rows of all series, sometimes with cells that do not exist.
fn regular(random: &mut Generator, table: TableId, rows: std::ops::Range<u64>) -> Operation {
    let keys: Vec<_> = (0..SERIES as u32)
        .flat_map(|series| rows.clone().map(move |row| (series, row as i64 * STEP_NS)))
        .collect();
    let missing = [0, 0, 9][random.below(3) as usize];
    let cells = (FIRST..).zip(TYPES).filter(|_| !random.chance(8)).collect::<Vec<_>>();
    let cells = cells.into_iter().map(|(id, kind)| CellColumn {
        column: ColumnId(id),
        values: values(random, kind, keys.len(), missing),
        null_cells: None,
    });
    upsert(table, &keys, cells.collect())
}

/// A change of few rows: of some of their cells, or their end.
fn correction(random: &mut Generator, table: TableId, rows: u64) -> Operation {
    let mut changed = Vec::new();
    for series in 0..SERIES as u32 {
        for _ in 0..random.below(rows / 40 + 1) {
            // Some are new.
            let offset = if random.chance(5) { 3 } else { 0 };
            changed.push((series, random.below(rows) as i64 * STEP_NS + offset));
        }
    }
    changed.sort_unstable();
    changed.dedup();
    if random.chance(3) {
        return Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys: keys(&changed).to_vec() };
    }
    let some: Vec<_> = (FIRST..).zip(TYPES).filter(|_| random.chance(2)).collect();
    let cells = some.into_iter().map(|(id, kind)| {
        let values = values(random, kind, changed.len(), 3);
        let is_null = |row| !values.is_valid(row) && random.chance(2);
        let null_cells = Some(BooleanBuffer::collect_bool(changed.len(), is_null));
        CellColumn { column: ColumnId(id), values, null_cells }
    });
    upsert(table, &changed, cells.collect())
}

fn aggregates(random: &mut Generator, table: TableId) -> AggregateRequest {
    use AggregateFunction::{Count, First, Increase, Last, Max, Min, Sum};
    let mut measures = vec![Measure { column: ColumnId(1), function: Count }];
    let only = random.chance(2).then(|| [Min, Max][random.below(2) as usize]);
    for (id, kind) in (FIRST..).zip(TYPES) {
        let functions: &[AggregateFunction] = match kind {
            ColumnType::Bool => &[Count, First, Last, Min, Max],
            ColumnType::String => &[Count, First, Last],
            _ => &[Count, Sum, Min, Max, First, Last, Increase],
        };
        let measure = |function: &AggregateFunction| Measure { column: ColumnId(id), function: *function };
        measures.extend(functions.iter().map(measure));
    }
    measures.push(Measure { column: ColumnId(1), function: Last });
    if let Some(only) = only {
        measures.retain(|measure| measure.function == only);
    }
    let end_ns = ROWS as i64 * STEP_NS;
    let count = 1 + random.below(40) as usize;
    AggregateRequest {
        table,
        series: (0..SERIES as u32).map(|id| (SeriesId(id), id)).collect(),
        groups: SERIES as usize,
        time: if random.chance(2) { TimeRange::ALL } else { TimeRange::new(105, end_ns - 95) },
        windows: match count {
            1..10 => Windows::single(TimeRange::new(0, end_ns)),
            _ => Windows::Regular { start_ns: 7, width_ns: end_ns / count as i64, count },
        },
        predicates: Vec::new(),
        measures,
        times: random.chance(2),
    }
}

fn filtered(random: &mut Generator, table: TableId) -> ScanRequest {
    let bound = random.below(50);
    let (column, value) = match random.below(3) {
        0 => (FIRST, Value::Int(bound as i64 - 25)),
        1 => (FIRST + 1, Value::UInt(bound)),
        _ => (FIRST + 2, Value::Float(bound as f64 / 7.0)),
    };
    let comparison = [
        Comparison::Greater(value.clone()),
        Comparison::LessOrEqual(value.clone()),
        Comparison::NotEqual(value.clone()),
        Comparison::Equal(value),
        Comparison::IsNull,
    ];
    let comparison = comparison[random.below(5) as usize].clone();
    let columns = (1..FIRST + TYPES.len() as u32).filter(|_| !random.chance(3)).map(ColumnId).collect();
    let series = SeriesSet::Ids((0..SERIES as u32).filter(|_| !random.chance(4)).map(SeriesId).collect());
    let time = TimeRange::new(random.below(900) as i64, ROWS as i64 * STEP_NS);
    let direction = if random.chance(3) { Direction::Backward } else { Direction::Forward };
    ScanRequest {
        predicates: vec![Predicate { column: ColumnId(column), comparison }],
        order: Order::Key(direction),
        skip_empty_rows: random.chance(4),
        limit_per_prefix: random.chance(4).then(|| 1 + random.below(20) as usize),
        ..ScanRequest::by_key(table, RowSelection::Series { series, time }, columns)
    }
}

#[test]
fn changed_rows_count_as_they_are_now() -> Result<()> {
    for seed in 0..20 {
        let mut random = Generator::new(seed);
        let fs = Arc::new(SimulatedFs::new());
        let engine =
            Engine::open(EngineOptions { fs, maintenance_threads: 0, ..EngineOptions::new("/data") })?;
        let model = MemoryStore::model_of(engine.capabilities());
        let (table, model_table) = (create(&engine)?, create(&model)?);
        let apply = |operation: Operation| -> Result<()> {
            let model_operation = match operation.clone() {
                Operation::Upsert(upsert) => Operation::Upsert(Upsert { table: model_table, ..upsert }),
                Operation::DeleteKeys { mode, keys, .. } => {
                    Operation::DeleteKeys { table: model_table, mode, keys }
                }
            };
            block_on(engine.write(WriteBatch { operations: vec![operation] }))?;
            block_on(model.write(WriteBatch { operations: vec![model_operation] }))?;
            Ok(())
        };
        // One rowset, or two one after the other.
        let middle = ROWS - random.below(2) * 120;
        apply(regular(&mut random, table, 0..middle))?;
        engine.flush()?;
        if middle < ROWS {
            apply(regular(&mut random, table, middle..ROWS))?;
            engine.flush()?;
        }
        for _ in 0..4 {
            apply(correction(&mut random, table, ROWS))?;
            if random.chance(2) {
                engine.flush()?;
            }
            let (found, expected) = (engine.latest(), model.latest());
            for _ in 0..4 {
                let request = aggregates(&mut random, table);
                block_on(compare_aggregate(&*found, &*expected, model_table, &request))
                    .unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
                let request = filtered(&mut random, table);
                block_on(compare_scan(&*found, &*expected, model_table, &request))
                    .unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
            }
        }
    }
    Ok(())
}
