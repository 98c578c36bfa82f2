//! Ranges of time on a real cluster, which one daemon makes while another looks.

#[path = "../../nyala/tests/support/peers.rs"]
mod peers;

use arrow_array::{ArrayRef, TimestampNanosecondArray, UInt32Array};
use kudu_client::Client;
use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN, TableSchema};
use nyala_core::store::{
    CellColumn, Freshness, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch, WriteMode,
};
use nyala_core::{Result, TableId};
use nyala_kudu::{KuduOptions, KuduStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// More tablets than the masters tell at once, which is fifty.
const BUCKETS: u32 = 56;
const SERIES: u32 = 500;
const WIDTH_NS: i64 = 1000;

async fn open(cluster: &TestCluster) -> KuduStore {
    let client = Client::builder(cluster.masters()).user("tester").connect().await;
    let options = KuduOptions { replicas: 1, buckets: BUCKETS, ..KuduOptions::default() };
    KuduStore::open(client.expect("the cluster answers"), options).await.expect("a store")
}

/// A point of each series.
fn points(table: TableId, time_ns: i64) -> WriteBatch {
    let series: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..SERIES));
    let time: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![time_ns; SERIES as usize]));
    let columns = vec![CellColumn::whole(SERIES_COLUMN, series), CellColumn::whole(TIME_COLUMN, time)];
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode: WriteMode::Upsert, columns })] }
}

async fn count(store: &KuduStore, table: TableId) -> Result<usize> {
    let snapshot = store.snapshot(Freshness::Latest).await?;
    let mut rows = snapshot.scan(ScanRequest::by_key(table, RowSelection::All, vec![TIME_COLUMN])).await?;
    let mut count = 0;
    while let Some(batch) = rows.next().await? {
        count += batch.rows;
    }
    Ok(count)
}

#[test]
fn a_range_that_is_made_during_a_look_is_read_whole() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let options = ClusterOptions::new(1, 1).master_flag("--max_create_tablets_per_ts=1000");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&options).expect("the cluster starts");
        let (writer, reader) = (open(&cluster).await, open(&cluster).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        for number in 0..6 {
            let is_written = AtomicBool::new(false);
            let write = async {
                writer.write(points(table, number * WIDTH_NS)).await.expect("written");
                is_written.store(true, Ordering::Release);
            };
            let look = async {
                while !is_written.load(Ordering::Acquire) {
                    count(&reader, table).await.expect("a count");
                }
            };
            tokio::join!(write, look);
            let expected = (number as usize + 1) * SERIES as usize;
            assert_eq!(count(&reader, table).await.expect("a count"), expected, "after {number}");
        }
    });
}
