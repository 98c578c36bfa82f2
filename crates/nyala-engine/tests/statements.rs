//! Statements that look before they write: how much memory they may hold, and which writers wait for them.

mod support;

use nyala_core::memory::{Component, MemoryBudget};
use nyala_core::store::{Comparison, Delete, Predicate, RowSelection, SeriesSet, Store, Update};
use nyala_core::{ColumnId, ErrorKind, Result, TableId, TableSchema, TimeRange, Value};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, block_on};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::{create, options, points, rows};

fn predicates() -> Vec<Predicate> {
    vec![Predicate { column: ColumnId(2), comparison: Comparison::GreaterOrEqual(Value::Int(0)) }]
}

fn update(table: TableId, rows: RowSelection, value: Option<Value>) -> Update {
    Update { table, rows, predicates: predicates(), assignments: vec![(ColumnId(2), value)] }
}

#[test]
fn a_statement_that_changes_more_rows_than_its_share_is_refused_and_changes_nothing() -> Result<()> {
    let fs = SimulatedFs::new();
    let memory = MemoryBudget::new(16 << 20);
    let engine = Engine::open(EngineOptions { memory: memory.clone(), ..options(&fs) })?;
    let table = create(&engine)?;
    for series in 0..6 {
        let written: Vec<_> = (0..40_000).map(|row| (series, row, Some(row))).collect();
        block_on(engine.write(points(table, &written)))?;
        assert!(engine.flush()?);
    }
    let before = rows(&engine, table)?;
    let refused = [
        block_on(engine.update(update(table, RowSelection::All, Some(Value::Int(-1))))).map(drop),
        block_on(engine.delete(Delete { table, rows: RowSelection::All, predicates: predicates() }))
            .map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("240 000 keys are more than 2 MiB");
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.message().contains("restrict it"), "{error}");
    }
    assert_eq!(memory.used_bytes(Component::Query), 0, "what was gathered is given back");
    assert_eq!(rows(&engine, table)?, before, "nothing was changed");
    let some = RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(0, 5_000) };
    assert_eq!(block_on(engine.update(update(table, some, Some(Value::Int(-1)))))?.affected, 30_000);
    let changed = rows(&engine, table)?.iter().filter(|row| row.2 == Some(-1)).count();
    assert_eq!(changed, 30_000);
    Ok(())
}

#[test]
fn writers_of_other_tables_go_on_while_a_statement_looks() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Arc::new(Engine::open(options(&fs))?);
    let table = create(&engine)?;
    let other = block_on(engine.create_table(TableSchema::measurement("mem", 1000)))?;
    let field = nyala_core::store::Alteration::add_column("v", nyala_core::ColumnType::Int64);
    block_on(engine.alter_table(other, vec![field]))?;
    block_on(engine.write(points(table, &[(1, 10, Some(1))])))?;
    let mut statement = pin!(engine.update(update(table, RowSelection::All, Some(Value::Int(7)))));
    let mut context = Context::from_waker(Waker::noop());
    // It pends before it looks, which may take long.
    assert!(statement.as_mut().poll(&mut context).is_pending());
    let (done, written) = channel();
    let writer = engine.clone();
    std::thread::spawn(move || {
        let written = block_on(writer.write(points(other, &[(1, 10, Some(1))])));
        // A flush, too.
        done.send(written.and_then(|_| writer.flush())).expect("is awaited");
    });
    let written =
        written.recv_timeout(Duration::from_secs(60)).expect("another table's writer waits for a statement");
    assert!(written?);
    // A writer of its table waits: what the statement finds is what it changes.
    let mut same = pin!(engine.write(points(table, &[(2, 20, Some(2))])));
    for _ in 0..3 {
        assert!(matches!(same.as_mut().poll(&mut context), Poll::Pending));
    }
    assert_eq!(block_on(statement)?.affected, 1);
    block_on(same)?;
    assert_eq!(rows(&engine, table)?, [(1, 10, Some(7)), (2, 20, Some(2))]);
    Ok(())
}

#[test]
fn a_long_text_set_in_many_rows_is_bounded_too() -> Result<()> {
    let fs = SimulatedFs::new();
    let engine = Engine::open(EngineOptions { memory: MemoryBudget::new(64 << 20), ..options(&fs) })?;
    let table = create(&engine)?;
    let field = nyala_core::store::Alteration::add_column("t", nyala_core::ColumnType::String);
    block_on(engine.alter_table(table, vec![field]))?;
    let written: Vec<_> = (0..5_000).map(|row| (1, row, Some(row))).collect();
    block_on(engine.write(points(table, &written)))?;
    let set = |text: String, until: i64| Update {
        table,
        rows: RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(0, until) },
        predicates: predicates(),
        assignments: vec![(ColumnId(3), Some(Value::String(text)))],
    };
    // Of 5000 rows it would be 5 GB.
    let error = block_on(engine.update(set("x".repeat(1 << 20), i64::MAX))).expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let error = block_on(engine.update(set("x".repeat(33 << 20), 1))).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert_eq!(block_on(engine.update(set("x".repeat(1 << 20), 3)))?.affected, 3);
    Ok(())
}
