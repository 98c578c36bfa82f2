//! The engine through its public face: what is written is there, also after reopening.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::{
    Alteration, CellColumn, Direction, Operation, Order, RowSelection, ScanRequest, Store, Upsert,
    WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, TableId, TableSchema};
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

fn points(table: TableId, rows: &[(u32, i64, Option<i64>)]) -> WriteBatch {
    let cells = |id, values| CellColumn { column: ColumnId(id), values, null_cells: None };
    let columns = vec![
        cells(0, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0))) as _),
        cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1))) as _),
        cells(2, Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2))) as _),
    ];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })] }
}

fn rows(engine: &Engine, table: TableId) -> Result<Vec<(u32, i64, Option<i64>)>> {
    block_on(async {
        let mut stream = engine
            .snapshot()
            .scan(ScanRequest {
                table,
                rows: RowSelection::All,
                columns: vec![ColumnId(1), ColumnId(2)],
                predicates: Vec::new(),
                skip_empty_rows: false,
                order: Order::Key(Direction::Forward),
                limit: None,
                limit_per_prefix: None,
            })
            .await?;
        let mut rows = Vec::new();
        while let Some(batch) = stream.next().await? {
            let times = batch.columns[0].as_primitive::<TimestampNanosecondType>();
            let values = batch.columns[1].as_primitive::<Int64Type>();
            let series =
                batch.series.iter().flat_map(|run| std::iter::repeat_n(run.series.0, run.rows as usize));
            rows.extend(series.zip(times.values()).zip(values).map(|((s, t), v)| (s, *t, v)));
        }
        Ok(rows)
    })
}

fn create(engine: &Engine) -> Result<TableId> {
    block_on(async {
        let table = engine.create_table(TableSchema::measurement("cpu", 1000)).await?;
        let field =
            Alteration::AddColumn { id: ColumnId(2), name: "v".into(), column_type: ColumnType::Int64 };
        engine.alter_table(table, vec![field]).await?;
        Ok(table)
    })
}

#[test]
fn rows_survive_flush_compaction_and_reopening() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    block_on(engine.write(points(table, &[(1, 10, Some(1)), (2, 1500, Some(2)), (1, 30, None)])))?;
    assert!(engine.flush()?);
    block_on(engine.write(points(table, &[(1, 20, Some(3)), (1, 10, None), (2, 1500, Some(9))])))?;
    let expected = [(1, 10, Some(1)), (1, 20, Some(3)), (1, 30, None), (2, 1500, Some(9))];
    assert_eq!(rows(&engine, table)?, expected);
    drop(engine);
    let engine = Engine::open(options(&fs.snapshot()))?;
    assert_eq!(engine.recovery().records, 1);
    assert_eq!(rows(&engine, table)?, expected);
    assert!(engine.flush()?);
    assert!(engine.compact()?);
    assert_eq!(rows(&engine, table)?, expected);
    assert_eq!(engine.stats().rowsets, 2, "one in each partition");
    Ok(())
}

#[test]
fn a_second_engine_on_the_directory_is_refused() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    assert!(Engine::open(options(&fs)).is_err());
    drop(engine);
    Engine::open(options(&fs)).map(drop)
}

#[test]
fn a_dropped_write_is_still_finished() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(options(&fs))?;
    let table = create(&engine)?;
    for time in 0..20 {
        let mut write = Box::pin(engine.write(points(table, &[(1, time, Some(time))])));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = write.as_mut().poll(&mut context);
        drop(write);
    }
    block_on(engine.write(points(table, &[(1, 100, Some(100))])))?;
    let found = rows(&engine, table)?;
    assert_eq!(found.len(), 21, "{found:?}");
    Ok(())
}
