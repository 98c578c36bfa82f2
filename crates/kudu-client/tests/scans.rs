//! Scans: predicates (compared with a filter in the test), limits, snapshots, changes, tokens.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use kudu_client::test_cluster::ClusterOptions;
use kudu_client::*;
use support::*;

/// The keys that a scan returns, sorted.
async fn keys(scan: ScanBuilder) -> Vec<i64> {
    let batches = scan.project(["key"]).open().await.unwrap().collect().await.unwrap();
    let mut keys: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    keys.sort_unstable();
    keys
}

const FUZZ_ROWS: i64 = 1500;

fn fuzz_schema() -> Schema {
    Schema::new(vec![
        Column::new("key", DataType::Int64).key(),
        Column::new("tiny", DataType::Int8).nullable(),
        Column::new("time", DataType::UnixtimeMicros).nullable(),
        Column::new("decimal", DataType::Decimal { precision: 20, scale: 2 }).nullable(),
        Column::new("double", DataType::Double).nullable(),
        Column::new("text", DataType::String).nullable(),
        Column::new("flag", DataType::Bool).nullable(),
        Column::new("day", DataType::Date).nullable(),
    ])
    .unwrap()
}

/// One of a few values, which include the extremes.
fn fuzz_value(data_type: DataType, numbers: &mut Numbers) -> Value {
    let pick = numbers.below(12) as usize;
    match data_type {
        DataType::Int64 => (numbers.below(FUZZ_ROWS as u64) as i64).into(),
        DataType::Int8 => [i8::MIN, i8::MAX, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8][pick].into(),
        DataType::UnixtimeMicros => [i64::MIN, i64::MAX, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8][pick].into(),
        DataType::Decimal { .. } => {
            let most = 10_i128.pow(20) - 1;
            [-most, most, -100, -1, 0, 1, 2, 3, 4, 5, 100, 1 << 65][pick].into()
        }
        DataType::Double => {
            let tiny = f64::MIN_POSITIVE;
            [
                f64::MIN,
                f64::MAX,
                -1.5,
                -0.0,
                0.0,
                1.5,
                tiny,
                -tiny,
                1e300,
                -1e300,
                f64::INFINITY,
                -f64::INFINITY,
            ][pick]
                .into()
        }
        DataType::String => {
            ["", "a", "a\0", "ab", "b", "\u{e4}", "z", "zz", "zzz", "\0", "A", "aa"][pick].into()
        }
        DataType::Bool => (pick < 6).into(),
        DataType::Date => [-719_162, 2_932_896, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8][pick].into(),
        other => panic!("no values of {other:?}"),
    }
}

fn order(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b).unwrap(),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int8(a), Value::Int8(b)) => a.cmp(b),
        (Value::Int32(a), Value::Int32(b)) => a.cmp(b),
        (Value::Int64(a), Value::Int64(b)) => a.cmp(b),
        (Value::Int128(a), Value::Int128(b)) => a.cmp(b),
        other => panic!("{other:?} are not compared"),
    }
}

type Matches = Box<dyn Fn(&Value) -> bool>;

/// A random predicate, and the same condition as a function.
fn fuzz_predicate(column: &str, data_type: DataType, numbers: &mut Numbers) -> (Predicate, Matches) {
    let value = fuzz_value(data_type, numbers);
    let by_order = |value: &Value, wanted: fn(std::cmp::Ordering) -> bool| -> Matches {
        let value = value.clone();
        Box::new(move |cell| *cell != Value::Null && wanted(order(cell, &value)))
    };
    match numbers.below(9) {
        0 => (Predicate::eq(column, &value), by_order(&value, |o| o.is_eq())),
        1 => (Predicate::lt(column, &value), by_order(&value, |o| o.is_lt())),
        2 => (Predicate::le(column, &value), by_order(&value, |o| o.is_le())),
        3 => (Predicate::gt(column, &value), by_order(&value, |o| o.is_gt())),
        4 => (Predicate::ge(column, &value), by_order(&value, |o| o.is_ge())),
        5 => (Predicate::is_null(column), Box::new(|cell| *cell == Value::Null)),
        6 => (Predicate::is_not_null(column), Box::new(|cell| *cell != Value::Null)),
        _ => {
            let list: Vec<Value> = (0..numbers.below(6)).map(|_| fuzz_value(data_type, numbers)).collect();
            let listed = list.clone();
            let matches_value: Matches = Box::new(move |cell| {
                *cell != Value::Null && listed.iter().any(|value| order(cell, value).is_eq())
            });
            (Predicate::in_list(column, &list), matches_value)
        }
    }
}

#[test]
fn predicates_agree_with_a_filter_in_the_test() {
    with_shared(async |client| {
        let creator =
            client.create_table("fuzz", fuzz_schema()).replicas(1).hash(HashPartition::new(["key"], 3));
        let table = creator.create().await.unwrap();
        let session = table.session().open();
        let mut numbers = Numbers(2026);
        let columns = table.schema().columns().to_vec();
        let mut rows: Vec<Vec<Value>> = Vec::new();
        for key in 0..FUZZ_ROWS {
            let mut row = table.row(Operation::Insert);
            let mut values = vec![Value::Int64(key)];
            for column in &columns[1..] {
                let is_null = numbers.below(8) == 0;
                values.push(if is_null { Value::Null } else { fuzz_value(column.data_type(), &mut numbers) });
            }
            for (column, value) in columns.iter().zip(&values) {
                row.set(column.name(), value).unwrap();
            }
            session.apply(&row).await.unwrap();
            rows.push(values);
        }
        session.flush().await.unwrap();
        for round in 0..400 {
            let mut scan = table.scan();
            let mut conditions: Vec<(usize, Matches)> = Vec::new();
            let mut said = Vec::new();
            for _ in 0..1 + numbers.below(3) {
                let index = numbers.below(columns.len() as u64) as usize;
                let (predicate, matches_value) =
                    fuzz_predicate(columns[index].name(), columns[index].data_type(), &mut numbers);
                said.push(format!("{predicate:?}"));
                scan = scan.filter(predicate);
                conditions.push((index, matches_value));
            }
            let expected: Vec<i64> = (0..FUZZ_ROWS)
                .filter(|&key| {
                    conditions.iter().all(|(index, matches_value)| matches_value(&rows[key as usize][*index]))
                })
                .collect();
            assert_eq!(keys(scan).await, expected, "round {round}: {said:#?}");
        }
    });
}

#[test]
fn bloom_filters_return_all_their_values() {
    with_shared(async |client| {
        let table = small_table(&client, "bloom", 3, 1).await;
        insert_range(&table, 0..5000).await;
        let mut keys_wanted = BloomFilter::new(DataType::Int64, 100, 0.01);
        let mut texts_wanted = BloomFilter::new(DataType::String, 100, 0.01);
        let mut wanted = BTreeSet::new();
        for number in 0..100_i64 {
            keys_wanted.insert(number * 49 + 1).unwrap();
            texts_wanted.insert(&format!("text {}", number * 49 + 1)).unwrap();
            wanted.insert(number * 49 + 1);
        }
        let found = keys(table.scan().filter(Predicate::in_bloom_filter("key", keys_wanted.clone()))).await;
        assert!(wanted.is_subset(&found.iter().copied().collect()));
        assert!(found.len() < 250, "{} of 5000 rows", found.len());
        let found = keys(table.scan().filter(Predicate::in_bloom_filter("text", texts_wanted))).await;
        let with_text: BTreeSet<i64> = wanted.iter().copied().filter(|key| key % 5 != 0).collect();
        assert!(with_text.is_subset(&found.iter().copied().collect()));
        assert!(found.len() < 250);
        let both = table
            .scan()
            .filter(Predicate::in_bloom_filter("key", keys_wanted))
            .filter(Predicate::lt("key", 500_i64));
        let found = keys(both).await;
        assert!(found.iter().all(|key| *key < 500) && found.len() >= 11);
    });
}

#[test]
fn limits_projections_and_counts() {
    with_shared(async |client| {
        let table = small_table(&client, "limits", 4, 1).await;
        insert_range(&table, 0..10_000).await;
        for limit in [0, 1, 7, 2500, 9_999, 10_000, 20_000] {
            let rows = keys(table.scan().limit(limit).batch_bytes(4096)).await;
            assert_eq!(rows.len() as u64, limit.min(10_000));
            assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "no key twice");
        }
        assert_eq!(table.scan().count().await.unwrap(), 10_000);
        assert_eq!(table.scan().layout(Layout::Rowwise).count().await.unwrap(), 10_000);
        let scanner = table.scan().project(["text", "key", "text"]).open().await;
        // Servers refuse the same column twice.
        assert!(scanner.unwrap().collect().await.is_err());
        let reordered =
            table.scan().project(["text", "key"]).filter(Predicate::eq("value", 7)).open().await.unwrap();
        assert_eq!(rows_of(&reordered.collect().await.unwrap()), [r#""text 7"|7"#]);
        assert!(table.scan().project(["nothing"]).open().await.is_err());
        // Dropping a running scanner closes it on the servers.
        let mut scanner = table.scan().batch_bytes(1000).open().await.unwrap();
        assert!(scanner.next_batch().await.unwrap().is_some());
        drop(scanner);
        let stream = table.scan().batch_bytes(10_000).open().await.unwrap().into_stream();
        let rows =
            futures::StreamExt::fold(stream, 0, async |rows, batch| rows + batch.unwrap().num_rows()).await;
        assert_eq!(rows, 10_000);
    });
}

#[test]
fn ordered_scans_are_in_key_order_within_a_tablet() {
    with_shared(async |client| {
        let table = small_table(&client, "ordered", 1, 1).await;
        let session = table.session().open();
        let mut numbers = Numbers(5);
        for _ in 0..5000 {
            let row = small_row(&table, Operation::InsertIgnore, numbers.below(100_000) as i64);
            session.apply(&row).await.unwrap();
        }
        session.flush().await.unwrap();
        let scan = table.scan().fault_tolerant().batch_bytes(2000).project(["key"]);
        let batches = scan.open().await.unwrap().collect().await.unwrap();
        assert!(batches.len() > 5);
        let keys: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert!(keys.is_sorted());
    });
}

#[test]
fn snapshots_and_changes_between_them() {
    with_shared(async |client| {
        let table = small_table(&client, "history", 3, 1).await;
        insert_range(&table, 0..300).await;
        let before = client.last_timestamp().unwrap();
        let session = table.session().open();
        for key in 0..100_i64 {
            let mut delete = table.row(Operation::Delete);
            delete.set("key", key).unwrap();
            session.apply(&delete).await.unwrap();
        }
        for key in 250..350_i64 {
            let mut change = table.row(Operation::Upsert);
            change.set("key", key).unwrap().set("value", -1).unwrap();
            session.apply(&change).await.unwrap();
        }
        session.flush().await.unwrap();
        let after = client.last_timestamp().unwrap();
        assert!(after > before);

        let at = |timestamp| table.scan().read_mode(ReadMode::Snapshot(Some(timestamp)));
        assert_eq!(keys(at(before)).await, (0..300).collect::<Vec<_>>());
        assert_eq!(keys(at(after)).await, (100..350).collect::<Vec<_>>());
        assert_eq!(keys(table.scan().read_mode(ReadMode::Snapshot(None))).await.len(), 250);
        assert_eq!(keys(table.scan().read_mode(ReadMode::YourWrites)).await.len(), 250);

        let scan = table.scan().changes(before, after, "deleted").project(["key", "value"]);
        let changes = scan.open().await.unwrap().collect().await.unwrap();
        let rows = rows_of(&changes);
        assert_eq!(rows.len(), 200);
        assert_eq!(rows.iter().filter(|row| row.ends_with("|true")).count(), 100);
        assert_eq!(rows.iter().filter(|row| row.ends_with("|-1|false")).count(), 100);

        let error = at(Timestamp::from_micros(1)).open().await.unwrap().collect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSnapshot, "{error}");
        // Another client that observes the time sees what this one wrote.
        let other = connect(shared().unwrap()).await;
        other.observe_timestamp(client.last_timestamp().unwrap());
        let theirs = other.open_table("history").await.unwrap();
        assert_eq!(keys(theirs.scan().read_mode(ReadMode::YourWrites)).await.len(), 250);
    });
}

#[test]
fn tokens_are_scanned_by_other_clients() {
    with_shared(async |client| {
        let table = small_table(&client, "tokens", 3, 1).await;
        insert_range(&table, 0..3000).await;
        let scan = table.scan().filter(Predicate::ge("key", 1000_i64)).read_mode(ReadMode::Snapshot(None));
        let tokens = scan.clone().into_tokens().await.unwrap();
        assert_eq!(tokens.len(), 3);
        let other = connect(shared().unwrap()).await;
        insert_range(&table, 3000..4000).await;
        let mut rows = Vec::new();
        for token in &tokens {
            assert_eq!(token.servers().len(), 1);
            let scanner = ScanToken::open_serialized(&other, &token.serialize()).await.unwrap();
            rows.extend(rows_of(&scanner.collect().await.unwrap()));
        }
        rows.sort();
        assert_eq!(rows.len(), 2000, "the state when the tokens were made");
        for split in scan.split_bytes(1000).into_tokens().await.unwrap() {
            split.open(&client).await.unwrap().collect().await.unwrap();
        }
        for bad in [&b""[..], b"\x08\x02", b"nonsense"] {
            assert!(ScanToken::open_serialized(&client, bad).await.is_err());
        }
    });
}

#[test]
fn a_slow_reader_keeps_its_scanner_and_memory_stays_bounded() {
    with_shared(async |client| {
        let table = small_table(&client, "slow", 2, 1).await;
        insert_range(&table, 0..20_000).await;
        let received = |client: &Client| client.metrics().bytes_received;
        let mut scanner = table.scan().batch_bytes(20_000).parallelism(2).prefetch(1).open().await.unwrap();
        let before = received(&client);
        scanner.next_batch().await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let fetched = received(&client) - before;
        // One batch returned, one waiting, one with each reader.
        assert!(fetched < 8 * 20_000, "{fetched} bytes were fetched ahead");
        let mut rows = 0;
        while let Some(batch) = scanner.next_batch().await.unwrap() {
            rows += batch.num_rows();
        }
        assert!(rows > 10_000);
    });
}

#[test]
fn tablets_are_split_into_ranges_of_their_keys() {
    if !have_kudu() {
        return;
    }
    let cluster = start(&flushing_options());
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "split", 2, 1).await;
        for part in 0..4_i64 {
            insert_range(&table, part * 5000..(part + 1) * 5000).await;
            wait_for_flush(&cluster, 1).await;
        }
        let tokens = table.scan().project(["key"]).split_bytes(10_000).into_tokens().await.unwrap();
        assert!(tokens.len() > 2, "{} tokens", tokens.len());
        let mut keys = Vec::new();
        for token in &tokens {
            for batch in token.open(&client).await.unwrap().collect().await.unwrap() {
                keys.extend(batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            }
        }
        keys.sort_unstable();
        assert!(keys.into_iter().eq(0..20_000), "every key in one token");
    });
}

#[test]
fn expired_scanners_are_resumed_or_reported() {
    if !have_kudu() {
        return;
    }
    let options = ClusterOptions::new(1, 1)
        .tablet_server_flag("--scanner_ttl_ms=150")
        .tablet_server_flag("--scanner_gc_check_interval_us=20000");
    let cluster = start(&options);
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "forgotten", 1, 1).await;
        insert_range(&table, 0..20_000).await;
        let scan = table.scan().project(["key"]).batch_bytes(20_000).prefetch(1);
        let open_scanners =
            || metric(&cluster.tablet_server_web()[0], "active_scanners").into_iter().sum::<u64>();
        let read_slowly = async |scan: ScanBuilder| {
            let mut scanner = scan.open().await.unwrap();
            let mut keys = Vec::new();
            while let Some(batch) = scanner.next_batch().await? {
                if keys.is_empty() {
                    // Only a few of the batches are read ahead.
                    wait_until("the server forgets the scanner", async || open_scanners() == 0).await;
                }
                keys.extend(batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            }
            Ok::<_, Error>(keys)
        };
        let keys = read_slowly(scan.clone().fault_tolerant()).await.unwrap();
        assert!(keys.into_iter().eq(0..20_000));
        assert!(client.metrics().scans_resumed > 0);
        let error = read_slowly(scan).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ScannerExpired, "{error}");
        assert_eq!(error.code(), Some(Code::TabletServer(7, 1)));
    });
}
