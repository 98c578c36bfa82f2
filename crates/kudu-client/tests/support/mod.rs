//! What the tests on real clusters share.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../nyala/tests/support/peers.rs"]
pub mod peers;

use std::io::{Read, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType as ArrowType;

use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use kudu_client::{
    Client, ClientBuilder, Column, DataType, ErrorKind, HashPartition, Operation, Row, Schema, Table, Value,
};

/// How long tests wait for what takes a moment on an idle machine: one that is slow and busy stands still for seconds.
pub const TIMEOUT: Duration = Duration::from_secs(240);

/// Whether the binaries are there. If not, the test is skipped, or fails when peers are required.
pub fn have_kudu() -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    match MISSING.get_or_init(|| kudu_home().err().map(|why| why.to_string())) {
        None => true,
        Some(why) => peers::require::<()>("Kudu", why, None).is_some(),
    }
}

pub fn start(options: &ClusterOptions) -> TestCluster {
    TestCluster::start(options).expect("the cluster starts")
}

pub async fn connect(cluster: &TestCluster) -> Client {
    let builder = Client::builder(cluster.masters()).user("tester");
    patient(builder).connect().await.expect("the client connects")
}

/// A client that does not take a slow server for a dead one. A scan that has returned rows could not go on then.
pub fn patient(builder: ClientBuilder) -> ClientBuilder {
    let builder = builder.connect_timeout(Duration::from_secs(30)).rpc_timeout(Duration::from_secs(60));
    builder.admin_timeout(TIMEOUT)
}

/// Waits until something is so.
pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < TIMEOUT, "{what}: not after {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A runtime for one test. Two worker threads suit the machines that run the tests.
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
    let started = Instant::now();
    loop {
        match creator.clone().create().await {
            Ok(table) => return table,
            // Tablet servers report late to a master that has just begun to lead.
            Err(error) if error.kind() == ErrorKind::Unavailable && started.elapsed() < TIMEOUT => {}
            Err(error) => panic!("the table is not created: {error}"),
        }
    }
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
    let session = table.session().timeout(TIMEOUT).open();
    for key in keys {
        session.apply(&small_row(table, Operation::Insert, key)).await.unwrap();
    }
    session.flush().await.unwrap();
}

/// One cluster of a master and a tablet server for all tests of a file.
pub fn shared() -> Option<&'static TestCluster> {
    static CLUSTER: OnceLock<TestCluster> = OnceLock::new();
    if !have_kudu() {
        return None;
    }
    CLUSTER.get_or_init(|| start(&ClusterOptions::new(1, 1))).into()
}

/// Runs a test on the shared cluster. Tests use tables of different names.
pub fn with_shared<F: AsyncFnOnce(Client)>(test: F) {
    let Some(cluster) = shared() else { return };
    run(async { test(connect(cluster).await).await });
}

/// Pseudo-random numbers, the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// All rows of some batches as sorted texts, to compare results of any order and layout.
pub fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                batch.columns().iter().map(|array| cell_text(array.as_ref(), row)).collect();
            rows.push(cells.join("|"));
        }
    }
    rows.sort();
    rows
}

pub fn cell_text(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        ArrowType::Boolean => array.as_boolean().value(row).to_string(),
        ArrowType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        ArrowType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        ArrowType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        ArrowType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        ArrowType::Float32 => format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
        ArrowType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        ArrowType::Date32 => array.as_primitive::<Date32Type>().value(row).to_string(),
        ArrowType::Timestamp(_, _) => array.as_primitive::<TimestampMicrosecondType>().value(row).to_string(),
        ArrowType::Decimal128(_, _) => array.as_primitive::<Decimal128Type>().value(row).to_string(),
        ArrowType::Utf8 => format!("{:?}", array.as_string::<i32>().value(row)),
        ArrowType::Binary => format!("{:?}", array.as_binary::<i32>().value(row)),
        other => panic!("no text for {other}"),
    }
}

/// The text that [`cell_text`] gives for this value.
pub fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Float(value) => format!("{value:?}"),
        Value::Double(value) => format!("{value:?}"),
        Value::String(value) => format!("{value:?}"),
        Value::Binary(value) => format!("{value:?}"),
        other => other.to_string(),
    }
}

/// Fetches a page of a daemon.
pub fn page(address: &str, path: &str) -> Vec<u8> {
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    answer.split_off(body)
}

/// Options of a cluster that flushes soon.
pub fn flushing_options() -> ClusterOptions {
    ClusterOptions::new(1, 1)
        .tablet_server_flag("--flush_threshold_mb=1")
        .tablet_server_flag("--flush_threshold_secs=1")
        .tablet_server_flag("--enable_rowset_compaction=false")
        .tablet_server_flag("--maintenance_manager_polling_interval_ms=50")
}

/// The values of a metric of a daemon, one per tablet or table that has it.
pub fn metric(address: &str, name: &str) -> Vec<u64> {
    let metrics = String::from_utf8(page(address, &format!("/metrics?metrics={name}"))).unwrap();
    let named = metrics.split("\"name\": \"").skip(1).filter(|part| part.starts_with(name));
    let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
    let value = |part: &str| digits(part.split("\"value\":").nth(1)?.split('}').next()?).parse().ok();
    named.filter_map(value).collect()
}

/// Waits until the tablet server has at least this many rowsets on disk and no rows in memory.
pub async fn wait_for_flush(cluster: &TestCluster, rowsets: u64) {
    wait_until("the tablet server flushes", async || {
        let values = |name: &str| metric(&cluster.tablet_server_web()[0], name);
        // An empty memrowset still takes some hundred bytes.
        let in_memory = values("memrowset_size").into_iter().max().unwrap_or(u64::MAX);
        values("num_rowsets_on_disk").into_iter().sum::<u64>() >= rowsets && in_memory < 2000
    })
    .await;
}
