//! Missing data, through the real program: the server refuses to start or reports the loss, and `nyala check` lists
//! what is there, saves it, and accepts the loss.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `nyala check` with arguments: its exit code and output.
fn check(arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_nyala")).arg("check").args(arguments).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A stopped server's directory with 200 points, one database with a policy and a continuous query.
fn written(data_dir: &Path) {
    let server = Process::start(data_dir, &[]);
    server.query("CREATE DATABASE d WITH DURATION 10000w NAME keep");
    server.query("CREATE CONTINUOUS QUERY q ON d BEGIN SELECT sum(v) INTO sums FROM m GROUP BY time(1h) END");
    server.query("CREATE USER ann WITH PASSWORD 'secret'");
    let lines: String = (0..200).map(|point| format!("m,host=h{} v={point} {point}\n", point % 7)).collect();
    assert_eq!(server.write(&lines).status, 204);
    assert!(server.stop().success());
}

fn health(server: &Process) -> String {
    let answer = server.send("GET", "/health", b"").expect("an answer");
    assert_eq!(answer.status, 200);
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn damaged_places(server: &Process) -> u64 {
    let answer = server.send("GET", "/metrics", b"").expect("an answer");
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("nyala_recovery_damaged_places "));
    line.expect("the metric is there").parse().expect("a number")
}

/// Checks that the server does not start and prints these words.
fn assert_refused(data_dir: &Path, words: &[&str]) {
    let mut server = Process::spawn(data_dir, &[]);
    assert_eq!(server.wait().code(), Some(1));
    let said = server.log();
    assert!(words.iter().all(|words| said.contains(words)), "{said}");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("listed").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn without_its_manifest_the_server_refuses_and_check_saves_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data_dir, new_dir) = (directory.path().join("data"), directory.path().join("new"));
    written(&data_dir);
    let is_manifest =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("manifest-"));
    files(&data_dir)
        .into_iter()
        .filter(is_manifest)
        .for_each(|path| std::fs::remove_file(path).expect("removed"));
    let rowsets = files(&data_dir.join("rowsets"));
    assert_refused(&data_dir, &["no manifest", "nyala check --repair NEW_DIRECTORY"]);
    assert_eq!(files(&data_dir.join("rowsets")), rowsets, "nothing is touched");
    let (code, said) = check(&["--repair", text(&new_dir), text(&data_dir)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("may come back") && said.contains("--accept") && !new_dir.exists(), "{said}");
    let (code, said) = check(&["--repair", text(&new_dir), "--accept", text(&data_dir)]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(check(&[text(&new_dir)]).0, Some(0), "{}", check(&[text(&new_dir)]).1);
    let server = Process::start(&new_dir, &[]);
    assert_eq!(server.number("SELECT count(v) FROM d.keep.m"), 200);
    assert_eq!(damaged_places(&server), 0);
    let shown = server.query("SHOW CONTINUOUS QUERIES").to_string();
    assert!(shown.contains("sums"), "{shown}");
    assert!(server.stop().success());
}

#[test]
fn without_its_log_the_server_refuses_until_that_is_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    written(&data_dir);
    std::fs::remove_dir_all(data_dir.join("wal")).expect("removed");
    assert_refused(&data_dir, &["segment", "nyala check --accept"]);
    let (code, said) = check(&["--accept", text(&data_dir)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("accepted as lost: the log ends"), "{said}");
    let server = Process::start(&data_dir, &[]);
    assert_eq!(server.number("SELECT count(v) FROM d.keep.m"), 200, "what was flushed is there");
    assert_eq!(damaged_places(&server), 0);
}

#[test]
fn who_accepts_the_loss_of_series_is_told_that_their_points_go_with_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data_dir, aside) = (directory.path().join("data"), directory.path().join("aside"));
    written(&data_dir);
    let is_of_series = |rowset: &PathBuf| {
        std::fs::rename(rowset, &aside).expect("moved");
        let (code, said) = check(&[text(&data_dir)]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("1 place is damaged"), "{said}");
        let is_of_series = said.contains("table \"nyala.series\"");
        assert_eq!(
            said.contains("points of series whose records are lost are not shown"),
            is_of_series,
            "{said}"
        );
        std::fs::rename(&aside, rowset).expect("moved back");
        is_of_series
    };
    let of_series = files(&data_dir.join("rowsets")).into_iter().find(is_of_series).expect("a file");
    std::fs::remove_file(of_series).expect("removed");
    let (code, said) = check(&["--accept", text(&data_dir)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("points of series whose records are lost are not shown"), "{said}");
}

#[test]
fn a_truncated_log_is_reported_by_health_and_metrics_until_it_is_accepted() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    (0..20).for_each(|point| assert_eq!(server.write(&format!("m v={point} {point}")).status, 204));
    server.kill();
    let segment = files(&data_dir.join("wal")).pop().expect("a segment");
    let file = std::fs::OpenOptions::new().write(true).open(&segment).expect("opens");
    file.set_len(1500).expect("cut");
    for _ in 0..2 {
        let server = Process::start(&data_dir, &[]);
        assert!(health(&server).contains("damaged or lost"), "{}", health(&server));
        assert!(damaged_places(&server) > 0);
        assert!(server.log().contains(segment.file_name().expect("a name").to_str().expect("UTF-8")));
        assert!(server.stop().success());
    }
    assert_eq!(check(&["--accept", text(&data_dir)]).0, Some(0));
    let server = Process::start(&data_dir, &[]);
    assert!(!health(&server).contains("damaged"), "{}", health(&server));
    assert_eq!(damaged_places(&server), 0);
}

/// The rowset files that belong to a table.
fn of_table(data_dir: &Path, table: &str) -> Vec<PathBuf> {
    let says = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("read");
        bytes.windows(table.len()).any(|window| window == table.as_bytes())
    };
    let found: Vec<_> = files(&data_dir.join("rowsets")).into_iter().filter(says).collect();
    assert!(!found.is_empty(), "{table} has a rowset");
    found
}

#[test]
fn a_missing_file_of_users_series_or_databases_is_noticed() {
    for table in ["nyala.users", "nyala.series", "nyala.databases"] {
        let directory = tempfile::tempdir().expect("a directory");
        let data_dir = directory.path().join("data");
        written(&data_dir);
        let missing = of_table(&data_dir, table);
        missing.iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
        let name = missing[0].file_name().expect("a name").to_str().expect("UTF-8");
        if table == "nyala.users" {
            assert_refused(&data_dir, &[name, "the file is missing"]);
            continue;
        }
        let server = Process::start(&data_dir, &[]);
        assert!(health(&server).contains("damaged or lost") && damaged_places(&server) > 0, "{table}");
        assert!(server.log().contains(name), "{}", server.log());
        let answer =
            server.send("GET", "/query?db=d&q=SELECT+count(v)+FROM+d.keep.m", b"").expect("an answer");
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        match table {
            "nyala.series" => assert!(said.contains(name), "the query that needs it names it: {said}"),
            _ => assert!(said.contains("200"), "rows are there: {said}"),
        }
        assert!(server.stop().success());
        assert_eq!(check(&[text(&data_dir)]).0, Some(1), "{table}");
    }
}

#[test]
fn lost_records_of_databases_are_reported_until_accepted_and_new_ones_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    written(&data_dir);
    let databases = of_table(&data_dir, "nyala.databases").remove(0);
    let mut bytes = std::fs::read(&databases).expect("read");
    bytes[40] ^= 4;
    std::fs::write(&databases, bytes).expect("written");
    let server = Process::start(&data_dir, &[]);
    assert!(health(&server).contains("damaged or lost") && damaged_places(&server) == 1);
    assert_eq!(server.number("SELECT count(v) FROM d.keep.m"), 200);
    server.query("ALTER RETENTION POLICY keep ON d DURATION 9000w");
    server.query("CREATE DATABASE other");
    assert!(server.stop().success());
    let server = Process::start(&data_dir, &[]);
    let shown = server.query("SHOW RETENTION POLICIES ON d").to_string();
    assert!(shown.contains("1512000h"), "what was altered since is there: {shown}");
    assert!(server.query("SHOW DATABASES").to_string().contains("other"));
    assert!(health(&server).contains("damaged or lost"), "nobody has accepted it");
    assert!(server.stop().success());
    let (code, said) = check(&["--accept", text(&data_dir)]);
    assert!(code == Some(0) && said.contains("records of databases"), "{said}");
    let server = Process::start(&data_dir, &[]);
    assert!(damaged_places(&server) == 0 && server.query("SHOW DATABASES").to_string().contains("other"));
    assert!(server.stop().success());
    assert_eq!(check(&[text(&data_dir)]).0, Some(0), "{}", check(&[text(&data_dir)]).1);
}

#[test]
fn a_directory_of_another_database_is_refused_and_a_new_one_is_private() {
    let directory = tempfile::tempdir().expect("a directory");
    let foreign = directory.path().join("influxdb");
    for part in ["data", "meta", "wal"] {
        std::fs::create_dir_all(foreign.join(part)).expect("a directory");
    }
    assert_refused(&foreign, &["not a data directory of nyala", "influxdb"]);
    assert_eq!(files(&foreign).len(), 3, "nothing is left there");
    let data_dir = directory.path().join("new");
    // The server's own Unix socket in it is allowed.
    std::fs::create_dir(&data_dir).expect("a directory");
    std::fs::set_permissions(&data_dir, std::fs::Permissions::from_mode(0o700)).expect("allowed");
    let server = Process::start(&data_dir, &["--bind-socket", text(&data_dir.join("nyala.sock"))]);
    for path in [data_dir.clone(), data_dir.join("rowsets"), data_dir.join("wal")] {
        assert_eq!(path.metadata().expect("is there").permissions().mode() & 0o777, 0o700, "{path:?}");
    }
    assert!(server.stop().success());
}
