//! `nyala shadow`: a real InfluxDB sends to nyala what is written to it, and what the two answer differently is named.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/server.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod server;

use client::{Request, Response, percent_encode};
use process::Process;
use serde_json::Value;
use server::{Program, Server};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const WAIT: Duration = Duration::from_secs(120);

/// An InfluxDB and a nyala.
struct Pair {
    influxdb: Server,
    nyala: Process,
    directory: tempfile::TempDir,
    /// The log-in of both, as in the parameters of a URL.
    login: &'static str,
}

/// What a command said.
#[derive(Debug)]
struct Said {
    code: i32,
    text: String,
    errors: String,
}

impl Pair {
    fn start(settings: &[(&str, &str)], arguments: &[&str]) -> Option<Pair> {
        let influxd = peers::influxd().map(Program::Influx)?;
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let influxdb = Server::start(&influxd, &settings).expect("InfluxDB starts");
        let directory = tempfile::tempdir().expect("a directory");
        let nyala = Process::start(&directory.path().join("data"), arguments);
        Some(Pair { influxdb, nyala, directory, login: "" })
    }

    fn nyala_url(&self) -> String {
        format!("http://{}", self.nyala.address)
    }

    /// Runs a command of `nyala shadow` without passwords that the environment may have.
    fn shadow_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
        command.arg("shadow").args(arguments);
        command.args(["--influxdb", &self.influxdb.url(), "--nyala", &self.nyala_url()]);
        for (name, _) in std::env::vars_os() {
            if ["NYALA_", "INFLUX_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        let output = command.output().expect("nyala runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("it ends by itself");
        Said { code, text: text(output.stdout), errors: text(output.stderr) }
    }

    fn shadow(&self, arguments: &[&str]) -> Said {
        self.shadow_with(arguments, &[])
    }

    /// The first object that `compare --json` prints.
    fn compared(&self, arguments: &[&str]) -> (i32, Value) {
        let said = self.shadow(&[&["compare", "--json", "--lag", "0s"], arguments].concat());
        let first = said.text.lines().next().unwrap_or_else(|| panic!("no report: {said:?}"));
        (said.code, serde_json::from_str(first).expect("JSON"))
    }

    fn to_influxdb(&self, target: &str, body: &str) -> Response {
        let request = Request {
            method: "POST".to_owned(),
            target: format!("{target}{}", self.login),
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
        };
        self.influxdb.send(&request).expect("an answer")
    }

    fn to_nyala(&self, target: &str, body: &str) -> Response {
        self.nyala.send("POST", &format!("{target}{}", self.login), body.as_bytes()).expect("an answer")
    }

    fn run_influxdb(&self, query: &str) {
        let answer = self.to_influxdb(&format!("/query?db=d&q={}", percent_encode(query)), "");
        assert!(!String::from_utf8_lossy(&answer.body).contains("error"), "{query}: {answer:?}");
    }

    fn run_nyala(&self, query: &str) -> String {
        let answer = self.to_nyala(&format!("/query?db=d&q={}", percent_encode(query)), "");
        let text = String::from_utf8(answer.body).expect("UTF-8");
        assert!(!text.contains("error"), "{query}: {text}");
        text
    }

    /// Waits until InfluxDB says that of its subscriptions: for each that it sends, how many requests were lost.
    fn wait_for_influxdb(&self, holds: impl Fn(&[u64]) -> bool) {
        let lost_of = |series: &Value| {
            series["tags"]["destination"].as_str()?;
            let columns = series["columns"].as_array()?;
            let at = columns.iter().position(|column| column == "writeFailures")?;
            series["values"][0][at].as_u64()
        };
        let target = format!("/query?q={}", percent_encode("SHOW STATS FOR 'subscriber'"));
        let begun = Instant::now();
        loop {
            let answer: Value = serde_json::from_slice(&self.to_influxdb(&target, "").body).expect("JSON");
            let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
            let lost: Vec<u64> = series.iter().filter_map(lost_of).collect();
            if holds(&lost) {
                return;
            }
            assert!(begun.elapsed() < WAIT, "{answer}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until nyala has so many values.
    fn wait_for_nyala(&self, policy: &str, count: u64) {
        let query = format!("SELECT count(usage) FROM d.{policy}.cpu");
        let begun = Instant::now();
        while !self.run_nyala(&query).contains(&format!(",{count}]")) {
            assert!(begun.elapsed() < WAIT, "{}", self.run_nyala(&query));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn ok(said: &Said) {
    assert_eq!(said.code, 0, "{}{}", said.text, said.errors);
}

/// Two hours before the hour that it is.
fn base_ns() -> i64 {
    const HOUR_NS: i64 = 3_600_000_000_000;
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64;
    (now_ns / HOUR_NS - 2) * HOUR_NS
}

/// A row per minute and host.
fn lines(first_ns: i64, minutes: i64) -> String {
    let mut lines = String::new();
    for minute in 0..minutes {
        let time_ns = first_ns + minute * 60_000_000_000;
        for host in ["a", "b\\ c"] {
            lines += &format!(
                "cpu,host={host} usage={},n={minute}i,up={},note=\"it's\\\" {minute}\" {time_ns}\n",
                minute as f64 / 7.0,
                minute % 2 == 0
            );
        }
    }
    lines
}

#[test]
fn writes_are_mirrored_and_each_difference_is_named() {
    let Some(mut pair) = Pair::start(&[], &[]) else { return };
    pair.run_influxdb("CREATE DATABASE d WITH DURATION 30d NAME month");
    pair.run_influxdb(
        "CREATE RETENTION POLICY ever ON d DURATION INF REPLICATION 1 SHARD DURATION 4w DEFAULT",
    );
    let started = pair.shadow(&["start", "--database", "d"]);
    ok(&started);
    for wanted in
        ["d: created in nyala", "d.ever: created in nyala", "d.month: subscription \"nyala\" sends", "DELETE"]
    {
        assert!(started.text.contains(wanted), "{started:?}");
    }
    let again = pair.shadow(&["start"]);
    assert!(
        again.code == 0 && again.text.contains("is there already") && !again.text.contains("created"),
        "{again:?}"
    );
    let policies = |answer: String| answer.replace(",\"futureWriteLimit\":\"0s\"", "");
    let theirs = pair.to_influxdb("/query?q=SHOW+RETENTION+POLICIES+ON+d", "");
    assert_eq!(
        policies(pair.run_nyala("SHOW RETENTION POLICIES ON d")),
        policies(String::from_utf8_lossy(&theirs.body).into_owned())
    );

    // Mirrored, and equal. InfluxDB begins to send some time after it has answered. It overlooks a subscription that comes
    // while it takes note of another one, until anything else is changed.
    pair.run_influxdb("ALTER RETENTION POLICY month ON d DURATION 30d");
    pair.wait_for_influxdb(|lost| lost.len() == 2);
    let base_ns = base_ns();
    for policy in ["month", "ever"] {
        let written = pair.to_influxdb(&format!("/write?db=d&rp={policy}"), &lines(base_ns, 90));
        assert_eq!(written.status, 204, "{written:?}");
        pair.wait_for_nyala(policy, 180);
    }
    let (code, report) = pair.compared(&["--database", "d", "--retries", "0"]);
    assert_eq!((code, report["queries"].as_array().map(Vec::len)), (0, Some(2)), "{report}");
    assert_eq!(report["queries"][0]["rows"], 4, "two hosts, two hours: {report}");
    assert_eq!(report["subscriptions"][0]["points"], 180, "{report}");
    let shown = pair.shadow(&["compare", "--lag", "0s", "--every", "10ms", "--rounds", "2"]);
    assert!(shown.code == 0 && shown.text.contains("2 rounds with 4 comparisons: 4 equal"), "{shown:?}");

    // A changed row is named, by the hour and by itself.
    let changed_ns = base_ns + 7 * 60_000_000_000;
    let change = format!("cpu,host=b\\ c usage=77.5 {changed_ns}");
    assert_eq!(pair.to_nyala("/write?db=d&rp=month", &change).status, 204);
    let (code, report) = pair.compared(&["--retries", "0"]);
    assert_eq!(
        (code, &report["outcomes"]),
        (1, &serde_json::json!({"equal": 1, "different": 1})),
        "{report}"
    );
    let query =
        report["queries"].as_array().and_then(|all| all.iter().find(|own| own["outcome"] == "different"));
    let query = query.expect("one differs");
    assert_eq!(query["differences"][0]["column"], "mean usage", "{query}");
    let row = &query["rows_behind"]["differences"][0];
    assert_eq!(row["series"], "cpu,host=b c");
    assert_eq!((&row["column"], &row["influxdb"], &row["nyala"]), (&"usage".into(), &1.into(), &77.5.into()));
    assert!(row["time"].as_str().is_some_and(|time| time.ends_with(":07:00Z")), "{row}");
    assert_eq!(query["rows_behind"]["counts"], serde_json::json!({"value": 1}));
    pair.run_nyala("DELETE FROM cpu WHERE host = 'b c'");
    let shown = pair.shadow(&["compare", "--lag", "0s", "--retries", "0"]);
    assert!(
        shown.code == 1 && shown.text.contains("cpu,host=b c: nyala lacks the series (rows: 2"),
        "{shown:?}"
    );

    // What was written while nyala was down lacks.
    let address = pair.nyala.address;
    pair.nyala.kill();
    let unreachable = pair.shadow(&["compare"]);
    assert!(unreachable.code == 2 && unreachable.errors.contains("nyala at http"), "{unreachable:?}");
    assert_eq!(pair.to_influxdb("/write?db=d&rp=ever", &lines(base_ns + 1, 2)).status, 204);
    pair.wait_for_influxdb(|lost| lost.iter().sum::<u64>() == 1);
    let log = pair.directory.path().join("log");
    pair.nyala = Process::spawn_logging(&pair.directory.path().join("data"), address, &[], &[], log);
    pair.nyala.wait_until_ready(WAIT);
    let file = pair.directory.path().join("queries");
    std::fs::write(
        &file,
        "-- all\nSELECT usage FROM ever.cpu WHERE host = 'a' AND time < now() GROUP BY host\nSHOW FIELD KEYS\n",
    )
    .expect("a file");
    let file = file.to_str().expect("UTF-8");
    let (code, report) = pair.compared(&["--database", "d", "--queries", file, "--retries", "0"]);
    let query = &report["queries"][0];
    assert_eq!((code, &query["counts"]), (1, &serde_json::json!({"missing_row": 2})), "{report}");
    assert_eq!(query["differences"][1]["influxdb"], serde_json::json!({"usage": 1.0 / 7.0}), "{query}");
    assert!(
        query["differences"][1]["time"].as_str().is_some_and(|time| time.ends_with(":01:00.000000001Z")),
        "{query}"
    );
    assert_eq!(report["queries"][1]["outcome"], "equal", "{report}");
    assert!(
        report["subscriptions"][0]["lost_requests"] == 1 || report["subscriptions"][1]["lost_requests"] == 1,
        "{report}"
    );

    // What cannot be compared is said.
    let short = pair.shadow(&["compare", "--database", "d", "--queries", file, "--answer-limit", "1KiB"]);
    assert!(short.code == 2 && short.text.contains("is longer than"), "{short:?}");
    for (text, code, wanted) in [
        ("DROP MEASUREMENT cpu\n", 2, "line 1: only SELECT and SHOW"),
        ("SELECT usage INTO x FROM cpu\n", 2, "line 1: a query with INTO writes"),
        ("SELECT nothing(usage) FROM cpu\n", 0, "both refuse: "),
        ("SELECT usage FROM cpu AS OF now() - 1h\n", 1, "ERROR"),
    ] {
        std::fs::write(file, text).expect("a file");
        let said = pair.shadow(&["compare", "--database", "d", "--queries", file, "--retries", "0"]);
        assert!(
            said.code == code && format!("{}{}", said.text, said.errors).contains(wanted),
            "{text}{said:?}"
        );
    }

    // A second nyala, and this one by a name that only InfluxDB's machine knows.
    pair.run_influxdb("CREATE DATABASE elsewhere");
    pair.run_influxdb(
        "CREATE SUBSCRIPTION nyala ON elsewhere.autogen DESTINATIONS ALL 'http://ann:secret@127.0.0.1:1'",
    );
    let stopped = pair.shadow(&["stop"]);
    assert!(
        stopped.code == 0 && stopped.text.contains("d.month: no longer sent to http://127.0.0.1"),
        "{stopped:?}"
    );
    let said = "elsewhere.autogen: subscription \"nyala\" sends to http://ann:";
    assert!(stopped.text.contains(said) && !stopped.text.contains("secret"), "{stopped:?}");
    let stopped = pair.shadow(&["stop"]);
    assert!(stopped.code == 1 && stopped.errors.contains("which is not this nyala"), "{stopped:?}");
    let stopped = pair.shadow(&["stop", "--destination", "http://127.0.0.1:1/"]);
    assert!(
        stopped.code == 0 && stopped.text.contains("elsewhere.autogen: no longer sent to"),
        "{stopped:?}"
    );
    let stopped = pair.shadow(&["stop"]);
    assert!(stopped.code == 0 && stopped.text.contains("nothing is sent"), "{stopped:?}");
    the_way_back(&pair, base_ns);
}

/// nyala sends to InfluxDB, and so nothing may be sent the other way.
fn the_way_back(pair: &Pair, base_ns: i64) {
    pair.run_nyala(&format!("CREATE SUBSCRIPTION back ON d.ever DESTINATIONS ALL '{}'", pair.influxdb.url()));
    let circle = pair.shadow(&["start"]);
    assert!(circle.code == 1 && circle.errors.contains("round for ever"), "{circle:?}");
    let written = pair.to_nyala("/write?db=d&rp=ever", &lines(base_ns + 2, 3).replace("cpu", "back"));
    assert_eq!(written.status, 204, "{written:?}");
    let file = pair.directory.path().join("queries");
    std::fs::write(&file, "SELECT count(*) FROM ever.back").expect("a file");
    let file = file.to_str().expect("UTF-8");
    let begun = Instant::now();
    loop {
        let (code, report) = pair.compared(&["--database", "d", "--queries", file, "--retries", "0"]);
        if code == 0 && report["queries"][0]["rows"] == 1 {
            assert_eq!(report["subscriptions"][0]["from"], "nyala", "{report}");
            return;
        }
        assert!(begun.elapsed() < WAIT, "{report}");
    }
}

#[test]
fn log_ins_are_checked_before_anything_is_sent() {
    let Some(mut pair) = Pair::start(&[("auth-enabled", "true")], &["--auth-enabled", "true"]) else {
        return;
    };
    let admin = "CREATE USER admin WITH PASSWORD 'p@ss:1' WITH ALL PRIVILEGES";
    pair.run_influxdb(admin);
    pair.run_nyala(admin);
    pair.login = "&u=admin&p=p%40ss%3A1";
    pair.run_influxdb("CREATE DATABASE d");
    let names = ["--influxdb-username", "admin", "--nyala-username", "admin"];
    let start = |more: &[&str], variables: &[(&str, &str)]| {
        pair.shadow_with(&[&["start"], &names[..], more].concat(), variables)
    };
    let passwords =
        [("INFLUX_PASSWORD", "p@ss:1"), ("NYALA_PASSWORD", "p@ss:1"), ("NYALA_WRITER_PASSWORD", "wr/ite")];
    let nobody = pair.shadow(&["start"]);
    assert!(nobody.code == 1 && nobody.errors.contains("InfluxDB at http"), "{nobody:?}");
    let wrong = start(&[], &[("INFLUX_PASSWORD", "p@ss:1"), ("NYALA_PASSWORD", "secret")]);
    assert!(
        wrong.code == 1 && wrong.errors.contains("nyala at http") && !wrong.errors.contains("secret"),
        "{wrong:?}"
    );
    let unnamed = start(&[], &passwords);
    assert!(unnamed.code == 1 && unnamed.errors.contains("--writer"), "{unnamed:?}");
    pair.run_nyala("CREATE USER mirror WITH PASSWORD 'wr/ite'");
    let no_right = start(&["--writer", "mirror"], &passwords);
    assert!(no_right.code == 1 && no_right.errors.contains("--writer"), "{no_right:?}");
    pair.run_nyala("GRANT WRITE ON d TO mirror");
    let started = start(&["--writer", "mirror"], &passwords);
    ok(&started);
    assert!(started.text.contains("http://mirror:") && !started.text.contains("ite@"), "{started:?}");
    pair.wait_for_influxdb(|lost| lost.len() == 1);
    let base_ns = base_ns();
    assert_eq!(pair.to_influxdb("/write?db=d", &lines(base_ns, 5)).status, 204);
    pair.wait_for_nyala("autogen", 10);
    let compare = [&["compare", "--lag", "0s"], &names[..]].concat();
    ok(&pair.shadow_with(&compare, &passwords));
    let wrong = pair.shadow_with(&compare, &[("INFLUX_PASSWORD", "no"), ("NYALA_PASSWORD", "p@ss:1")]);
    assert!(wrong.code == 2 && wrong.errors.contains("authorization failed"), "{wrong:?}");
}
