//! Sorted scans of all tablets, the choice of replicas, and idle connections.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use kudu_client::test_cluster::ClusterOptions;
use kudu_client::*;
use support::*;

fn schema() -> Schema {
    let amount = DataType::Decimal { precision: 12, scale: 2 };
    Schema::new(vec![
        Column::new("day", DataType::Int32).key(),
        Column::new("host", DataType::String).key(),
        Column::new("amount", amount).key(),
        Column::new("value", DataType::Int64).nullable(),
    ])
    .unwrap()
}

type Key = (i32, String, i128);

/// Rows of a few days, with hosts that contain zero bytes and share prefixes, and negative and positive amounts.
async fn fill(table: &Table) -> Vec<Key> {
    let mut numbers = Numbers(3);
    let session = table.session().open();
    let mut keys = Vec::new();
    for number in 0..6000_i64 {
        let host = ["", "a", "a\0", "a\0b", "ab", "\u{e4}"][numbers.below(6) as usize];
        let key = (numbers.below(60) as i32 - 30, host.to_owned(), i128::from(numbers.next() as i32));
        let mut row = table.row(Operation::Upsert);
        row.set("day", key.0).unwrap().set("host", &key.1).unwrap().set("amount", key.2).unwrap();
        row.set("value", (number % 3 != 0).then_some(number)).unwrap();
        session.apply(&row).await.unwrap();
        keys.push(key);
    }
    session.flush().await.unwrap();
    keys.sort();
    keys.dedup();
    keys
}

async fn keys_of(scan: ScanBuilder) -> Vec<Key> {
    let mut keys = Vec::new();
    for batch in scan.open().await.unwrap().collect().await.unwrap() {
        let column = |name| batch.column_by_name(name).unwrap();
        for row in 0..batch.num_rows() {
            let day = column("day").as_primitive::<Int32Type>().value(row);
            let host = column("host").as_string::<i32>().value(row).to_owned();
            keys.push((day, host, column("amount").as_primitive::<Decimal128Type>().value(row)));
        }
    }
    keys
}

fn days(from: Option<i32>, to: Option<i32>) -> RangePartition {
    let bound = |day: Option<i32>, make: fn(&str, i32) -> RangeBound| {
        day.map_or(RangeBound::Unbounded, |day| make("day", day))
    };
    RangePartition::new(bound(from, RangeBound::inclusive), bound(to, RangeBound::exclusive))
}

#[test]
fn rows_of_many_tablets_are_merged_by_key() {
    with_shared(async |client| {
        let create = |name: &str| client.create_table(name, schema()).replicas(1);
        let by_host = || HashPartition::new(["host"], 3);
        let by_amount = || HashPartition::new(["amount", "host"], 4);
        let tables = [
            create("sorted one").hash(by_amount()),
            create("sorted ranges")
                .hash(by_host())
                .hash(HashPartition::new(["amount"], 2))
                .range_columns(["day"])
                .range(days(None, Some(-10)))
                .range(days(Some(-10), Some(0)).hash(vec![by_amount(), HashPartition::new(["day"], 2)]))
                .range(days(Some(0), None)),
            // Ranges of a column that is not a prefix of the key: all tablets interleave.
            create("sorted across")
                .hash(HashPartition::new(["day"], 2))
                .range_columns(["host"])
                .split_at(vec![("host".into(), "a\0b".into())]),
        ];
        for creator in tables {
            let table = creator.create().await.unwrap();
            let keys = fill(&table).await;
            for layout in [Layout::Columnar, Layout::Rowwise] {
                let scan = || table.scan().sorted().layout(layout).batch_bytes(20_000);
                assert_eq!(keys_of(scan()).await, keys, "{}", table.name());
                assert_eq!(keys_of(scan().limit(777)).await, keys[..777]);
                let some = keys_of(scan().filter(Predicate::eq("host", "a")).limit(50)).await;
                let expected: Vec<Key> = keys.iter().filter(|key| key.1 == "a").take(50).cloned().collect();
                assert_eq!(some, expected);
            }
        }
    });
}

#[test]
fn columns_that_are_read_only_to_sort_are_hidden() {
    with_shared(async |client| {
        let creator = client.create_table("sorted hidden", schema()).replicas(1);
        let table = creator.hash(HashPartition::new(["host", "amount"], 5)).create().await.unwrap();
        let keys = fill(&table).await;
        let scanner = table.scan().sorted().project(["value", "day"]).open().await.unwrap();
        let names: Vec<_> = scanner.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["value", "day"]);
        let batches = scanner.collect().await.unwrap();
        let days: Vec<i32> = batches
            .iter()
            .flat_map(|batch| batch.column(1).as_primitive::<Int32Type>().values().to_vec())
            .collect();
        assert_eq!(days, keys.iter().map(|key| key.0).collect::<Vec<_>>());
        assert!(batches.iter().all(|batch| batch.num_columns() == 2));
        assert_eq!(table.scan().sorted().count().await.unwrap(), keys.len() as u64);
        assert_eq!(
            table
                .scan()
                .sorted()
                .strings_as_binary()
                .project(["host"])
                .limit(0)
                .open()
                .await
                .unwrap()
                .collect()
                .await
                .unwrap()
                .len(),
            0
        );
        let binary = table.scan().sorted().strings_as_binary().project(["host"]).open().await.unwrap();
        let binary: usize = binary.collect().await.unwrap().iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(binary, keys.len());
        let error = table.scan().sorted().into_tokens().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);

        // Changes are sorted too, with the deletion flag as the last column.
        let before = client.last_timestamp().unwrap();
        let session = table.session().open();
        for key in keys.iter().step_by(7) {
            let mut row = table.row(Operation::Delete);
            row.set("day", key.0).unwrap().set("host", &key.1).unwrap().set("amount", key.2).unwrap();
            session.apply(&row).await.unwrap();
        }
        session.flush().await.unwrap();
        let after = client.last_timestamp().unwrap();
        let changes =
            table.scan().changes(before, after, "deleted").sorted().project(["day"]).open().await.unwrap();
        let batches = changes.collect().await.unwrap();
        let days: Vec<i32> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values().to_vec())
            .collect();
        assert_eq!(days, keys.iter().step_by(7).map(|key| key.0).collect::<Vec<_>>());
        assert!(batches.iter().all(|batch| batch.column(1).as_boolean().true_count() == batch.num_rows()));
    });
}

#[test]
fn the_closest_replica_is_the_one_at_the_clients_location() {
    if !have_kudu() {
        return;
    }
    // The second server's address ends in 2 modulo 64; clients come from 127.0.0.1.
    let script = std::env::temp_dir().join(format!("kudu-client-locations-{}", std::process::id()));
    let text = "#!/bin/sh\n[ $1 = 127.0.0.1 ] || [ $((${1##*.} % 64)) = 2 ] && echo /two || echo /other\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mapping = format!("--location_mapping_cmd={}", script.display());
    let for_clients_too = "--master_client_location_assignment_enabled=true";
    let options = ClusterOptions::new(1, 3)
        .master_flag(&mapping)
        .master_flag(for_clients_too)
        // A replica that hears of its leader late makes the reader wait instead of turning to another.
        .tablet_server_flag("--scanner_max_wait_ms=60000");
    let cluster = start(&options);
    run(async {
        let client = connect(&cluster).await;
        let table = small_table(&client, "near", 4, 3).await;
        insert_range(&table, 0..1000).await;
        let near: Vec<String> = client
            .list_tablet_servers()
            .await
            .unwrap()
            .into_iter()
            .filter(|server| server.location == "/two")
            .flat_map(|server| server.addresses)
            .collect();
        assert_eq!(near.len(), 1, "one server of three is at this client's location");
        let near = cluster.tablet_servers().iter().position(|server| *server == near[0]).unwrap();
        let started = || -> Vec<u64> {
            let sum = |web: &String| metric(web, "scans_started").iter().sum();
            cluster.tablet_server_web().iter().map(sum).collect()
        };
        let closest = || table.scan().replica(ReplicaSelection::Closest).read_mode(ReadMode::YourWrites);
        // How many scans of a tablet each server starts for some of the table.
        let grown_by = async |scans: u64| -> Vec<u64> {
            let before = started();
            for _ in 0..scans {
                assert_eq!(closest().count().await.unwrap(), 1000);
            }
            started().iter().zip(before).map(|(now, before)| now - before).collect()
        };
        // A table is there when a majority of its replicas is.
        wait_until("the near replicas are there", async || grown_by(1).await[near] == 4).await;
        let grown = grown_by(5).await;
        assert_eq!(grown[near], 20, "{grown:?}");
        assert_eq!(grown.iter().sum::<u64>(), 20, "{grown:?}");
    });
    let _ = std::fs::remove_file(script);
}

#[test]
fn idle_connections_are_closed_and_opened_again() {
    let Some(cluster) = shared() else { return };
    run(async {
        let builder =
            patient(Client::builder(cluster.masters()).user("idle")).idle_timeout(Duration::from_millis(300));
        let client = builder.connect().await.unwrap();
        let table = small_table(&client, "idle", 2, 1).await;
        insert_range(&table, 0..100).await;
        let open = || {
            let page = String::from_utf8(page(&cluster.tablet_server_web()[0], "/rpcz")).unwrap();
            page.matches("idle").count()
        };
        // On a busy machine it may be closed before the server is asked.
        wait_until("the server names its connections", async || {
            assert_eq!(table.scan().count().await.unwrap(), 100);
            open() > 0
        })
        .await;
        wait_until("the connection is closed", async || open() == 0).await;
        let connections = client.metrics().connections;
        assert_eq!(table.scan().count().await.unwrap(), 100);
        assert!(client.metrics().connections > connections);
    });
}
