//! nyala over a real Apache Kudu cluster: the same requests, two daemons, a start with nothing on disk, secure log-ins.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::Request;
use kudu_client::test_cluster::{ClusterOptions, TestCluster, have_kerberos};
use process::Process;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a test waits for what takes seconds on an idle machine: a start makes some tables in the cluster.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A daemon of the cluster, with a directory of its own that is empty.
fn daemon(cluster: &TestCluster, directory: &tempfile::TempDir) -> Process {
    daemon_with(cluster, directory, &[], &[])
}

/// The same with more settings and environment variables.
fn daemon_with(
    cluster: &TestCluster,
    directory: &tempfile::TempDir,
    settings: &[&str],
    variables: &[(&str, &str)],
) -> Process {
    let process = spawn_daemon(cluster, directory, settings, variables);
    process.wait_until_ready(TIMEOUT);
    process
}

fn spawn_daemon(
    cluster: &TestCluster,
    directory: &tempfile::TempDir,
    settings: &[&str],
    variables: &[(&str, &str)],
) -> Process {
    let masters = cluster.masters().join(",");
    let own = ["--store", "kudu", "--kudu-masters", &masters, "--kudu-buckets", "2"];
    // A setting may say otherwise.
    let variables = [&[("NYALA_KUDU_REPLICAS", "1")], variables].concat();
    Process::spawn_in(&directory.path().join("data"), &[&own, settings].concat(), &variables)
}

/// A daemon with these settings ends with an error that has these words.
fn assert_refused(
    cluster: &TestCluster,
    directory: &tempfile::TempDir,
    settings: &[&str],
    variables: &[(&str, &str)],
    words: &str,
) {
    let mut refused = spawn_daemon(cluster, directory, settings, variables);
    let status = refused.wait();
    assert!(!status.success() && refused.log().contains(words), "{settings:?}: {status}\n{}", refused.log());
}

fn assert_works(server: &Process) {
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1\nm v=2 2").status, 204);
    assert_eq!(rows(server, "SELECT sum(v) FROM m"), json!([[0, 3]]));
}

/// The rows of the only series of an answer.
fn rows(server: &Process, statement: &str) -> Value {
    let answer = server.query(statement);
    assert!(answer["results"][0].get("error").is_none(), "{statement}: {answer}");
    answer["results"][0]["series"][0]["values"].clone()
}

#[test]
fn what_is_written_to_a_cluster_is_read_from_it() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let (first, second) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let server = daemon(&cluster, &first);
    server.query("CREATE DATABASE d");
    let lines = "m,host=a v=1,i=5i,s=\"x\",b=true 1000000000\n\
                 m,host=b v=2 2000000000\n\
                 m,host=a v=3 3000000000\n\
                 m,host=a v=4 1600000000000000000";
    assert_eq!(server.write(lines).status, 204);
    assert_eq!(rows(&server, "SELECT count(v), sum(v), max(v) FROM m"), json!([[0, 4, 10, 4]]));
    assert_eq!(
        rows(&server, "SELECT v, i, s, b, host FROM m WHERE time < 4s"),
        json!([
            [1_000_000_000_i64, 1, 5, "x", true, "a"],
            [2_000_000_000_i64, 2, null, null, null, "b"],
            [3_000_000_000_i64, 3, null, null, null, "a"]
        ])
    );
    assert_eq!(rows(&server, "SELECT last(v) FROM m WHERE host = 'b'"), json!([[2_000_000_000_i64, 2]]));
    for statement in ["SHOW STORAGE", "SHOW STORAGE FROM m", "SHOW MAINTENANCE"] {
        let answer = server.query(statement)["results"][0]["error"].to_string();
        assert!(answer.contains("the Kudu cluster keeps encodings"), "{statement}: {answer}");
    }
    let answer = server.query("SHOW CHANGES")["results"][0]["error"].to_string();
    assert!(answer.contains("a store that several servers share keeps no history"), "{answer}");
    // What is refused says what needs that which the store lacks.
    for (statement, hint) in [
        ("CREATE TEMP TABLE t (a int)", "Temporary tables, sequences"),
        ("CREATE TABLE t (a int PRIMARY KEY, b int UNIQUE)", "Indexes and unique columns need them"),
        ("CREATE TABLE t (a serial PRIMARY KEY)", "Temporary tables, sequences"),
    ] {
        let refused = server.send("POST", "/api/sql?db=d", statement.as_bytes()).expect("an answer");
        let words = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(words.contains("0A000") && words.contains(hint), "{statement}: {words}");
    }
    // One tablet has the series; another shard is not asked.
    let plan = rows(&server, "EXPLAIN SELECT sum(v) FROM m WHERE host = 'a' AND time < 4s");
    let lines: Vec<&str> =
        plan.as_array().into_iter().flatten().filter_map(|line| line[0].as_str()).collect();
    assert_eq!(
        lines[3..6],
        [
            "COMPUTED BY: the store, from rows as tablets send them",
            "NUMBER OF TABLETS: 1",
            "NUMBER OF SCANS: 1"
        ]
    );
    let cost =
        rows(&server, "EXPLAIN ANALYZE SELECT sum(v) FROM m WHERE host = 'a' AND time < 4s").to_string();
    assert!(cost.contains("tablets: 1\"") && cost.contains("scans: 1\""), "{cost}");
    // Its rows are not here, so no copy of them is made here.
    let refused = server.send("POST", "/api/backup", b"").expect("an answer");
    let words = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(refused.status == 501 && words.contains("the rows of this server are in Apache Kudu"), "{words}");
    // A point that is written again, and one that is deleted.
    assert_eq!(server.write("m,host=b v=7 2000000000").status, 204);
    server.query("DELETE FROM m WHERE time = 3s");
    let of_both = json!([[1_000_000_000_i64, 1], [2_000_000_000_i64, 7]]);
    assert_eq!(rows(&server, "SELECT v FROM m WHERE time < 4s"), of_both);
    // Nothing is on this machine: another daemon, and this one after a kill, answer the same.
    let other = daemon(&cluster, &second);
    assert_eq!(rows(&other, "SELECT v FROM m WHERE time < 4s"), of_both);
    drop(server);
    let again = daemon(&cluster, &first);
    assert_eq!(rows(&again, "SELECT v FROM m WHERE time < 4s"), of_both);
    assert_eq!(rows(&again, "SHOW TAG VALUES FROM m WITH KEY = host"), json!([["host", "a"], ["host", "b"]]));
    // What one writes the other reads at once.
    assert_eq!(again.write("m,host=a v=9 3500000000").status, 204);
    assert_eq!(rows(&other, "SELECT sum(v) FROM m WHERE time < 4s"), json!([[0, 17]]));
    // That of a shard, too, which the other has not seen.
    assert_eq!(again.write("m,host=a v=10 1700000000000000000").status, 204);
    assert_eq!(rows(&other, "SELECT sum(v) FROM m WHERE time > 4s"), json!([[4_000_000_001_i64, 14]]));
    // A cell of Kudu holds 65 536 bytes.
    let long = "x".repeat(65_537);
    let refused = again.write(&format!("t v=1 1\nt s=\"{long}\",v=2 2\nt s=\"{}\",v=3 3", &long[1..]));
    let words = String::from_utf8_lossy(&refused.body).into_owned();
    assert_eq!(refused.status, 400, "{words}");
    let reason = r#"partial write: field \"s\" on measurement \"t\" is longer than 65536 bytes dropped=1"#;
    assert!(words.contains(reason), "{words}");
    assert_eq!(rows(&again, "SELECT sum(v) FROM t"), json!([[0, 4]]));
    again.query("DROP MEASUREMENT m");
    assert_eq!(rows(&again, "SELECT * FROM m"), Value::Null);
}

/// A table of Kudu has 300 columns at most.
#[test]
fn a_measurement_has_a_thousand_fields() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [first, second] = directories.each_ref().map(|directory| daemon(&cluster, directory));
    first.query("CREATE DATABASE d");
    let fields = |factor: i64| -> String {
        let fields = (0..1000).map(|number| format!("f{number}={}i", factor * number));
        fields.collect::<Vec<_>>().join(",")
    };
    let lines =
        format!("m,host=a {} 1\nm,host=b {} 2\nm,host=b f999=7i 3\nm,host=b f5=8i 4", fields(1), fields(10));
    assert_eq!(first.write(&lines).status, 204);
    let both = |statement: &str, expected: Value| {
        for server in [&first, &second] {
            assert_eq!(rows(server, statement), expected, "{statement}");
        }
    };
    both("SELECT f1, f300, f999 FROM m", json!([[1, 1, 300, 999], [2, 10, 3000, 9990], [3, null, null, 7]]));
    both("SELECT sum(f5), sum(f600), count(f999), max(f999) FROM m", json!([[0, 63, 6600, 3, 9990]]));
    both("SELECT f2 FROM m WHERE f700 > 700", json!([[2, 20]]));
    both("SELECT sum(f2) FROM m WHERE f700 > 0 AND host = 'a'", json!([[0, 2]]));
    both("SELECT f999 FROM m WHERE host = 'b' ORDER BY time DESC LIMIT 1", json!([[3, 7]]));
    both("SELECT count(f998) FROM m WHERE f5 = 8", Value::Null);
    // A part of a point is overwritten, then a point is deleted, in a shard of its own too.
    assert_eq!(second.write("m,host=a f998=0i 1\nm,host=a f998=1i,f0=1i 1700000000000000000").status, 204);
    both("SELECT f997, f998, f999 FROM m WHERE time = 1", json!([[1, 997, 0, 999]]));
    first.query("DELETE FROM m WHERE time = 2");
    both(
        "SELECT f0, f999 FROM m",
        json!([[1, 0, 999], [3, null, 7], [1_700_000_000_000_000_000_i64, 1, null]]),
    );
    let keys = rows(&second, "SHOW FIELD KEYS FROM m");
    assert_eq!(keys.as_array().map(Vec::len), Some(1000));
    assert_eq!(rows(&first, "SELECT * FROM m")[0].as_array().map(Vec::len), Some(1 + 1000 + 1));
}

/// The daemons that a daemon knows: the address of each, and whether it leads.
fn daemons(server: &Process) -> Vec<(String, bool)> {
    let answer = server.query("SHOW DIAGNOSTICS FOR 'daemons'");
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    let value = |series: &Value, name: &str| {
        let columns = series["columns"].as_array().expect("columns");
        let place = columns.iter().position(|column| column == name).expect("the column is there");
        series["values"][0][place].clone()
    };
    let known = |series: &Value| {
        let id = series["tags"]["id"].as_str().expect("an id").to_owned();
        (id, value(series, "leads") == json!(true))
    };
    series.iter().map(known).collect()
}

#[test]
fn one_daemon_runs_continuous_queries_and_another_takes_over() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let directories = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    let first = daemon(&cluster, &directories[0]);
    let second = daemon(&cluster, &directories[1]);
    let third = daemon(&cluster, &directories[2]);
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < TIMEOUT, "{what}: {:?}", daemons(&third));
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let leaders = || daemons(&third).iter().filter(|(_, leads)| *leads).count();
    until("all are known", &|| daemons(&third).len() == 3 && leaders() == 1);
    until("the first leads, since it was alone when it began", &|| {
        first.metric("nyala_leads") == 1 && second.metric("nyala_leads") == 0
    });
    third.query("CREATE DATABASE d");
    third.query("CREATE CONTINUOUS QUERY c ON d BEGIN SELECT sum(v) INTO n FROM m GROUP BY time(1s) END");
    let runs = |server: &Process| {
        assert_eq!(server.write("m v=1").status, 204);
        rows(server, "SELECT count(sum) FROM n")[0][1].as_i64().unwrap_or(0)
    };
    until("the leader runs what another created", &|| runs(&third) > 0);
    // One that stops lets another lead at once, one that is killed after a while.
    assert!(first.stop().success());
    until("another leads", &|| daemons(&third).len() == 2 && leaders() == 1);
    let before = runs(&third);
    until("it runs continuous queries", &|| runs(&third) > before);
    drop(second);
    until("the last leads", &|| third.metric("nyala_leads") == 1);
    // It may have led before.
    until("the other is known to be gone", &|| daemons(&third).len() == 1);
    let before = runs(&third);
    until("it runs continuous queries", &|| runs(&third) > before);
}

#[test]
fn a_ticket_of_kerberos_logs_in() {
    if let Err(why) = have_kerberos() {
        peers::require::<()>("Kerberos", &why.to_string(), None);
        return;
    }
    let mut options = ClusterOptions::new(1, 1).flag("--rpc_encryption=required");
    options.kerberos = true;
    let Some(mut cluster) = cluster::start_with(&options) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    cluster.kinit("test-user").expect("a ticket");
    let environment = cluster.kerberos_environment().expect("an environment");
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let settings = ["--kudu-kerberos", "kudu", "--kudu-require-encryption"];
    assert_works(&daemon_with(&cluster, &directory, &settings, &environment));
    let without_ticket = [&environment[..], &[("KRB5CCNAME", "/nonexistent/cache")]].concat();
    assert_refused(&cluster, &directory, &settings, &without_ticket, "Kerberos");
    assert_refused(&cluster, &directory, &[], &environment, "NotAuthenticated");
}

#[test]
fn a_token_logs_in_and_a_forged_one_does_not() {
    let mut options = ClusterOptions::new(1, 1).flag("--rpc_encryption=required");
    options.jwt = true;
    let Some(mut cluster) = cluster::start_with(&options) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("the directory is writable");
        path.to_str().expect("a plain path").to_owned()
    };
    let request = Request {
        method: "GET".into(),
        target: "/ipki-ca-cert".into(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    let address = cluster.master_web()[0].parse().expect("an address");
    let certificate = file("certificate", &client::send(address, &request).expect("a certificate").body);
    let token = file("token", cluster.create_jwt("dave", true).expect("a token").as_bytes());
    let forged = file("forged", cluster.create_jwt("dave", false).expect("a token").as_bytes());
    let login = |token| ["--kudu-token-file", token, "--kudu-certificate", &certificate];
    assert_works(&daemon_with(&cluster, &directory, &login(&token), &[]));
    assert_refused(&cluster, &directory, &login(&forged), &[], "NotAuthenticated");
    assert_refused(&cluster, &directory, &["--kudu-token-file", &token], &[], "needs kudu-certificate");
    assert_refused(&cluster, &directory, &login("/nonexistent"), &[], "/nonexistent");
}

#[test]
fn daemons_see_what_the_others_acknowledged() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [first, second] = [0, 1].map(|place| daemon(&cluster, &directories[place]));
    // A database, a measurement, series and fields of the other.
    first.query("CREATE DATABASE d");
    assert_eq!(second.write("m,host=a v=1 1").status, 204);
    assert_eq!(first.write("m,host=b v=2,w=1i 2\nn,host=a v=5 3").status, 204);
    assert_eq!(second.write("m,host=b v=3 3\nm,host=c v=4 4\no v=1 1").status, 204);
    let all = json!([[1, 1, "a"], [2, 2, "b"], [3, 3, "b"], [4, 4, "c"]]);
    for server in [&first, &second] {
        assert_eq!(rows(server, "SELECT v, host FROM m"), all);
        assert_eq!(rows(server, "SHOW MEASUREMENTS"), json!([["m"], ["n"], ["o"]]));
        assert_eq!(rows(server, "SHOW FIELD KEYS FROM m"), json!([["v", "float"], ["w", "integer"]]));
    }
    let refused = second.write("m,host=b w=1.5 5");
    let words = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(words.contains("already exists as type integer"), "{words}");
    // What one drops the other does not show, and shows again when it writes it.
    first.query("DROP SERIES FROM m WHERE host = 'b'");
    assert_eq!(rows(&second, "SELECT v, host FROM m"), json!([[1, 1, "a"], [4, 4, "c"]]));
    assert_eq!(second.write("m,host=b v=9 9").status, 204);
    assert_eq!(rows(&first, "SELECT v, host FROM m"), json!([[1, 1, "a"], [4, 4, "c"], [9, 9, "b"]]));
    second.query("DROP MEASUREMENT m");
    assert_eq!(rows(&first, "SHOW MEASUREMENTS"), json!([["n"], ["o"]]));
    assert_eq!(first.write("m,host=a v=7 7").status, 204);
    assert_eq!(rows(&second, "SELECT v, host FROM m"), json!([[7, 7, "a"]]));
    first.query("DROP DATABASE d");
    assert_eq!(rows(&second, "SHOW DATABASES"), Value::Null);
    assert_eq!(second.write("m,host=a v=7 7").status, 404);
}

#[test]
fn a_daemon_starts_with_more_replicas_than_its_tables_have() {
    let Some(cluster) = cluster::start(1, 3) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = daemon(&cluster, &directory);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    assert!(server.stop().success());
    let server = daemon_with(&cluster, &directory, &["--kudu-replicas", "3"], &[]);
    assert_eq!(server.status("/ready"), 200);
    assert_eq!(rows(&server, "SELECT v FROM m"), json!([[1, 1]]));
    // A new table has more copies than those that are there.
    assert_eq!(server.write("n v=2 2").status, 204);
    assert_eq!(rows(&server, "SELECT v FROM m, n"), json!([[1, 1]]));
    assert_eq!(rows(&server, "SELECT v FROM n"), json!([[2, 2]]));
}

/// Many daemons write the same new series at once. `NYALA_RACING_DAEMONS` and `NYALA_RACED_SERIES` set how many.
#[test]
fn a_tag_set_has_one_id_whoever_registers_it() {
    let Some(cluster) = cluster::start(1, 1) else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let count = number("NYALA_RACING_DAEMONS").unwrap_or(3);
    let series = number("NYALA_RACED_SERIES").unwrap_or(3000);
    let directories: Vec<_> = (0..count).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let daemons: Vec<_> = directories.iter().map(|directory| daemon(&cluster, directory)).collect();
    daemons[0].query("CREATE DATABASE d");
    std::thread::scope(|scope| {
        for server in &daemons {
            scope.spawn(move || {
                for first in (0..series).step_by(1000) {
                    let lines =
                        (first..(first + 1000).min(series)).map(|host| format!("s,host=h{host} v=1 1\n"));
                    let (lines, begun) = (lines.collect::<String>(), Instant::now());
                    loop {
                        let answer = server.write(&lines);
                        // A busy cluster may take longer than a daemon waits.
                        if answer.status != 503 || begun.elapsed() >= TIMEOUT {
                            assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
                            break;
                        }
                    }
                }
            });
        }
    });
    for server in &daemons {
        assert_eq!(rows(server, "SELECT count(v) FROM s"), json!([[0, series]]));
        assert_eq!(rows(server, "SHOW SERIES CARDINALITY"), json!([[series]]));
    }
}
