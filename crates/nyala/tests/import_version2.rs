//! `nyala import influxdb` of a directory that InfluxDB 2.7 wrote (`peers/influxdb2-engine`): nyala must answer what it answers when
//! the points come as InfluxDB exports them.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use client::percent_encode;
use process::Process;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/influxdb2.tar.gz");

fn unpacked() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let unpacked = Command::new("tar").args(["-xzf", RECORDED, "-C"]).arg(directory.path()).status();
    assert!(unpacked.expect("tar runs").success());
    directory
}

fn import(root: &Path, data_dir: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command.args(["import", "influxdb", "--data-dir"]).arg(root.join(data_dir)).args(arguments);
    command.arg(root.join("influxdb2")).output().expect("nyala runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ask(nyala: &Process, database: &str, query: &str) -> Value {
    let target = format!("/query?db={}&epoch=ns&q={}", percent_encode(database), percent_encode(query));
    let answer = nyala.send("POST", &target, b"").expect("an answer");
    let mut answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
    answer["results"][0]["series"].take()
}

#[test]
fn buckets_become_databases_and_policies() {
    let directory = unpacked();
    let root = directory.path();
    let refused = import(root, "nyala", &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("name one of [\"home\", \"other\"]"), "{}", text(&refused));
    let refused = import(root, "nyala", &["--organization", "x"]);
    assert!(text(&refused).contains("there is no organization \"x\""), "{}", text(&refused));
    let listed = import(root, "nyala", &["--organization", "home", "--dry-run"]);
    assert!(listed.status.success(), "{}", text(&listed));
    assert!(text(&listed).contains("retention policy \"weeks\", the default: keeps"), "{}", text(&listed));
    assert!(!root.join("nyala").exists(), "--dry-run wrote something");

    let imported = import(root, "nyala", &["--organization", "home"]);
    assert!(imported.status.success(), "{}", text(&imported));
    let report = text(&imported);
    assert!(report.contains("everything was imported") && report.contains("tokens, users"), "{report}");
    let nyala = Process::start(&root.join("nyala"), &[]);
    assert_eq!(ask(&nyala, "", "SHOW DATABASES")[0]["values"], json!([["old db"], ["plain"], ["telegraf"]]));
    // 24000 days, and shards as wide as InfluxDB had made them.
    assert_eq!(
        ask(&nyala, "", "SHOW RETENTION POLICIES ON telegraf")[0]["values"],
        json!([["month", "576000h0m0s", "168h0m0s", 1, true]])
    );
    for (database, policy, export) in
        [("plain", "autogen", "plain"), ("telegraf", "month", "month"), ("old db", "weeks", "mapped")]
    {
        let exported = format!("exported_{export}");
        ask(&nyala, "", &format!("CREATE DATABASE {exported}"));
        let lines = std::fs::read(root.join(format!("exports/{export}.lp"))).expect("readable");
        let written = nyala.send("POST", &format!("/write?db={exported}"), &lines).expect("an answer");
        assert_eq!(written.status, 204, "{}", String::from_utf8_lossy(&written.body));
        let all = "SELECT * FROM /.*/ GROUP BY *";
        let expected = ask(&nyala, &exported, all);
        assert!(expected.is_array(), "{export} has no points");
        let found = ask(&nyala, database, &all.replace("/.*/", &format!("{policy}./.*/")));
        assert!(found == expected, "{database}: {found}\n{expected}");
    }
    assert!(nyala.stop().success());

    // The bucket of the same name in the other organization.
    let imported = import(root, "other", &["--organization", "other"]);
    assert!(imported.status.success(), "{}", text(&imported));
    let nyala = Process::start(&root.join("other"), &[]);
    assert_eq!(ask(&nyala, "plain", "SELECT * FROM m")[0]["values"], json!([[1, 1]]));
    assert!(nyala.stop().success());

    // Without settings buckets keep their numbers.
    std::fs::write(root.join("influxdb2/influxd.bolt"), [7; 10_000]).expect("written");
    let imported = import(root, "numbers", &[]);
    assert_eq!(imported.status.code(), Some(1), "{}", text(&imported));
    assert!(text(&imported).contains("influxd.bolt, byte 0: it is no file of BoltDB"), "{}", text(&imported));
    let nyala = Process::start(&root.join("numbers"), &[]);
    let names = ask(&nyala, "", "SHOW DATABASES")[0]["values"].as_array().map_or(0, Vec::len);
    assert_eq!(names, 4);
}
