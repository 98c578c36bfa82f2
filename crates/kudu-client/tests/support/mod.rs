//! What the tests on real clusters share.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;
use std::sync::OnceLock;

use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use kudu_client::{Client, Column, DataType, HashPartition, Operation, Row, Schema, Table};

/// Whether the binaries are there. If not: fails when peers are required, else says so where nobody can
/// overlook it.
pub fn have_kudu() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| match kudu_home() {
        Ok(_) => true,
        Err(why) => {
            let required = std::env::var_os("NYALA_REQUIRE_PEERS").is_some_and(|value| value == "1");
            assert!(!required, "NYALA_REQUIRE_PEERS=1, but there is no Kudu to test against: {why}");
            // Not by a macro: the test runner would swallow that of a test that passes.
            let note = "*** NO KUDU TO TEST AGAINST: the tests on real clusters are SKIPPED ***";
            let _ = writeln!(std::io::stderr(), "{note}\n*** {why} ***");
            false
        }
    })
}

pub fn start(options: &ClusterOptions) -> TestCluster {
    TestCluster::start(options).expect("the cluster starts")
}

pub async fn connect(cluster: &TestCluster) -> Client {
    Client::builder(cluster.masters()).user("tester").connect().await.expect("the client connects")
}

/// A runtime for one test; two worker threads are as many as the machines that run the tests have.
pub fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// key INT64, value INT32 NULL, text STRING NULL
pub fn small_schema() -> Schema {
    Schema::new(vec![
        Column::new("key", DataType::Int64).key(),
        Column::new("value", DataType::Int32).nullable(),
        Column::new("text", DataType::String).nullable(),
    ])
    .expect("a schema")
}

pub async fn small_table(client: &Client, name: &str, buckets: u32, replicas: i32) -> Table {
    let creator = client.create_table(name, small_schema()).replicas(replicas);
    let creator = if buckets > 1 { creator.hash(HashPartition::new(["key"], buckets)) } else { creator };
    creator.create().await.expect("the table is created")
}

pub fn small_row(table: &Table, operation: Operation, key: i64) -> Row {
    let mut row = table.row(operation);
    row.set("key", key).unwrap();
    if key % 3 != 0 {
        row.set("value", key as i32).unwrap();
    }
    if key % 5 != 0 {
        row.set("text", &format!("text {key}")).unwrap();
    }
    row
}

pub async fn insert_range(table: &Table, keys: std::ops::Range<i64>) {
    let session = table.session().open();
    for key in keys {
        session.apply(&small_row(table, Operation::Insert, key)).await.unwrap();
    }
    session.flush().await.unwrap();
}
