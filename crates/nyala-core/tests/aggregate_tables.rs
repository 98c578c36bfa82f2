//! Aggregates of several tables together.

use arrow_array::{ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::aggregate::{Selected, SelectedValues, aggregate_tables};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    AggregateFunction, AggregateRequest, Alteration, CellColumn, Measure, Operation, PartialAggregate, Store,
    Upsert, Windows, WriteBatch, WriteMode,
};
use nyala_core::{ColumnId, ColumnType, Result, SeriesId, TableId, TableSchema, TimeRange};
use std::sync::Arc;

async fn table(store: &MemoryStore, name: &str, rows: &[(u32, i64, i64)]) -> Result<TableId> {
    let table = store.create_table(TableSchema::measurement(name, 100)).await?;
    store.alter_table(table, vec![Alteration::add_column("v", ColumnType::Int64)]).await?;
    let cells = |id, values: ArrayRef| CellColumn { column: ColumnId(id), values, null_cells: None };
    let columns = vec![
        cells(0, Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))),
        cells(1, Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1)))),
        cells(2, Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
    ];
    let upsert = Upsert { table, mode: WriteMode::Upsert, columns };
    store.write(WriteBatch { operations: vec![Operation::Upsert(upsert)] }).await?;
    Ok(table)
}

#[tokio::test]
async fn tables_are_aggregated_as_if_they_were_one() -> Result<()> {
    use AggregateFunction::{Count, First, Increase, Max, Sum};
    let store = MemoryStore::default();
    let first = table(&store, "first", &[(1, 5, 3), (1, 15, 4), (2, 5, 9)]).await?;
    let second = table(&store, "second", &[(7, 3, 1), (7, 16, 8)]).await?;
    let measure = |function| Measure { column: ColumnId(2), function };
    let request = |table, series: &[(u32, u32)]| AggregateRequest {
        table,
        series: series.iter().map(|(id, group)| (SeriesId(*id), *group)).collect(),
        groups: 2,
        time: TimeRange::ALL,
        windows: Windows::Regular { start_ns: 0, width_ns: 10, count: 2 },
        predicates: Vec::new(),
        measures: [Count, Sum, Max, First].map(measure).to_vec(),
        times: true,
    };
    let snapshot = store.latest();
    let both = [request(first, &[(1, 0), (2, 1)]), request(second, &[(7, 0)])];
    let states = aggregate_tables(&*snapshot, &both).await?;
    assert_eq!(states.measures[0], PartialAggregate::Count(vec![2, 2, 1, 0]));
    let sums = PartialAggregate::SumInteger { sums: vec![4, 12, 9, 0], counts: vec![2, 2, 1, 0] };
    assert_eq!(states.measures[1], sums);
    let selected = |at: usize| match &states.measures[at] {
        PartialAggregate::Selected(Selected { values: SelectedValues::Int(values), times_ns, .. }) => {
            (values[..3].to_vec(), times_ns[..3].to_vec())
        }
        other => unreachable!("{other:?}"),
    };
    assert_eq!(selected(2), (vec![3, 8, 9], vec![5, 16, 5]));
    assert_eq!(selected(3), (vec![1, 4, 9], vec![3, 15, 5]));
    let narrow = Windows::Regular { start_ns: 0, width_ns: 9, count: 2 };
    let other = AggregateRequest { windows: narrow, ..request(second, &[(7, 0)]) };
    assert!(aggregate_tables(&*snapshot, &[both[0].clone(), other]).await.is_err());
    let third = store.create_table(TableSchema::measurement("third", 100)).await?;
    store.alter_table(third, vec![Alteration::add_column("v", ColumnType::Float64)]).await?;
    let snapshot = store.latest();
    let of_floats = [both[0].clone(), request(third, &[(1, 0)])];
    assert!(aggregate_tables(&*snapshot, &of_floats).await.is_err(), "other types");
    let grown = both.map(|both| AggregateRequest { measures: vec![measure(Increase)], ..both });
    assert!(aggregate_tables(&*snapshot, &grown).await.is_err(), "two series of group 0");
    let [alone, other] = grown;
    let apart = AggregateRequest { series: [(SeriesId(2), 1)].into(), ..alone };
    assert!(aggregate_tables(&*snapshot, &[apart, other]).await.is_ok());
    Ok(())
}
