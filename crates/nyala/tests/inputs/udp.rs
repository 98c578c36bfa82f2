//! Line protocol by UDP.

use super::compared::same_rows;
use super::process::Process;
use super::{free, input_metric, rows, send_datagrams, wait_until};

#[test]
fn lines_are_stored_as_influxdb_stores_them() {
    let datagrams = [
        "cpu,host=a value=1 1500000000000000000\ncpu,host=b value=2 1500000000000000000",
        "cpu2,host=a\\ b,x=y\\,z value=1.5,text=\"a \\\"b\\\"\n c\",ok=t 1500000000000000001\n",
        "# a comment\n\n  mem used=7i 1500000000000000002\r\n",
        "cpu,host=a value=3 1500000001000000000",
    ];
    same_rows(
        "udp",
        "udp",
        &[("udp-bind", "ADDRESS")],
        "[[udp]]\nenabled = true\nbind-address = \"ADDRESS\"\ndatabase = \"udp\"\n",
        |to| send_datagrams(to, datagrams),
    );
}

#[test]
fn each_datagram_is_read_on_its_own_and_has_its_own_time() {
    let (directory, to) = (tempfile::tempdir().expect("a directory"), free());
    let server = Process::start(
        directory.path(),
        &["--udp-bind", &to, "--udp-database", "other", "--udp-precision", "s"],
    );
    send_datagrams(&to, ["m v=1 1", "m s=\"without an end", "m v=2 2\nm v=\nm v=3 3\n", "\u{0}\u{1}"]);
    let written = || input_metric(&server, "points_written", "input=\"udp\"");
    let unreadable = || input_metric(&server, "rejected", "input=\"udp\",reason=\"unreadable\"");
    wait_until("three points and three lines", || written() == 3 && unreadable() == 3);
    let stored = rows(&server, "other", "SELECT v FROM m");
    let seconds = 1_000_000_000_i64;
    assert_eq!(
        stored["series"][0]["values"],
        serde_json::json!([[seconds, 1], [2 * seconds, 2], [3 * seconds, 3]])
    );
    assert_eq!(input_metric(&server, "received", "input=\"udp\""), 4);
    // Another type than the field has: a point that is refused.
    send_datagrams(&to, ["m v=\"text\" 4", "m v=5 5"]);
    let refused = || input_metric(&server, "rejected", "input=\"udp\",reason=\"refused\"");
    wait_until("a refused point and one more", || refused() == 1 && written() == 4);
}

#[test]
fn points_without_a_time_do_not_replace_each_other() {
    let (directory, to) = (tempfile::tempdir().expect("a directory"), free());
    let server = Process::start(directory.path(), &["--udp-bind", &to]);
    send_datagrams(&to, (0..100).map(|number| format!("m v={number}")));
    wait_until("all points", || input_metric(&server, "points_written", "input=\"udp\"") == 100);
    assert_eq!(rows(&server, "udp", "SELECT count(v) FROM m")["series"][0]["values"][0][1], 100);
}

#[test]
fn what_was_received_is_stored_at_the_stop() {
    let (directory, to) = (tempfile::tempdir().expect("a directory"), free());
    let server = Process::start(directory.path(), &["--udp-bind", &to]);
    send_datagrams(&to, ["m v=1 1"]);
    assert!(server.stop().success());
    let server = Process::start(directory.path(), &[]);
    assert_eq!(rows(&server, "udp", "SELECT count(v) FROM m")["series"][0]["values"][0][1], 1);
}

#[test]
fn the_world_is_not_listened_to_by_accident() {
    let refused = |arguments: &[&str]| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_nyala")).arg("config").args(arguments).output();
        String::from_utf8_lossy(&output.expect("it runs").stderr).into_owned()
    };
    let words = refused(&["--udp-bind", ":8089"]);
    assert!(words.contains("udp-bind 0.0.0.0:8089 is reachable from other machines"), "{words}");
    let words = refused(&["--udp-bind", ":8089", "--auth-enabled"]);
    assert!(words.contains("has no authentication"), "users do not log in there: {words}");
    assert_eq!(refused(&["--udp-bind", ":8089", "--allow-unauthenticated"]), "");
    let words = refused(&["--udp-bind", "127.0.0.1:8089", "--udp-precision", "d"]);
    assert!(words.contains("udp-precision \"d\""), "{words}");
}
