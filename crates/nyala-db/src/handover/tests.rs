//! Marks tell everything that a copy may lack, whatever is changed; nothing is changed while changes are held off.

use super::*;
use crate::catalog::SERIES_TABLE;
use crate::records::Records;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Float64Array, TimestampNanosecondArray, UInt32Array};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{
    Alteration, CellColumn, Delete, DeleteMode, Freshness, Operation, RowSelection, ScanRequest, SeriesSet,
    SnapshotRef, Update, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{ErrorKind, TableId, TimeRange, Value};
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

const SECOND_NS: i64 = 1_000_000_000;
const STEPS: usize = 60;

fn cells(column: u32, values: arrow_array::ArrayRef) -> CellColumn {
    CellColumn { column: ColumnId(column), values, null_cells: None }
}

fn upsert(table: TableId, times: &[i64], value: f64) -> Operation {
    let columns = vec![
        cells(0, Arc::new(UInt32Array::from(vec![1; times.len()]))),
        cells(1, Arc::new(TimestampNanosecondArray::from(times.to_vec()))),
        cells(2, Arc::new(Float64Array::from(vec![value; times.len()]))),
    ];
    Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })
}

/// The values of the rows of a snapshot by their times.
async fn rows(snapshot: &SnapshotRef, table: TableId) -> BTreeMap<i64, Option<u64>> {
    let rows = RowSelection::Series { series: SeriesSet::All, time: TimeRange::ALL };
    let request = ScanRequest::by_key(table, rows, vec![ColumnId(1), ColumnId(2)]);
    let mut stream = snapshot.scan(request).await.unwrap();
    let mut all = BTreeMap::new();
    while let Some(batch) = stream.next().await.unwrap() {
        let times = batch.columns[0].as_primitive::<TimestampNanosecondType>();
        let values = batch.columns[1].as_primitive::<arrow_array::types::Float64Type>();
        let cells = times.values().iter().zip(values.iter().map(|value| value.map(f64::to_bits)));
        all.extend(cells.map(|(time_ns, value)| (*time_ns, value)));
    }
    all
}

async fn one_change(store: &StoreRef, table: TableId, random: &mut rand::rngs::StdRng) {
    let mut time = || random.random_range(-40..40_i64) * SECOND_NS / 2;
    let (one, other) = (time(), time());
    let range = TimeRange::new(one.min(other), one.max(other) + 1);
    let selection = || RowSelection::Series { series: SeriesSet::All, time: range };
    let (value, kind) = (random.random::<f64>(), random.random_range(0..9));
    let batch = |operation| WriteBatch { operations: vec![operation] };
    match kind {
        0..4 => drop(store.write(batch(upsert(table, &[one, other], value))).await.unwrap()),
        4 => {
            let keys: Vec<arrow_array::ArrayRef> = vec![
                Arc::new(UInt32Array::from(vec![1])),
                Arc::new(TimestampNanosecondArray::from(vec![one])),
            ];
            let delete = Operation::DeleteKeys { table, mode: DeleteMode::Blind, keys };
            drop(store.write(batch(delete)).await.unwrap());
        }
        5 => {
            let delete = Delete { table, rows: selection(), predicates: Vec::new() };
            store.delete(delete).await.unwrap();
        }
        6 => {
            let assignments = vec![(ColumnId(2), Some(Value::Float(value)))];
            let update = Update { table, rows: selection(), predicates: Vec::new(), assignments };
            drop(store.update(update).await.unwrap());
        }
        7 => drop(store.drop_partitions(table, range).await.unwrap()),
        _ => {
            let mut stage = store.stage().await.unwrap();
            stage.write(batch(upsert(table, &[one], value))).await.unwrap();
            stage.write(batch(upsert(table, &[other], value))).await.unwrap();
            stage.commit().await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_two_copies_do_not_have_in_common_was_told() {
    for seed in 0..50 {
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        let handover = Handover::open(Arc::new(MemoryStore::default()));
        let store = handover.store();
        let schema = TableSchema::measurement("m", 5 * SECOND_NS);
        let table = store.create_table(schema).await.unwrap();
        let field = Alteration::add_column("f", ColumnType::Float64);
        store.alter_table(table, vec![field]).await.unwrap();
        let mut copies: Vec<(Mark, BTreeMap<i64, Option<u64>>)> = Vec::new();
        let mut told_less = false;
        for _ in 0..STEPS {
            one_change(&store, table, &mut random).await;
            if random.random_bool(0.2) {
                let mark = handover.mark(7).await.unwrap();
                assert_eq!(mark.epoch, 7);
                let copy = rows(&store.snapshot(Freshness::Latest).await.unwrap(), table).await;
                let changed = handover.changed(mark.epoch).unwrap();
                for (earlier, rows) in &copies {
                    let told = changed.rows_since(table, earlier.number, TimeRange::ALL);
                    let is_told = |time_ns: &i64| told.iter().any(|range| range.contains(*time_ns));
                    for time_ns in rows.keys().chain(copy.keys()) {
                        assert!(rows.get(time_ns) == copy.get(time_ns) || is_told(time_ns), "seed {seed}");
                        told_less |= !is_told(time_ns);
                    }
                }
                copies.push((mark, copy));
            }
        }
        assert!(told_less || copies.len() < 3, "seed {seed}: not everything is told each time");
    }
}

#[tokio::test]
async fn records_of_series_are_told_by_the_table_whose_series_they_are() {
    let handover = Handover::open(Arc::new(MemoryStore::default()));
    let store = handover.store();
    let records = Records::open(store.clone(), SERIES_TABLE).await.unwrap();
    let mark = handover.mark(1).await.unwrap();
    records.write(vec![records.put([(&b"\0\0\0\x05s\0\0\0\x01"[..], &b""[..])])]).await.unwrap();
    records.write(vec![records.remove([&b"\0\0\0\x06s\0\0\0\x01"[..]])]).await.unwrap();
    let changed = handover.changed(mark.epoch).unwrap();
    let is_changed = |table| changed.is_series_changed(TableId(table), mark.number);
    assert!(is_changed(5) && is_changed(6) && !is_changed(4));
    assert_eq!(handover.changed(2).unwrap_err().kind(), ErrorKind::Missing, "another epoch");
}

#[tokio::test(start_paused = true)]
async fn a_hold_refuses_changes_until_nobody_renews_it() {
    let handover = Handover::open(Arc::new(MemoryStore::default()));
    let store = handover.store();
    let table = store.create_table(TableSchema::measurement("m", 10)).await.unwrap();
    let write = || {
        let operations = vec![Operation::DeleteKeys {
            table,
            mode: DeleteMode::Blind,
            keys: vec![
                Arc::new(UInt32Array::from(vec![1])),
                Arc::new(TimestampNanosecondArray::from(vec![1])),
            ],
        }];
        store.write(WriteBatch { operations })
    };
    let mut stage = store.stage().await.unwrap();
    stage.write(WriteBatch::default()).await.unwrap();
    let limit = Duration::from_secs(12);
    handover.hold(1, limit).await.unwrap();
    assert_eq!(write().await.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(stage.commit().await.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(store.drop_table(table).await.unwrap_err().kind(), ErrorKind::Retry);
    assert!(store.snapshot(Freshness::Latest).await.is_ok());
    assert_eq!(handover.hold(2, limit).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(handover.renew(2).is_err());
    // Renewed for as long as it may last.
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(3)).await;
        handover.renew(1).unwrap();
        assert!(!handover.takes_changes());
    }
    tokio::time::advance(Duration::from_secs(3)).await;
    assert!(handover.renew(1).is_err(), "it has lasted as long as it may");
    assert!(handover.leave(1, "there").await.is_err() && handover.takes_changes());
    write().await.unwrap();
    // Not renewed.
    handover.hold(3, limit).await.unwrap();
    tokio::time::advance(LEASE).await;
    write().await.unwrap();
    assert!(handover.renew(3).is_err());
    handover.hold(4, limit).await.unwrap();
    handover.release(3);
    assert!(!handover.takes_changes(), "it is another one");
    handover.release(4);
    write().await.unwrap();
}

#[tokio::test]
async fn a_store_that_was_left_takes_no_changes_any_more() {
    let inner: StoreRef = Arc::new(MemoryStore::default());
    let handover = Handover::open(inner.clone());
    assert!(handover.leave(1, "there").await.is_err(), "nothing is held off");
    handover.hold(1, Duration::from_secs(60)).await.unwrap();
    handover.leave(1, "there").await.unwrap();
    assert_eq!(handover.left_to().as_deref(), Some("there"));
    // After a restart, too.
    let handover = Handover::open(inner.clone());
    handover.refuse_if_left();
    assert_eq!(handover.left_to().as_deref(), Some("there"));
    let schema = TableSchema::measurement("m", 10);
    let error = handover.store().create_table(schema.clone()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Retry && error.message().contains("moved to there"), "{error}");
    assert!(handover.hold(2, Duration::from_secs(60)).await.is_err());
    handover.take_back().await.unwrap();
    handover.store().create_table(schema).await.unwrap();
    let handover = Handover::open(inner);
    handover.refuse_if_left();
    assert_eq!(handover.left_to(), None);
}
