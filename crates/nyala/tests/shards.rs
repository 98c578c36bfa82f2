//! Shards and statistics. The form of answers is in `testdata/influx/administration.script`; shard ids differ from
//! InfluxDB's, so dropping shards is tested here.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use serde_json::Value;
use std::collections::BTreeMap;

const WEEK_NS: i64 = 7 * 86_400_000_000_000;

/// Rows of the first series of an answer whose name is `name`.
fn rows(answer: &Value, name: &str) -> Vec<Value> {
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    let found = series.into_iter().find(|series| series["name"] == name);
    found.and_then(|series| series["values"].as_array().cloned()).unwrap_or_default()
}

#[test]
fn dropping_a_shard_drops_its_points_of_all_measurements_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    server.query("CREATE RETENTION POLICY r ON d DURATION INF REPLICATION 1");
    for week in 0..3 {
        let time_ns = 10 * WEEK_NS + week * WEEK_NS;
        let lines =
            format!("m,h=a v=1i {time_ns}\nm,h=week{week} v=1i {time_ns}\nn v=1i,only{week}=1i {time_ns}");
        assert_eq!(server.write(&lines).status, 204);
        let other = server.send("POST", "/write?db=d&rp=r", lines.as_bytes()).expect("an answer");
        assert_eq!(other.status, 204);
    }
    let shards = rows(&server.query("SHOW SHARDS"), "d");
    assert_eq!(shards.len(), 6, "{shards:?}");
    assert_eq!(rows(&server.query("SHOW SHARD GROUPS"), "shard groups").len(), 6);
    let second = shards[1][0].as_i64().expect("a number");
    assert_eq!((&shards[1][2], &shards[1][4]), (&"autogen".into(), &"1970-03-16T00:00:00Z".into()));
    server.query(&format!("DROP SHARD {second}"));
    let counts = |server: &Process| {
        let count = |from: &str| server.number(&format!("SELECT count(v) FROM {from}"));
        (count("m"), count("n"), count("r.m"), count("r.n"))
    };
    assert_eq!(counts(&server), (4, 2, 6, 3));
    let of_autogen = server.query("SHOW TAG VALUES FROM autogen.m WITH KEY = h");
    assert!(
        of_autogen.to_string().contains("week2") && !of_autogen.to_string().contains("week1"),
        "{of_autogen}"
    );
    let fields = server.query("SHOW FIELD KEYS FROM autogen.n").to_string();
    assert!(fields.contains("only2") && !fields.contains("only1"), "{fields}");
    // Its id is unknown now, and points can be written to its time range.
    server.query(&format!("DROP SHARD {second}"));
    assert_eq!(rows(&server.query("SHOW SHARDS"), "d").len(), 5);
    assert_eq!(server.write(&format!("n only1=\"text\" {}", 11 * WEEK_NS)).status, 204);
    server.query(&format!("DROP SHARD {second}"));
    assert_eq!(rows(&server.query("SHOW SHARDS"), "d").len(), 6);
    let before = rows(&server.query("SHOW SHARDS"), "d");
    assert!(server.stop().success());
    let server = Process::start(&data_dir, &[]);
    assert_eq!(rows(&server.query("SHOW SHARDS"), "d"), before, "numbers stay");
    assert_eq!(counts(&server), (4, 2, 6, 3));
}

#[test]
fn statistics_are_those_of_debug_vars_and_diagnostics_show_settings_without_secrets() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data_dir, arguments) = (directory.path().join("data"), ["--max-row-limit", "77"]);
    let server = Process::start(&data_dir, &arguments);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m,h=a v=1 1\nm,h=b v=1 2").status, 204);
    assert_eq!(server.write("m,h=a v=\"text\" 1").status, 400);
    let vars = server.send("GET", "/debug/vars", b"").expect("an answer");
    let vars: Value = serde_json::from_slice(&vars.body).expect("JSON");
    let stats = server.query("SHOW STATS");
    let mut names = BTreeMap::new();
    for series in stats["results"][0]["series"].as_array().expect("reports") {
        let name = series["name"].as_str().expect("a name").to_owned();
        let tag =
            |tag: &str| series["tags"][tag].as_str().map(|value| format!(":{value}")).unwrap_or_default();
        let tags = ["bind", "database", "retentionPolicy", "id"].map(tag).concat();
        let key = format!("{name}{tags}");
        let values: Vec<&str> =
            series["columns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let shown: Vec<&str> = vars[&key]["values"]
            .as_object()
            .into_iter()
            .flat_map(|values| values.keys().map(String::as_str))
            .collect();
        assert_eq!(values, shown, "{key}");
        names.insert(name, series.clone());
    }
    let wanted = ["cq", "database", "engine", "httpd", "queryExecutor", "runtime", "shard", "write"];
    assert!(wanted.iter().all(|name| names.contains_key(*name)), "{stats}");
    let writes = &names["write"];
    assert_eq!(
        writes["columns"],
        serde_json::json!([
            "pointReq",
            "req",
            "subWriteDrop",
            "subWriteOk",
            "writeDrop",
            "writeError",
            "writeOk"
        ])
    );
    assert_eq!(writes["values"], serde_json::json!([[3, 2, 0, 0, 1, 0, 2]]));
    let diagnostics = server.query("SHOW DIAGNOSTICS");
    let series = diagnostics["results"][0]["series"].as_array().expect("reports");
    let names: Vec<&str> = series.iter().filter_map(|series| series["name"].as_str()).collect();
    assert_eq!(names, ["build", "config", "network", "runtime", "system"]);
    let setting = series[1]["columns"]
        .as_array()
        .and_then(|names| names.iter().position(|name| name == "max-row-limit"));
    assert_eq!(series[1]["values"][0][setting.expect("a setting")], 77);
    let build = server.query("SHOW DIAGNOSTICS FOR 'build'");
    assert!(build.to_string().contains("\"1.8.10\"") && !build.to_string().contains("hostname"), "{build}");

    // Reading statistics loads no series.
    assert!(server.stop().success());
    let server = Process::start(&data_dir, &arguments);
    let counts = || server.query("SHOW STATS FOR 'database'")["results"][0]["series"][0]["values"].clone();
    assert_eq!(counts(), serde_json::json!([[1, 0]]));
    assert_eq!(server.number("SELECT count(v) FROM m"), 2);
    assert_eq!(counts(), serde_json::json!([[1, 2]]));
}
