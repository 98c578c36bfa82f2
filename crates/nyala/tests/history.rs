//! The past, through the real program: queries of a moment before, and points that are brought back.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// A moment after everything that was answered, and before everything that is sent from now on.
fn moment() -> u128 {
    std::thread::sleep(Duration::from_millis(20));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
    std::thread::sleep(Duration::from_millis(20));
    now
}

fn ask(server: &Process, text: &str, as_of: &str) -> Value {
    let text = client::percent_encode(text);
    let target = format!("/query?db=d&epoch=ns&as_of={}&q={text}", client::percent_encode(as_of));
    let response = server.send("POST", &target, b"").expect("an answer");
    serde_json::from_slice(&response.body).expect("JSON")
}

fn rows(answer: &Value) -> Vec<(i64, f64)> {
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| (row[0].as_i64().expect("a time"), row[1].as_f64().expect("a value"))).collect()
}

/// They know nothing of its settings, and may write.
#[test]
fn who_opens_the_data_of_a_stopped_server_leaves_its_past() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--history", "15m"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    let written = moment();
    assert_eq!(server.write("m v=2 1").status, 204);
    let overwritten = moment();
    assert!(server.stop().success());
    let data_dir = dir.path().to_str().expect("UTF-8");
    let shell = ["shell", "--data-dir", data_dir, "-d", "d", "-c", "DELETE FROM m"];
    let done = Command::new(env!("CARGO_BIN_EXE_nyala")).args(shell).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let server = Process::start(dir.path(), &["--history", "15m"]);
    let at = |time: u128| rows(&ask(&server, "SELECT v FROM m", &time.to_string()));
    assert_eq!((at(written), at(overwritten)), (vec![(1, 1.0)], vec![(1, 2.0)]));
    assert_eq!(at(moment()), []);
}

#[test]
fn a_moment_of_the_past_is_shown_and_brought_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Process::start(dir.path(), &["--history", "15m"]);
    server.query("CREATE DATABASE d");
    let before_all = moment();
    assert_eq!(server.write("m,host=a v=1 1\nm,host=a v=2 2\nm,host=b v=9 9\n").status, 204);
    let written = moment();
    assert_eq!(server.write("m,host=a v=20 2\n").status, 204);
    let overwritten = moment();
    server.query("DELETE FROM m WHERE host = 'a' AND time < 2");
    let deleted = moment();
    let of_a = "SELECT v FROM m WHERE host = 'a'";
    let check = |server: &Process, when: &str| {
        let at = |time: u128| rows(&ask(server, of_a, &time.to_string()));
        assert_eq!(at(written), [(1, 1.0), (2, 2.0)], "{when}");
        assert_eq!(at(overwritten), [(1, 1.0), (2, 20.0)], "{when}");
        assert_eq!(at(deleted), [(2, 20.0)], "{when}");
        let sum = ask(server, "SELECT sum(v) FROM m", &written.to_string());
        assert_eq!(rows(&sum), [(0, 12.0)], "{when}");
        assert_eq!(at(before_all), [], "{when}");
    };
    check(&server, "at once");
    // A stop flushes.
    assert!(server.stop().success());
    server = Process::start(dir.path(), &["--history", "15m"]);
    check(&server, "after a restart");
    server.kill_9();
    server = Process::start(dir.path(), &["--history", "15m"]);
    check(&server, "after a kill");
    // The past has the series that were there.
    server.query("DELETE FROM m");
    check(&server, "after all points are gone");
    server.query("DROP SERIES FROM m WHERE host = 'b'");
    check(&server, "after a series is gone");
    let answer = ask(&server, "DROP SERIES FROM m", &written.to_string());
    assert!(answer.to_string().contains("the past cannot be changed"), "{answer}");
    let answer = ask(&server, "SELECT * INTO m FROM m WHERE host = 'a' GROUP BY *", &written.to_string());
    assert_eq!(rows(&answer)[0].1, 2.0, "{answer}");
    assert_eq!(rows(&server.query(of_a)), [(1, 1.0), (2, 2.0)]);
    // The text of a statement asks for the past, too; INTO writes to the present.
    let asked = |text: &str| server.query(&format!("SELECT v FROM m WHERE host = 'a' {text}"));
    assert_eq!(rows(&asked(&format!("ORDER BY time DESC LIMIT 1 as of {overwritten}"))), [(2, 20.0)]);
    let date = format!("'1970-01-01T00:00:00Z' + {overwritten}ns");
    assert_eq!(rows(&asked(&format!("AS OF {date}"))), [(1, 1.0), (2, 20.0)]);
    let both = server.query(&format!("{of_a} AS OF {deleted}; {of_a}"));
    let second = serde_json::json!({"results": [both["results"][1].clone()]});
    assert_eq!((rows(&both), rows(&second)), (vec![(2, 20.0)], vec![(1, 1.0), (2, 2.0)]));
    let copied = server.query(&format!("SELECT v INTO old FROM m WHERE host = 'a' AS OF {overwritten}"));
    assert_eq!(rows(&copied)[0].1, 2.0, "{copied}");
    assert_eq!(rows(&server.query("SELECT v FROM old")), [(1, 1.0), (2, 20.0)]);
    for (text, expected) in [
        ("AS OF 'yesterday'", "AS OF takes a time, such as"),
        ("AS OF now() - 10w", "the history begins at"),
        ("AS OF", "found EOF"),
        ("AS 5", "found AS, expected ;"),
        ("AS OF 1 LIMIT 1", "found LIMIT"),
    ] {
        let answer = asked(text).to_string();
        assert!(answer.contains(expected), "{text}: {answer}");
    }
    let inner = server.query("SELECT v FROM (SELECT v FROM m AS OF 1)").to_string();
    assert!(inner.contains("found AS, expected )"), "{inner}");
    // What cannot be answered says why.
    let error = |server: &Process, as_of: &str| ask(server, of_a, as_of).to_string();
    assert!(error(&server, "yesterday").contains("as_of must be a time"));
    assert!(error(&server, "1970-01-01T00:00:00Z").contains("the history begins at"));
    assert!(server.stop().success());
    let server = Process::start(dir.path(), &[]);
    assert!(error(&server, &written.to_string()).contains("no reads of the past"));
    assert_eq!(rows(&server.query(of_a)), [(1, 1.0), (2, 2.0)]);
}
