//! Clusters of three masters and three tablet servers, of which some are killed, frozen and restarted.

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use kudu_client::test_cluster::{ClusterOptions, Daemon, TestCluster};
use kudu_client::*;
use support::*;

fn options() -> ClusterOptions {
    // Elections start soon after a loss, so that tests do not wait long, but not whenever a busy machine pauses.
    ClusterOptions::new(3, 3)
        .flag("--raft_heartbeat_interval_ms=200")
        .flag("--leader_failure_max_missed_heartbeat_periods=5")
}

async fn connect_with_short_timeouts(cluster: &TestCluster) -> Client {
    let builder = Client::builder(cluster.masters()).rpc_timeout(Duration::from_secs(2));
    let builder = builder.connect_timeout(Duration::from_secs(1)).admin_timeout(TIMEOUT);
    builder.connect().await.unwrap()
}

/// Keys of a sorted scan; checks that they rise.
async fn rising_keys(scan: ScanBuilder) -> Result<BTreeSet<i64>> {
    let mut scanner = scan.project(["key"]).sorted().timeout(TIMEOUT).open().await?;
    let mut keys = BTreeSet::new();
    while let Some(batch) = scanner.next_batch().await? {
        for key in batch.column(0).as_primitive::<Int64Type>().values() {
            assert!(keys.last().is_none_or(|last| last < key), "key {key} after {:?}", keys.last());
            keys.insert(*key);
        }
    }
    Ok(keys)
}

/// Keys of a scan; checks that none occurs twice.
async fn distinct_keys(scan: ScanBuilder) -> Result<BTreeSet<i64>> {
    let mut scanner = scan.project(["key"]).timeout(TIMEOUT).open().await?;
    let mut keys = BTreeSet::new();
    while let Some(batch) = scanner.next_batch().await? {
        for key in batch.column(0).as_primitive::<Int64Type>().values() {
            assert!(keys.insert(*key), "key {key} occurs twice");
        }
    }
    Ok(keys)
}

/// Writes rising keys until it is stopped.
struct Load {
    acknowledged: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<i64>,
}

impl Load {
    fn start(table: &Table, first: i64) -> Self {
        let acknowledged = Arc::new(AtomicI64::new(first));
        let stop = Arc::new(AtomicBool::new(false));
        let (table, progress, stopped) = (table.clone(), acknowledged.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let session = table.session().timeout(TIMEOUT).batch_bytes(4000).open();
            let mut next = first;
            while !stopped.load(Ordering::Relaxed) {
                for _ in 0..200 {
                    session.apply(&small_row(&table, Operation::Insert, next)).await.unwrap();
                    next += 1;
                }
                session.flush().await.expect("no row is lost or doubled");
                progress.store(next, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            next
        });
        Self { acknowledged, stop, task }
    }

    /// All keys below this are written.
    fn acknowledged(&self) -> i64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    async fn progress(&self) {
        let before = self.acknowledged();
        wait_until(&format!("the writer goes on after {before}"), async || {
            assert!(!self.task.is_finished(), "the writer has failed");
            self.acknowledged() > before + 400
        })
        .await;
    }

    async fn finish(self) -> i64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

async fn check_complete(table: &Table, upto: i64) {
    let keys = distinct_keys(table.scan().fault_tolerant()).await.unwrap();
    assert!(keys.iter().copied().eq(0..upto), "{} keys where 0..{upto} are expected", keys.len());
}

#[test]
fn writes_and_scans_survive_the_loss_of_servers() {
    if !have_kudu() {
        return;
    }
    let mut cluster = start(&options());
    run(async {
        let client = connect_with_short_timeouts(&cluster).await;
        let table = small_table(&client, "outlived", 4, 3).await;
        let load = Load::start(&table, 0);
        load.progress().await;
        for server in 0..3 {
            cluster.kill(Daemon::TabletServer(server)).unwrap();
            load.progress().await;
            let atleast = load.acknowledged();
            let keys = distinct_keys(table.scan().fault_tolerant().batch_bytes(2000)).await.unwrap();
            assert!((0..atleast).all(|key| keys.contains(&key)), "{} of at least {atleast}", keys.len());
            cluster.restart(Daemon::TabletServer(server)).unwrap();
            load.progress().await;
        }
        // A frozen server: its connections stay open, but it does not answer.
        cluster.pause(Daemon::TabletServer(1)).unwrap();
        load.progress().await;
        let atleast = load.acknowledged();
        let keys = distinct_keys(table.scan().fault_tolerant()).await.unwrap();
        assert!((0..atleast).all(|key| keys.contains(&key)));
        cluster.resume(Daemon::TabletServer(1)).unwrap();
        load.progress().await;
        let upto = load.finish().await;
        check_complete(&table, upto).await;
    });
}

#[test]
fn a_running_scan_continues_on_another_replica() {
    if !have_kudu() {
        return;
    }
    let mut cluster = start(&options());
    run(async {
        let client = connect_with_short_timeouts(&cluster).await;
        let table = small_table(&client, "resumed", 1, 3).await;
        insert_range(&table, 0..20_000).await;
        // Any replica can serve the scan, and all have the same state.
        let other = connect(&cluster).await;
        other.observe_timestamp(client.last_timestamp().unwrap());
        let read = other.open_table("resumed").await.unwrap();
        for _ in 0..6 {
            let closest = read.scan().replica(ReplicaSelection::Closest).read_mode(ReadMode::YourWrites);
            assert_eq!(distinct_keys(closest).await.unwrap().len(), 20_000);
        }
        let server = |error: &Error| error.server().map(str::to_owned);
        // An unordered scan cannot be resumed after it has returned rows: it must fail.
        let read = table.scan().batch_bytes(5_000).prefetch(1).timeout(TIMEOUT);
        let mut plain = read.clone().open().await.unwrap();
        let mut ordered = read.fault_tolerant().project(["key"]).open().await.unwrap();
        assert!(plain.next_batch().await.unwrap().is_some());
        let mut keys: Vec<i64> = Vec::new();
        let first = ordered.next_batch().await.unwrap().unwrap();
        keys.extend(first.column(0).as_primitive::<Int64Type>().values());
        for index in 0..3 {
            cluster.kill(Daemon::TabletServer(index)).unwrap();
            if let Some(batch) = ordered.next_batch().await.unwrap() {
                keys.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
            cluster.restart(Daemon::TabletServer(index)).unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let failure = loop {
            match plain.next_batch().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the scan ended as if it were complete"),
                Err(error) => break error,
            }
        };
        assert!(server(&failure).is_some() && failure.tablet().is_some(), "{failure}");
        while let Some(batch) = ordered.next_batch().await.unwrap() {
            keys.extend(batch.column(0).as_primitive::<Int64Type>().values());
        }
        assert!(keys.iter().copied().eq(0..20_000), "{} keys", keys.len());
        assert!(client.metrics().scans_resumed > 0);
    });
}

#[test]
fn masters_change_and_the_whole_cluster_restarts() {
    if !have_kudu() {
        return;
    }
    let mut cluster = start(&options());
    run(async {
        let client = connect_with_short_timeouts(&cluster).await;
        let table = small_table(&client, "masters", 3, 3).await;
        let load = Load::start(&table, 0);
        for master in 0..3 {
            cluster.kill(Daemon::Master(master)).unwrap();
            client.list_tables("").await.unwrap();
            let name = format!("made_without_{master}");
            small_table(&client, &name, 2, 3).await;
            client.delete_table(&name).await.unwrap();
            cluster.restart(Daemon::Master(master)).unwrap();
        }
        cluster.pause(Daemon::Master(0)).unwrap();
        client.list_tables("").await.unwrap();
        // A client that knows one live master finds the others.
        let one = Client::builder([cluster.masters()[1].clone(), "127.0.0.1:1".to_owned()]);
        let one = one.connect_timeout(Duration::from_secs(1)).admin_timeout(TIMEOUT);
        one.connect().await.unwrap();
        cluster.resume(Daemon::Master(0)).unwrap();
        load.progress().await;

        for index in 0..3 {
            cluster.kill(Daemon::Master(index)).unwrap();
            cluster.kill(Daemon::TabletServer(index)).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        for index in 0..3 {
            cluster.restart(Daemon::Master(index)).unwrap();
            cluster.restart(Daemon::TabletServer(index)).unwrap();
        }
        load.progress().await;
        let upto = load.finish().await;
        check_complete(&table, upto).await;
        assert!(client.metrics().leader_changes > 1);
    });
}

/// Waits until enough servers tell the time.
async fn wait_for_time(client: &Client) {
    wait_until("enough servers tell the time", async || {
        let told = client.server_time(3).await;
        assert!(told.as_ref().err().is_none_or(Error::can_retry), "{told:?}");
        told.is_ok()
    })
    .await;
}

/// A master that was started again lists no tablet server before they have found it.
#[test]
fn the_time_is_not_told_by_too_few_servers() {
    if !have_kudu() {
        return;
    }
    let mut cluster = start(&ClusterOptions::new(1, 3));
    run(async {
        let client = connect_with_short_timeouts(&cluster).await;
        wait_for_time(&client).await;
        for index in 0..3 {
            cluster.kill(Daemon::TabletServer(index)).unwrap();
        }
        cluster.kill(Daemon::Master(0)).unwrap();
        cluster.restart(Daemon::Master(0)).unwrap();
        // The client asks for the list anew.
        tokio::time::sleep(Duration::from_millis(5_100)).await;
        let fresh = connect_with_short_timeouts(&cluster).await;
        let error = client.server_time(3).await.expect_err("nobody can tell it");
        assert!(error.can_retry(), "{error}");
        let error = fresh.server_time(3).await.expect_err("nobody can tell it");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        cluster.restart(Daemon::TabletServer(0)).unwrap();
        let error = fresh.server_time(3).await.expect_err("two others may know a later one");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        cluster.restart(Daemon::TabletServer(1)).unwrap();
        // Two of three are a majority.
        wait_for_time(&fresh).await;
        wait_for_time(&client).await;
    });
}

#[test]
fn ranges_are_dropped_and_added_under_load() {
    if !have_kudu() {
        return;
    }
    let cluster = start(&options());
    run(async {
        // No server dies here.
        let client = connect(&cluster).await;
        let range = |from: i64, to: i64| {
            RangePartition::new(RangeBound::inclusive("key", from), RangeBound::exclusive("key", to))
        };
        let creator = client.create_table("moving", small_schema()).hash(HashPartition::new(["key"], 2));
        let creator = creator.range_columns(["key"]).range(range(0, 1_000_000)).range(range(-1000, 0));
        let table = creator.create().await.unwrap();
        let load = Load::start(&table, 0);
        let reader = {
            let table = table.clone();
            let stop = load.stop.clone();
            tokio::spawn(async move {
                let (mut scans, mut refused) = (0, 0);
                while !stop.load(Ordering::Relaxed) {
                    // Rows of the dropped range may be missing, or the scan refused, but no row may occur twice.
                    match distinct_keys(table.scan()).await {
                        Ok(_) => scans += 1,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                            refused += 1;
                        }
                    }
                }
                distinct_keys(table.scan()).await.expect("nothing is dropped any more");
                (scans + 1, refused)
            })
        };
        for round in 0..4 {
            let session = table.session().mode(FlushMode::Sync).open();
            session.apply(&small_row(&table, Operation::Upsert, -5 - round)).await.unwrap();
            table.alter().drop_range(&range(-1000, 0)).apply().await.unwrap();
            table.alter().add_range(&range(-1000, 0)).apply().await.unwrap();
            load.progress().await;
        }
        let upto = load.finish().await;
        let (scans, refused) = reader.await.unwrap();
        println_uncaptured(&format!("{scans} scans, {refused} refused"));
        let keys =
            distinct_keys(table.scan().filter(Predicate::ge("key", 0_i64)).fault_tolerant()).await.unwrap();
        assert!(keys.iter().copied().eq(0..upto));
    });
}

/// The long test: `KUDU_CHAOS_ROUNDS=50 cargo test -p kudu-client --release --test failover chaos`.
#[test]
fn chaos() {
    if !have_kudu() {
        return;
    }
    let rounds = std::env::var("KUDU_CHAOS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let mut cluster = start(&options());
    run(async {
        let client = connect_with_short_timeouts(&cluster).await;
        let table = small_table(&client, "chaos", 6, 3).await;
        let load = Load::start(&table, 0);
        let scans = Arc::new(AtomicI64::new(0));
        let reader = {
            let (table, stop, scans) = (table.clone(), load.stop.clone(), scans.clone());
            let acknowledged = load.acknowledged.clone();
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let atleast = acknowledged.load(Ordering::Relaxed);
                    let scan = table.scan().fault_tolerant().batch_bytes(30_000);
                    let keys = match scans.load(Ordering::Relaxed) % 2 {
                        0 => distinct_keys(scan).await,
                        _ => rising_keys(scan).await,
                    };
                    let keys = keys.expect("the scan outlives its servers");
                    let missing = (0..atleast).find(|key| !keys.contains(key));
                    assert_eq!(missing, None, "a scan of {} keys lacks an acknowledged key", keys.len());
                    scans.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            })
        };
        let seed = std::env::var("KUDU_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        let mut numbers = Numbers(seed);
        for round in 0..rounds {
            let index = numbers.below(3) as usize;
            let victim =
                if numbers.below(4) == 0 { Daemon::Master(index) } else { Daemon::TabletServer(index) };
            let freeze = numbers.below(4) == 0;
            let before = load.acknowledged();
            if freeze {
                cluster.pause(victim).unwrap();
            } else {
                cluster.kill(victim).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(200 + numbers.below(1000))).await;
            load.progress().await;
            if freeze {
                cluster.resume(victim).unwrap();
            } else {
                cluster.restart(victim).unwrap();
            }
            // The next daemon may only be killed when a majority does not need it.
            tokio::time::sleep(Duration::from_millis(500)).await;
            load.progress().await;
            let (rows, scans) = (load.acknowledged() - before, scans.load(Ordering::Relaxed));
            println_uncaptured(&format!(
                "round {round}: {victim:?} frozen={freeze}, {rows} rows, {scans} scans so far"
            ));
        }
        let upto = load.finish().await;
        reader.await.unwrap();
        check_complete(&table, upto).await;
        assert!(scans.load(Ordering::Relaxed) > 0);
        println_uncaptured(&format!("{upto} rows, none lost, none doubled; {:?}", client.metrics()));
    });
}

fn println_uncaptured(line: &str) {
    if std::env::var_os("KUDU_CHAOS_ROUNDS").is_some() {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
