//! nyala over a real Apache Kudu cluster: the same requests, two daemons, a start with nothing on disk.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use kudu_client::test_cluster::{ClusterOptions, TestCluster, kudu_home};
use process::Process;
use serde_json::{Value, json};

fn cluster() -> Option<TestCluster> {
    if let Err(why) = kudu_home() {
        return peers::require("Kudu", &why, None);
    }
    Some(TestCluster::start(&ClusterOptions::new(1, 1)).expect("the cluster starts"))
}

/// A daemon of the cluster, with a directory of its own that is empty.
fn daemon(cluster: &TestCluster, directory: &tempfile::TempDir) -> Process {
    let masters = cluster.masters().join(",");
    let settings =
        ["--store", "kudu", "--kudu-masters", &masters, "--kudu-replicas", "1", "--kudu-buckets", "2"];
    Process::start(&directory.path().join("data"), &settings)
}

/// The rows of the only series of an answer.
fn rows(server: &Process, statement: &str) -> Value {
    let answer = server.query(statement);
    answer["results"][0]["series"][0]["values"].clone()
}

#[test]
fn what_is_written_to_a_cluster_is_read_from_it() {
    let Some(cluster) = cluster() else { return };
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
    again.query("DROP MEASUREMENT m");
    assert_eq!(rows(&again, "SELECT * FROM m"), Value::Null);
}
