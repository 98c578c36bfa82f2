//! Ranges of time on a real cluster, which one daemon makes while another looks, or drops them.

mod support;

use arrow_array::{ArrayRef, Float64Array, TimestampNanosecondArray, UInt32Array};
use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use kudu_client::{Operation as KuduOperation, RangeBound, RangePartition};
use nyala_core::schema::{SERIES_COLUMN, TIME_COLUMN, TableSchema};
use nyala_core::store::{
    Alteration, CellColumn, Freshness, Operation, RowSelection, ScanRequest, Store, Upsert, WriteBatch,
    WriteMode,
};
use nyala_core::{ColumnId, ColumnType, ErrorKind, Result, TableId, TimeRange};
use nyala_kudu::{KuduOptions, KuduStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{TIMEOUT, connect, patient_options, peers};

/// More tablets than the masters tell at once, which is fifty.
const BUCKETS: u32 = 56;
const SERIES: u32 = 500;
const WIDTH_NS: i64 = 1000;

async fn open(cluster: &TestCluster, buckets: u32) -> KuduStore {
    open_with(cluster, KuduOptions { buckets, ..patient_options() }).await
}

async fn open_with(cluster: &TestCluster, options: KuduOptions) -> KuduStore {
    KuduStore::open(connect(cluster).await, options).await.expect("a store")
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
        let (writer, reader) = (open(&cluster, BUCKETS).await, open(&cluster, BUCKETS).await);
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

/// Appends an entry about the ranges of a table to the log, as another daemon does.
async fn append(cluster: &TestCluster, table: TableId, ranges: &str) {
    let log = connect(cluster).await.open_table("nyala.schema").await.expect("a table");
    let last = log.scan().count().await.expect("a count") as i64;
    let text = format!(r#"{{"changes": [{{"ranges": {{"table": {table}, {ranges}}}}}]}}"#);
    let mut row = log.row(KuduOperation::Insert);
    row.set("number", last + 1).and_then(|row| row.set("name", "other")).expect("columns");
    row.set("parts", 1_i32).and_then(|row| row.set("text", text.as_str())).expect("columns");
    let mut call = log.write(TIMEOUT);
    call.add(&row).await.expect("a row");
    assert!(call.finish().await.expect("an answer").is_empty());
}

/// Whether each store finds the rows of every series, in one range that the log has.
async fn assert_whole(stores: [&KuduStore; 2], table: TableId) {
    for store in stores {
        assert_eq!(count(store, table).await.expect("a count"), SERIES as usize);
        assert_eq!(store.partitions(table).await.expect("the table is there").len(), 1);
        let snapshot = store.snapshot(Freshness::Latest).await.expect("a snapshot");
        assert!(snapshot.time_bounds(table, TimeRange::ALL).await.expect("an answer").is_some());
    }
}

#[test]
fn a_range_that_was_dropped_comes_back_in_the_log_too() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, dropper) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        writer.write(points(table, 5)).await.expect("written");
        assert_eq!(dropper.drop_partitions(table, TimeRange::ALL).await.expect("dropped").len(), 1);
        // It has not looked since.
        writer.write(points(table, 5)).await.expect("written");
        assert_whole([&writer, &dropper], table).await;
        for round in 0..20 {
            let write = async {
                tokio::time::sleep(Duration::from_millis(3 * round)).await;
                writer.write(points(table, 5)).await
            };
            let (dropped, written) = tokio::join!(dropper.drop_partitions(table, TimeRange::ALL), write);
            dropped.expect("dropped");
            written.expect("written");
            let rows = count(&dropper, table).await.expect("a count");
            let ranges = dropper.partitions(table).await.expect("the table is there").len();
            assert!(rows == 0 || ranges == 1, "round {round}: {rows} rows in {ranges} ranges");
            writer.write(points(table, 5)).await.expect("written");
            assert_whole([&writer, &dropper], table).await;
        }
    });
}

#[test]
fn a_range_is_judged_again_if_the_table_was_altered_since() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (keeper, dropper) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = keeper.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        keeper.write(points(table, 5)).await.expect("written");
        dropper.snapshot(Freshness::Latest).await.expect("it sees the table");
        let version = dropper.tables_version();
        let judged = vec![Alteration::SetPartitionWidth(WIDTH_NS)];
        keeper.alter_table(table, judged).await.expect("altered");
        let dropped = dropper.drop_judged_partitions(table, TimeRange::ALL, version).await;
        assert_eq!(dropped.expect("an answer"), None);
        assert_whole([&keeper, &dropper], table).await;
        let version = dropper.tables_version();
        let dropped = dropper.drop_judged_partitions(table, TimeRange::ALL, version).await;
        assert_eq!(dropped.expect("an answer").map(|dropped| dropped.len()), Some(1));
    });
}

/// Writes through a store that may wait for less time than a busy machine takes to make a range.
async fn write_at_last(store: &KuduStore, table: TableId, time_ns: i64) {
    let begun = Instant::now();
    while let Err(error) = store.write(points(table, time_ns)).await {
        let is_late = matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unknown);
        assert!(is_late && begun.elapsed() < TIMEOUT, "{error}");
    }
}

#[test]
fn a_range_that_another_daemon_is_dropping_is_not_written_to() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let maker = open(&cluster, 2).await;
        let table = maker.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        let write_timeout = Duration::from_secs(5);
        let store = open_with(&cluster, KuduOptions { buckets: 2, write_timeout, ..patient_options() }).await;
        write_at_last(&store, table, 5).await;
        let range = store.partitions(table).await.expect("the table is there").remove(0);
        let (number, time) = (range.id, range.range);
        let ranges = format!("[[{number}, {}, {}]]", time.start_ns, time.end_ns);
        append(&cluster, table, &format!(r#""ranges": {ranges}, "leaving": [{number}]"#)).await;
        store.snapshot(Freshness::Latest).await.expect("it sees the mark");
        let refused = store.write(points(table, 6)).await.expect_err("nobody finishes the drop");
        assert_eq!(refused.kind(), ErrorKind::Retry, "{refused}");
        let refused = store.drop_partitions(table, TimeRange::ALL).await.expect_err("only one drops it");
        assert_eq!(refused.kind(), ErrorKind::Retry, "{refused}");
        // The other has finished.
        append(&cluster, table, r#""ranges": []"#).await;
        write_at_last(&store, table, 6).await;
        assert_eq!(store.partitions(table).await.expect("the table is there").len(), 1);
    });
}

#[test]
fn a_range_that_nobody_has_made_is_not_asked_for() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, reader) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        writer.write(points(table, 5)).await.expect("written");
        let range = writer.partitions(table).await.expect("the table is there").remove(0);
        let (number, time) = (range.id, range.range);
        let next = (number + 1, time.end_ns, time.end_ns + WIDTH_NS);
        let ranges =
            format!("[[{number}, {}, {}], [{}, {}, {}]]", time.start_ns, time.end_ns, next.0, next.1, next.2);
        // Its daemon died before it made the range.
        append(&cluster, table, &format!(r#""ranges": {ranges}, "unmade": [{}]"#, next.0)).await;
        assert_eq!(count(&reader, table).await.expect("a count"), SERIES as usize);
        let lookups = || reader.client_metrics().location_lookups;
        let before = lookups();
        for _ in 0..5 {
            assert_eq!(count(&reader, table).await.expect("a count"), SERIES as usize);
        }
        assert_eq!(lookups(), before);
        // Another makes it after all.
        writer.write(points(table, next.1)).await.expect("written");
        assert_eq!(count(&reader, table).await.expect("a count"), 2 * SERIES as usize);
        let before = lookups();
        assert_eq!(count(&reader, table).await.expect("a count"), 2 * SERIES as usize);
        assert_eq!(lookups(), before, "it is known now");
    });
}

/// Adds a range to the first sheet of a table, but not to the log: a daemon that made again what others had dropped, and died
/// before it looked at the log, leaves it so.
async fn leave_orphan(cluster: &TestCluster, table: TableId, time: TimeRange) {
    let known = connect(cluster).await.open_table(&format!("nyala.t{table}")).await.expect("a table");
    let column = format!("c{TIME_COLUMN}");
    let (start, end) =
        (RangeBound::inclusive(&column, time.start_ns), RangeBound::exclusive(&column, time.end_ns));
    known.alter().add_range(&RangePartition::new(start, end)).apply().await.expect("altered");
}

#[test]
fn rows_are_not_written_to_a_range_that_only_the_cluster_has() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, dropper) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        writer.write(points(table, 5)).await.expect("written");
        let time = writer.partitions(table).await.expect("the table is there").remove(0).range;
        assert_eq!(dropper.drop_partitions(table, TimeRange::ALL).await.expect("dropped").len(), 1);
        leave_orphan(&cluster, table, time).await;
        // The writer has not looked since, and finds the tablets of the other's range in place of its own.
        writer.write(points(table, 5)).await.expect("written");
        assert_whole([&writer, &dropper], table).await;
    });
}

/// A point of one series with some fields.
fn point(table: TableId, mode: WriteMode, fields: &[u32]) -> WriteBatch {
    let series: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
    let time: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![5]));
    let mut columns = vec![CellColumn::whole(SERIES_COLUMN, series), CellColumn::whole(TIME_COLUMN, time)];
    let value: ArrayRef = Arc::new(Float64Array::from(vec![0.5]));
    columns.extend(fields.iter().map(|field| CellColumn::whole(ColumnId(*field), value.clone())));
    WriteBatch { operations: vec![Operation::Upsert(Upsert { table, mode, columns })] }
}

#[test]
fn a_row_of_several_sheets_is_in_the_first_one_although_its_range_was_dropped_in_between() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, dropper) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        let add = |number: u32| Alteration::add_column(format!("f{number}"), ColumnType::Float64);
        writer.alter_table(table, (0..600).map(add).collect()).await.expect("altered");
        // The range has the first sheet only. An update needs another.
        writer.write(point(table, WriteMode::Upsert, &[2])).await.expect("written");
        let updated = writer.write(point(table, WriteMode::Update, &[300])).await.expect("updated");
        assert_eq!((updated.affected, updated.conflicts.len()), (1, 0));
        let client = connect(&cluster).await;
        let rows = async |suffix: &str| {
            let known = client.open_table(&format!("nyala.t{table}{suffix}")).await.expect("a table");
            known.scan().count().await.expect("a count")
        };
        for round in 0..30 {
            let drop = async {
                tokio::time::sleep(Duration::from_millis(10 * round)).await;
                dropper.drop_partitions(table, TimeRange::ALL).await.expect("dropped");
            };
            let write = async {
                writer.write(point(table, WriteMode::Upsert, &[2, 300, 600])).await.expect("written");
            };
            tokio::join!(drop, write);
            let first = rows("").await;
            for suffix in ["_1", "_2"] {
                assert!(rows(suffix).await <= first, "round {round}: a row of {suffix} is not in the first");
            }
        }
    });
}

#[test]
fn a_range_that_only_the_cluster_has_gives_way_to_one_of_another_width() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let (writer, dropper) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        writer.write(points(table, 5)).await.expect("written");
        let time = writer.partitions(table).await.expect("the table is there").remove(0).range;
        assert_eq!(dropper.drop_partitions(table, TimeRange::ALL).await.expect("dropped").len(), 1);
        let wider = vec![Alteration::SetPartitionWidth(3 * WIDTH_NS)];
        dropper.alter_table(table, wider).await.expect("altered");
        leave_orphan(&cluster, table, time).await;
        writer.write(points(table, 5)).await.expect("written");
        assert_whole([&writer, &dropper], table).await;
        assert_ne!(writer.partitions(table).await.expect("the table is there")[0].range, time);
    });
}

#[test]
fn a_range_that_the_cluster_does_not_drop_stays_in_the_log() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts");
        let store = open(&cluster, 2).await;
        let table = store.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        store.write(points(table, 5)).await.expect("written");
        // Kudu refuses what names the range in the same way as what names none.
        let known = connect(&cluster).await.open_table(&format!("nyala.t{table}")).await.expect("a table");
        let time = format!("c{TIME_COLUMN}");
        let known = known.alter().rename_column(&time, "other").apply().await.expect("altered");
        store.drop_partitions(table, TimeRange::ALL).await.expect_err("Kudu refuses it");
        known.alter().rename_column("other", &time).apply().await.expect("altered");
        assert_whole([&store, &open(&cluster, 2).await], table).await;
    });
}

#[test]
fn a_new_measurement_gets_more_shards_at_once_than_kudu_creates_with_a_table() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let options = ClusterOptions::new(1, 3).master_flag("--max_create_tablets_per_ts=4");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&options).expect("the cluster starts");
        let replicated = KuduOptions { replicas: 3, buckets: 2, ..patient_options() };
        let store = open_with(&cluster, replicated).await;
        let table = store.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        // Twelve replicas are allowed. These are thirty.
        let mut batch = points(table, 0);
        (1..5).for_each(|range| batch.operations.extend(points(table, range * WIDTH_NS).operations));
        store.write(batch).await.expect("written");
        assert_eq!(store.partitions(table).await.expect("the table is there").len(), 5);
        assert_eq!(count(&store, table).await.expect("a count"), 5 * SERIES as usize);
    });
}

#[test]
fn what_is_written_after_a_drop_is_not_written_to_tablets_that_wait_for_their_deletion() {
    if let Err(why) = kudu_home() {
        peers::require::<()>("Kudu", &why, None);
        return;
    }
    let options = ClusterOptions::new(1, 1).tablet_server_flag("--delete_tablet_inject_latency_ms=2000");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let cluster = TestCluster::start(&options).expect("the cluster starts");
        let (writer, dropper) = (open(&cluster, 2).await, open(&cluster, 2).await);
        let table = writer.create_table(TableSchema::measurement("m", WIDTH_NS)).await.expect("created");
        writer.write(points(table, 5)).await.expect("written");
        assert_eq!(dropper.drop_partitions(table, TimeRange::ALL).await.expect("dropped").len(), 1);
        // The writer knows the tablets and has not looked since.
        writer.write(points(table, 5)).await.expect("written");
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_whole([&writer, &dropper], table).await;
    });
}
