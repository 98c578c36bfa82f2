//! The log of schema changes on a real cluster: changes larger than a row, and what remains after it was shortened.

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, TimestampNanosecondArray, UInt32Array};
use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use nyala_core::schema::{ColumnSchema, SERIES_COLUMN, TIME_COLUMN, TableSchema};
use nyala_core::store::{Alteration, CellColumn, Freshness, Operation, Store, Upsert, WriteBatch, WriteMode};
use nyala_core::{ColumnId, ColumnType, ErrorKind, Result, TableId, TimeRange};
use nyala_kudu::KuduStore;
use std::sync::Arc;
use support::{connect, patient_options, peers};

async fn open(cluster: &TestCluster) -> Result<KuduStore> {
    KuduStore::open(connect(cluster).await, patient_options()).await
}

/// A measurement with names that take more than a row.
fn wide(name: &str) -> (TableSchema, Vec<Alteration>) {
    let add = |number: u32| Alteration::add_column(format!("{number:0>400}"), ColumnType::Float64);
    (TableSchema::measurement(name, 1000), (0..250).map(add).collect())
}

/// A point, which needs a shard.
fn point(table: TableId, time_ns: i64) -> WriteBatch {
    let series: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
    let time: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![time_ns]));
    let columns = vec![CellColumn::whole(SERIES_COLUMN, series), CellColumn::whole(TIME_COLUMN, time)];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })] }
}

#[test]
fn daemons_agree_on_large_changes_and_on_a_log_that_was_shortened() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, reader) =
            (open(&cluster).await.expect("a store"), open(&cluster).await.expect("a store"));
        let (schema, columns) = wide("wide");
        let table = writer.create_table(schema).await.expect("created");
        writer.alter_table(table, columns).await.expect("altered");
        reader.snapshot(Freshness::Latest).await.expect("a snapshot");
        assert_eq!(reader.tables(), writer.tables());
        assert_eq!(reader.schema(table).expect("it is known").columns.len(), 252);
        // It does not look before it writes.
        let late = open(&cluster).await.expect("a store");
        // Each creation and each removal is a change; 512 make a new beginning, twice as many remove the first ones. Now and
        // then the reader looks, once just before that and once after others.
        for number in 0..550 {
            let table = TableSchema::measurement(format!("table {number}"), 1000);
            let table = writer.create_table(table).await.expect("created");
            if number % 10 > 0 {
                writer.drop_table(table).await.expect("dropped");
            }
            if number % 100 == 0 {
                reader.snapshot(Freshness::Latest).await.expect("a snapshot");
                assert_eq!(reader.tables(), writer.tables());
            }
        }
        assert_eq!(writer.tables().len(), 1 + 55);
        reader.snapshot(Freshness::Latest).await.expect("a snapshot");
        assert_eq!(reader.tables(), writer.tables());
        assert_eq!(open(&cluster).await.expect("a store").tables(), writer.tables());
        let client = connect(&cluster).await;
        let rows =
            client.open_table("nyala.schema").await.expect("a table").scan().count().await.expect("a count");
        assert!(rows < 512 + 100, "{rows} changes are kept");
        let texts = client.open_table("nyala.schema_text").await.expect("a table").scan().count().await;
        assert!(texts.expect("a count") < 20);
        // A new shard is a change, whose number is not free although nothing has it any more.
        late.write(point(table, 5)).await.expect("written");
        for store in [&late, &reader] {
            let snapshot = store.snapshot(Freshness::Latest).await.expect("a snapshot");
            let shards = store.partitions(table).await.expect("the table is there");
            assert_eq!(shards.len(), 1, "it is seen");
            assert!(snapshot.time_bounds(table, TimeRange::ALL).await.expect("an answer").is_some());
        }
        assert_eq!(late.tables(), writer.tables());
    });
}

#[test]
fn a_change_does_not_fail_because_the_log_cannot_be_shortened() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let store = open(&cluster).await.expect("a store");
        let (schema, columns) = wide("wide");
        let table = store.create_table(schema).await.expect("created");
        store.alter_table(table, columns).await.expect("altered");
        // Where the text of an entry goes that says everything.
        let client = connect(&cluster).await;
        client.delete_table("nyala.schema_text").await.expect("deleted");
        for number in store.tables_version() + 1..=512 {
            let table = TableSchema::measurement(format!("table {number}"), 1000);
            store.create_table(table).await.unwrap_or_else(|error| panic!("change {number}: {error}"));
        }
        assert_eq!(store.tables_version(), 512);
    });
}

#[test]
fn a_column_does_not_become_required_while_others_may_write_by_an_old_schema() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let store = open(&cluster).await.expect("a store");
        let column = |id, name| ColumnSchema::new(ColumnId(id), name, ColumnType::Int64);
        let columns = vec![column(0, "k").required(), column(1, "v")];
        let schema = TableSchema::keyed("t", columns, vec![ColumnId(0)]);
        let table = store.create_table(schema).await.expect("created");
        let refused = store.alter_table(table, vec![Alteration::SetNullable(ColumnId(1), false)]).await;
        assert_eq!(refused.expect_err("another may write NULL").kind(), ErrorKind::Unsupported);
        assert!(store.schema(table).expect("it is there").columns[1].nullable);
        let lax = vec![Alteration::SetNullable(ColumnId(1), true)];
        store.alter_table(table, lax).await.expect("it is so already");
    });
}

#[test]
fn whoever_is_second_with_a_large_change_leaves_no_text() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (first, second) =
            (open(&cluster).await.expect("a store"), open(&cluster).await.expect("a store"));
        let mut tables = Vec::new();
        for name in ["a", "b"] {
            let (schema, columns) = wide(name);
            let table = first.create_table(schema).await.expect("created");
            first.alter_table(table, columns).await.expect("altered");
            tables.push(table);
        }
        // Each of these repeats the wide schema, and only one of two gets the next number.
        for round in 1..=20 {
            let width = || vec![Alteration::SetPartitionWidth(1000 + round)];
            let (by_first, by_second) =
                tokio::join!(first.alter_table(tables[0], width()), second.alter_table(tables[1], width()));
            by_first.expect("altered");
            by_second.expect("altered");
        }
        let client = connect(&cluster).await;
        let log = client.open_table("nyala.schema").await.expect("a table");
        let scan = log.scan().project(["parts", "text"]).open().await.expect("a scan");
        let batches = scan.collect().await.expect("rows");
        let parts_of = |batch: &RecordBatch| -> u64 {
            let (parts, texts) = (batch.column(0).as_primitive::<Int32Type>(), batch.column(1));
            let apart = (0..batch.num_rows()).filter(|row| texts.is_null(*row));
            apart.map(|row| parts.value(row) as u64).sum()
        };
        let texts = client.open_table("nyala.schema_text").await.expect("a table").scan().count().await;
        assert_eq!(texts.expect("a count"), batches.iter().map(parts_of).sum::<u64>());
    });
}
