//! Writes: flush modes, errors of single rows, bounds, and servers that throttle.

mod support;

use std::time::Duration;

use kudu_client::test_cluster::{ClusterOptions, Daemon};
use kudu_client::*;
use support::*;

fn key_only(table: &Table, operation: Operation, key: i64) -> Row {
    let mut row = table.row(operation);
    row.set("key", key).unwrap();
    row
}

#[test]
fn every_operation_has_its_effect() {
    with_shared(async |client| {
        let table = small_table(&client, "operations", 2, 1).await;
        let session = table.session().mode(FlushMode::Sync).open();
        let with_value = |operation, key: i64, value: i32| {
            let mut row = key_only(&table, operation, key);
            row.set("value", value).unwrap();
            row
        };
        let rows = async || rows_of(&table.scan().open().await.unwrap().collect().await.unwrap());
        session.apply(&with_value(Operation::Insert, 1, 10)).await.unwrap();
        let again = session.apply(&with_value(Operation::Insert, 1, 11)).await.unwrap_err();
        assert_eq!((again.kind(), again.code()), (ErrorKind::AlreadyPresent, Some(Code::Row(6))));
        session.apply(&with_value(Operation::InsertIgnore, 1, 11)).await.unwrap();
        assert_eq!(rows().await, ["1|10|NULL"]);
        let mut text_only = key_only(&table, Operation::Upsert, 1);
        text_only.set("text", "t").unwrap();
        session.apply(&text_only).await.unwrap();
        assert_eq!(rows().await, ["1|10|\"t\""], "an upsert does not change unset columns");
        session.apply(&with_value(Operation::Update, 1, 12)).await.unwrap();
        let missing = session.apply(&with_value(Operation::Update, 2, 1)).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        session.apply(&with_value(Operation::UpdateIgnore, 2, 1)).await.unwrap();
        session.apply(&key_only(&table, Operation::DeleteIgnore, 2)).await.unwrap();
        let missing = session.apply(&key_only(&table, Operation::Delete, 2)).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let mut to_null = key_only(&table, Operation::Update, 1);
        to_null.set("text", Cell::Null).unwrap();
        session.apply(&to_null).await.unwrap();
        assert_eq!(rows().await, ["1|12|NULL"]);
        session.apply(&key_only(&table, Operation::Delete, 1)).await.unwrap();
        assert!(rows().await.is_empty());
    });
}

#[test]
fn rows_of_one_key_keep_their_order_when_their_range_is_made_again() {
    with_shared(async |client| {
        let range = || {
            RangePartition::new(RangeBound::inclusive("key", 0_i64), RangeBound::exclusive("key", 100_i64))
        };
        let create = client.create_table("made_again", small_schema()).replicas(1);
        let table = create.range_columns(["key"]).range(range()).create().await.unwrap();
        for mode in [FlushMode::Background, FlushMode::Manual] {
            let session = table.session().mode(mode).flush_interval(Duration::from_secs(60)).open();
            let apply = async |value: i32| {
                let mut row = key_only(&table, Operation::Upsert, 1);
                row.set("value", value).unwrap();
                session.apply(&row).await.unwrap();
            };
            apply(1).await;
            table.alter().drop_range(&range()).apply().await.unwrap();
            table.alter().add_range(&range()).apply().await.unwrap();
            apply(2).await;
            apply(3).await;
            session.flush().await.unwrap();
            let rows = rows_of(&table.scan().open().await.unwrap().collect().await.unwrap());
            assert_eq!(rows, ["1|3|NULL"], "{mode:?}");
        }
    });
}

#[test]
fn failed_rows_come_back_with_their_reasons() {
    with_shared(async |client| {
        let table = small_table(&client, "failures", 3, 1).await;
        insert_range(&table, 0..100).await;
        let session = table.session().max_errors(30).open();
        for key in 50..150 {
            session.apply(&small_row(&table, Operation::Insert, key)).await.unwrap();
        }
        let error = session.flush().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyPresent);
        let errors = session.take_errors();
        assert_eq!((errors.errors.len(), errors.dropped), (30, 20));
        for failed in &errors.errors {
            assert_eq!(failed.error.kind(), ErrorKind::AlreadyPresent);
            let Some(Value::Int64(key)) = failed.row.get("key") else { panic!("the row has a key") };
            assert!((50..100).contains(&key));
            assert_eq!(failed.row.operation(), Operation::Insert);
        }
        session.flush().await.unwrap();
        assert_eq!(table.scan().count().await.unwrap(), 150);
        // A cell that is too large fails only its own row.
        let mut large = key_only(&table, Operation::Insert, 1000);
        large.set("text", &"x".repeat(70_000)).unwrap();
        session.apply(&large).await.unwrap();
        session.apply(&small_row(&table, Operation::Insert, 1001)).await.unwrap();
        assert!(session.flush().await.is_err());
        assert_eq!(session.take_errors().count(), 1);
        assert_eq!(table.scan().count().await.unwrap(), 151);
        assert_eq!(session.used_bytes(), 0);
    });
}

#[test]
fn operations_on_one_key_keep_their_order() {
    with_shared(async |client| {
        let table = small_table(&client, "order", 2, 1).await;
        let session = table.session().batch_bytes(200).open();
        for value in 0..2000 {
            let mut row = key_only(&table, Operation::Upsert, (value % 4).into());
            row.set("value", value).unwrap();
            session.apply(&row).await.unwrap();
            if value % 500 == 499 {
                session.apply(&key_only(&table, Operation::Delete, 0)).await.unwrap();
            }
        }
        session.flush().await.unwrap();
        let rows = rows_of(&table.scan().open().await.unwrap().collect().await.unwrap());
        assert_eq!(rows, ["1|1997|NULL", "2|1998|NULL", "3|1999|NULL"]);
    });
}

#[test]
fn modes_decide_when_rows_are_sent() {
    with_shared(async |client| {
        let table = small_table(&client, "modes", 2, 1).await;
        let manual = table.session().mode(FlushMode::Manual).buffer_bytes(5000).open();
        let mut full = None;
        for key in 0..1000 {
            if let Err(error) = manual.apply(&small_row(&table, Operation::Insert, key)).await {
                full = Some((key, error));
                break;
            }
        }
        let (count, error) = full.expect("the buffer is small");
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(table.scan().count().await.unwrap(), 0);
        manual.flush().await.unwrap();
        assert_eq!(table.scan().count().await.unwrap() as i64, count);

        let background = table.session().flush_interval(Duration::from_millis(50)).open();
        background.apply(&small_row(&table, Operation::Insert, 5000)).await.unwrap();
        wait_until("the row is sent without a flush", async || background.used_bytes() == 0).await;
        assert_eq!(table.scan().count().await.unwrap() as i64, count + 1);

        let incomplete = table.row(Operation::Insert);
        assert_eq!(background.apply(&incomplete).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        let other = small_table(&client, "modes_other", 1, 1).await;
        let fuzz = client
            .create_table("modes_third", Schema::new(vec![Column::new("x", DataType::Int8).key()]).unwrap());
        let third = fuzz.replicas(1).create().await.unwrap();
        background.apply(&small_row(&other, Operation::Insert, 9999)).await.unwrap();
        let mut foreign = third.row(Operation::Insert);
        foreign.set("x", 1_i8).unwrap();
        assert!(background.apply(&foreign).await.is_err(), "the row of a table with other columns");
        background.flush().await.unwrap();
    });
}

#[test]
fn a_small_buffer_bounds_the_bytes_in_flight() {
    with_shared(async |client| {
        let table = small_table(&client, "bounded", 4, 1).await;
        let session = table.session().buffer_bytes(50_000).batch_bytes(8_000).open();
        let mut most = 0;
        for key in 0..30_000 {
            session.apply(&small_row(&table, Operation::Insert, key)).await.unwrap();
            most = most.max(session.used_bytes());
        }
        session.flush().await.unwrap();
        assert!(most <= 51_000, "{most} bytes");
        assert_eq!(table.scan().count().await.unwrap(), 30_000);
    });
}

#[test]
fn rows_without_a_unique_key_are_numbered_by_the_servers() {
    with_shared(async |client| {
        let columns = vec![
            Column::new("name", DataType::String).key(),
            Column::auto_incrementing(),
            Column::new("value", DataType::Int32),
        ];
        let creator = client.create_table("numbered", Schema::new(columns).unwrap()).replicas(1);
        let table = creator.create().await.unwrap();
        assert!(table.schema().columns()[1].is_auto_incrementing());
        let session = table.session().mode(FlushMode::Sync).open();
        let mut row = table.row(Operation::Insert);
        row.set("name", "same").unwrap().set("value", 5).unwrap();
        session.apply(&row).await.unwrap();
        session.apply(&row).await.unwrap();
        let rows = rows_of(&table.scan().open().await.unwrap().collect().await.unwrap());
        assert_eq!(rows, ["\"same\"|1|5", "\"same\"|2|5"]);
        row.set("auto_incrementing_id", 7_i64).unwrap();
        assert_eq!(session.apply(&row).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    });
}

#[test]
fn throttling_and_a_tiny_queue_slow_writers_but_lose_no_rows() {
    if !have_kudu() {
        return;
    }
    let options = ClusterOptions::new(1, 1)
        .tablet_server_flag("--rpc_service_queue_length=1")
        .tablet_server_flag("--rpc_num_service_threads=1")
        .tablet_server_flag("--tablet_throttler_bytes_per_sec=300000")
        .tablet_server_flag("--tablet_throttler_burst_factor=2");
    let cluster = start(&options);
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "throttled", 8, 1).await;
        let mut writers = Vec::new();
        for writer in 0..4_i64 {
            let table = table.clone();
            writers.push(tokio::spawn(async move {
                let session = table.session().batch_bytes(20_000).timeout(TIMEOUT).open();
                for key in writer * 20_000..(writer + 1) * 20_000 {
                    session.apply(&small_row(&table, Operation::Insert, key)).await.unwrap();
                }
                session.flush().await.unwrap();
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(client.metrics().busy_answers > 0, "the servers never throttled: {:?}", client.metrics());
        assert_eq!(table.scan().count().await.unwrap(), 80_000);
    });
}

#[test]
fn a_frozen_server_fills_no_memory_and_fails_rows_in_time() {
    if !have_kudu() {
        return;
    }
    let mut cluster = start(&ClusterOptions::new(1, 1));
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "frozen", 4, 1).await;
        insert_range(&table, 0..100).await;
        cluster.pause(Daemon::TabletServer(0)).unwrap();
        let session =
            table.session().buffer_bytes(100_000).batch_bytes(10_000).timeout(Duration::from_secs(2)).open();
        let started = std::time::Instant::now();
        let mut most = 0;
        let mut given = 0;
        for key in 1000..20_000 {
            let row = small_row(&table, Operation::Insert, key);
            given += 1;
            if tokio::time::timeout(Duration::from_millis(200), session.apply(&row)).await.is_err() {
                // The buffer is full: the writer waits instead of growing.
                given -= 1;
                break;
            }
            most = most.max(session.used_bytes());
        }
        assert!(given < 10_000 && most <= 101_000, "{given} rows, {most} bytes");
        let error = session.flush().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        // By the timeout of the session, and not by that of a call, which is a minute here.
        assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
        let failed = session.take_errors();
        assert_eq!(failed.count(), given);
        assert!(failed.errors.iter().all(|failed| failed.error.tablet().is_some()));
        assert_eq!(session.used_bytes(), 0);

        cluster.resume(Daemon::TabletServer(0)).unwrap();
        // The outcome of the rows is unknown; writing them again succeeds.
        let session = table.session().timeout(TIMEOUT).open();
        for failed in failed.errors {
            let Some(Value::Int64(key)) = failed.row.get("key") else { panic!("the row has a key") };
            session.apply(&small_row(&table, Operation::Upsert, key)).await.unwrap();
        }
        session.flush().await.unwrap();
        assert_eq!(table.scan().count().await.unwrap(), 100 + given);
    });
}
