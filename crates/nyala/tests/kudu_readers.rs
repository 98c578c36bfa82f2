//! `docs/examples/kudu_reader.py`, which reads the tables of a Kudu cluster without nyala, finds the rows that nyala shows.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/cluster.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cluster;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/prometheus.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod prometheus;

use kudu_client::test_cluster::TestCluster;
use process::Process;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Fields that are floats: they are the same number in two notations.
const FLOATS: [&str; 2] = ["f", "value"];

/// A row by column, without what it lacks.
type Row = BTreeMap<String, Value>;

/// The example, for one cluster.
struct Reader<'a> {
    cluster: &'a TestCluster,
    tool: PathBuf,
}

impl<'a> Reader<'a> {
    /// Writes a program that starts Kudu's tool with its own libraries, which Python must not get.
    fn new(cluster: &'a TestCluster, directory: &Path) -> Self {
        let (kudu, tool) = (cluster.kudu(), directory.join("kudu"));
        let mut text = "#!/bin/sh\n".to_owned();
        for (name, value) in kudu.get_envs() {
            let value = value.map(|value| value.to_string_lossy()).unwrap_or_default();
            text.push_str(&format!("export {}='{value}'\n", name.to_string_lossy()));
        }
        text.push_str(&format!("exec '{}' \"$@\"\n", kudu.get_program().to_string_lossy()));
        std::fs::write(&tool, text).expect("the directory is writable");
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self { cluster, tool }
    }

    /// What it prints; an error says why it failed.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/kudu_reader.py");
        let mut python = Command::new("python3");
        python.arg("-B").arg(script).arg("--kudu").arg(&self.tool).arg(self.cluster.masters().join(","));
        let output = python.args(arguments).output().expect("Python runs");
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).expect("UTF-8")),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn print(&self, arguments: &[&str]) -> String {
        self.run(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    /// The rows of a measurement of the database `d`, sorted.
    fn rows(&self, measurement: &str, options: &[&str]) -> Vec<Row> {
        let text = self.print(&[&["d", measurement], options].concat());
        let mut records = read_csv(&text).into_iter();
        let titles: Vec<String> =
            records.next().expect("titles").into_iter().map(|title| title.expect("a title").0).collect();
        let row = |record: Vec<Cell>| {
            assert_eq!(record.len(), titles.len(), "{text}");
            let cells = titles.iter().zip(record).filter_map(|(title, cell)| {
                let (text, is_text) = cell?;
                let read = || serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                Some((title.clone(), plain(title, if is_text { json!(text) } else { read() })))
            });
            cells.collect()
        };
        sorted(records.map(row).collect())
    }
}

/// A cell of CSV, and whether it stands in quotes; `None`: there is no value.
type Cell = Option<(String, bool)>;

fn read_csv(text: &str) -> Vec<Vec<Cell>> {
    let (mut records, mut record, mut cell, mut is_text) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                is_text = true;
                while let Some(letter) = letters.next() {
                    if letter == '"' && letters.next_if_eq(&'"').is_none() {
                        break;
                    }
                    cell.push(letter);
                }
            }
            ',' | '\n' => {
                record.push((is_text || !cell.is_empty()).then(|| (std::mem::take(&mut cell), is_text)));
                is_text = false;
                if letter == '\n' {
                    records.push(std::mem::take(&mut record));
                }
            }
            other => cell.push(other),
        }
    }
    assert!(record.is_empty() && cell.is_empty(), "it ends within a row: {text}");
    records
}

fn plain(title: &str, value: Value) -> Value {
    if FLOATS.contains(&title) { json!(value.as_f64().expect("a number")) } else { value }
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| json!(row).to_string());
    rows
}

/// The same rows from nyala. Titles that it has others for: (nyala's, the example's).
fn shown(server: &Process, statement: &str, renamed: &[(&str, &str)]) -> Vec<Row> {
    let answer = server.query(statement);
    assert!(answer["results"][0].get("error").is_none(), "{statement}: {answer}");
    let mut rows = Vec::new();
    for series in answer["results"][0]["series"].as_array().into_iter().flatten() {
        let titles: Vec<&str> =
            series["columns"].as_array().expect("columns").iter().flat_map(Value::as_str).collect();
        for row in series["values"].as_array().expect("rows") {
            let cells =
                titles.iter().zip(row.as_array().expect("cells")).filter(|(_, value)| !value.is_null());
            let title = |of_nyala: &str| {
                renamed.iter().find(|(from, _)| *from == of_nyala).map_or(of_nyala, |(_, to)| to).to_owned()
            };
            rows.push(cells.map(|(name, value)| (title(name), plain(&title(name), value.clone()))).collect());
        }
    }
    sorted(rows)
}

fn write(server: &Process, lines: &str) {
    let answer = server.write(lines);
    assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
}

const LINES: &str = r#"m,host=a,region=west\ 1 f=1.5,i=-3i,u=7u,b=true,s="plain" 1000000000
m,host=a f=-0,b=false -5
m,host=b\,\=é,quote="\'\ NULL f=1e300,u=18446744073709551615u,s="" 2000000000
m,host=日本\ 🦀 f=0.1,i=9223372036854775807i,s="say \"x\", c1=NULL) \\ 'é🦀" 1600000000000000001
m i=-9223372036854775808i,u=0u 3
m s="two
lines, one	tab, NULL" 4
m,host=a,region=west\ 1 f=1.2345678901234567,u=9223372036854775808u 5
odd\ name\,,\ k\=y=v\\w v=1i 1
"#;

#[test]
fn the_example_for_readers_prints_what_nyala_shows() {
    let python = peers::works("python3", &["-c", "import argparse"]).then_some(());
    if peers::require("Python 3", "install python3", python).is_none() {
        return;
    }
    let Some(cluster) = cluster::start(1, 1) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let reader = Reader::new(&cluster, directory.path());
    assert!(reader.run(&["d", "m"]).is_err_and(|error| error.contains("there is no table nyala.schema")));
    let masters = cluster.masters().join(",");
    let settings =
        ["--store", "kudu", "--kudu-masters", &masters, "--kudu-replicas", "1", "--kudu-buckets", "2"];
    let server = Process::spawn_in(&directory.path().join("data"), &settings, &[]);
    // A start makes some tables in the cluster.
    server.wait_until_ready(Duration::from_secs(240));
    server.query("CREATE DATABASE d");
    write(&server, LINES);
    // Unsigned, boolean and tags of all kinds; a time that is before 1970.
    let all = reader.rows("m", &[]);
    assert_eq!(all, shown(&server, "SELECT * FROM m", &[]));
    assert_eq!(all.len(), 7);
    assert!(all.iter().any(|row| row.get("u") == Some(&json!(u64::MAX))), "{all:?}");
    assert!(all.iter().any(|row| row.get("s") == Some(&json!(""))), "{all:?}");
    assert_eq!(reader.rows("odd name,", &[]), shown(&server, r#"SELECT * FROM "odd name,""#, &[]));
    let between = reader.rows("m", &["--from", "-5", "--until", "5"]);
    assert_eq!(between, shown(&server, "SELECT * FROM m WHERE time >= -5 AND time < 5", &[]));
    assert_eq!(between.len(), 3);
    // More fields than a table of Kudu has columns.
    let fields: Vec<String> = (0..600).map(|number| format!("f{number}={number}i")).collect();
    write(&server, &format!("wide,host=a {} 1\nwide f3=1i 2\nwide f590=2i 3", fields.join(",")));
    let wide = reader.rows("wide", &[]);
    assert_eq!(wide, shown(&server, "SELECT * FROM wide", &[]));
    assert_eq!(wide.iter().map(Row::len).max(), Some(2 + 600));
    assert_eq!(reader.print(&["d", "wide", "--spark-sql"]).matches("LEFT JOIN").count(), 2);
    // A field that has another type in another shard, and the name of a tag.
    write(&server, "n,host=a v=\"x\",host=2i 1\nn v=true 1600000000000000000");
    let renamed =
        [("host", "host::integer"), ("host_1", "host::tag"), ("v", "v::string"), ("v_1", "v::boolean")];
    let both = "SELECT host::field, host::tag, v::string, v::boolean FROM n";
    assert_eq!(reader.rows("n", &[]), shown(&server, both, &renamed));
    // A change of tables that one row of the log does not hold, and a name that is longer than a comment.
    let long = "x".repeat(2500);
    write(
        &server,
        &(0..30).map(|number| format!("{long}{number} {}=1i 1\n", &long[..300])).collect::<String>(),
    );
    let last = format!("{long}29");
    assert_eq!(reader.rows(&last, &[]), shown(&server, &format!("SELECT * FROM {last}"), &[]));
    // What was deleted is not there, and what is written again is.
    server.query("DELETE FROM m WHERE time = 3");
    server.query("DROP SERIES FROM m WHERE region = 'west 1'");
    write(&server, "m,host=new f=2 6\nm,host=a f=3 1000000000");
    assert_eq!(reader.rows("m", &[]), shown(&server, "SELECT * FROM m", &[]));
    // Metrics of Prometheus share a table.
    for (name, value) in [("up", 1.0), ("down", 2.0)] {
        let body =
            prometheus::packed_samples(&[("__name__", name), ("job", "x")], std::iter::once((value, 7)));
        assert_eq!(server.send("POST", "/api/v1/prom/write?db=d", &body).expect("an answer").status, 204);
    }
    assert_eq!(reader.rows("up", &[]), shown(&server, "SELECT * FROM up", &[]));
    assert_eq!(reader.rows("up", &[]).len(), 1);
    let listed = reader.print(&[]);
    assert!(listed.contains("\"d\",\"autogen\",\"odd name,\",nyala.t"), "{listed}");
    server.query("DROP MEASUREMENT n");
    assert!(!reader.print(&[]).contains("\"n\""));
    let gone = reader.run(&["d", "n"]);
    assert!(gone.as_ref().is_err_and(|error| error.contains("no measurement 'n'")), "{gone:?}");
    spark_gets_a_view(&reader);
}

/// There is no Spark here: this only shows that the statements name what they need.
fn spark_gets_a_view(reader: &Reader<'_>) {
    let text = reader.print(&["d", "m", "--spark-sql"]);
    for part in [
        &format!("`kudu.master` '{}', `kudu.table` 'nyala.t", reader.cluster.masters().join(",")),
        "CREATE OR REPLACE TEMPORARY VIEW `m` AS",
        "AS DECIMAL(20, 0)) + 9223372036854775808 AS `u`",
        r#"'"\\\' NULL'"#,
        "ON s.id = CAST(r.c0 AS BIGINT) + 2147483648",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}
