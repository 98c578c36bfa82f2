//! Lines of Graphite, by TCP and by UDP.

use super::compared::same_rows;
use super::process::Process;
use super::{free, input_metric, rows, send_datagrams, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

const LINES: &str = "servers.a.cpu.load 11 1435077219
servers.b.cpu.load 12.5 1435077219.25
eu.west.host1.disk.used 3e3 1435077220
eu.west.host1.disk 4 1435077220
stats.counters.hits.count 5 1435077221
nothing.here NaN 1435077221
broken line
alone 1 1435077222
a..b.c 2 1435077223
stats.counters.rate -7 -1000000.5
";

const TEMPLATES: &str = "servers.* .host.measurement*;eu.* region.region.host.measurement.field*;\
                         stats.*.* .kind.measurement.field source=statsd;*.*.b measurement*";

#[test]
fn lines_are_stored_as_influxdb_stores_them() {
    same_rows(
        "graphite",
        "graphite",
        &[("graphite-bind", "ADDRESS"), ("graphite-templates", TEMPLATES), ("graphite-separator", "_")],
        r#"[[graphite]]
enabled = true
bind-address = "ADDRESS"
separator = "_"
templates = [
  "servers.* .host.measurement*",
  "eu.* region.region.host.measurement.field*",
  "stats.*.* .kind.measurement.field source=statsd",
  "*.*.b measurement*",
]
"#,
        |to| TcpStream::connect(to).expect("connected").write_all(LINES.as_bytes()).expect("sent"),
    );
}

#[test]
fn what_is_no_point_is_counted_and_a_long_line_ends_nothing() {
    let (directory, to) = (tempfile::tempdir().expect("a directory"), free());
    let server = Process::start(directory.path(), &["--graphite-bind", &to]);
    let mut stream = TcpStream::connect(&to).expect("connected");
    let long = "x".repeat(200_000);
    stream.write_all(format!("a 1 1\n{long}\nb NaN 1\nc x 1\nd 2 ").as_bytes()).expect("sent");
    stream.write_all(b"2\nnot ended 3").expect("sent");
    drop(stream);
    send_datagrams(&to, ["e 3 3\nf 4 4\n", "g 5"]);
    let written = || input_metric(&server, "points_written", "input=\"graphite\"");
    let rejected =
        |reason: &str| input_metric(&server, "rejected", &format!("input=\"graphite\",reason=\"{reason}\""));
    // The line without an end is rejected when its connection ends.
    wait_until("five points and two lines", || written() == 5 && rejected("unreadable") == 2);
    assert_eq!((rejected("too_long"), rejected("not_a_number")), (1, 1));
    assert_eq!(rows(&server, "graphite", "SELECT value FROM d")["series"][0]["values"][0][1], 2);
    // The same without an end is one line, too.
    let mut stream = TcpStream::connect(&to).expect("connected");
    stream.write_all(format!("a 1 1\n{long}").as_bytes()).expect("sent");
    stream.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(stream.read(&mut [0]).expect("the server closes it"), 0);
    assert_eq!((rejected("too_long"), rejected("unreadable")), (2, 2));
    wait_until("six points", || written() == 6);
    // A browser that was told to send lines to this machine.
    let mut browser = TcpStream::connect(&to).expect("connected");
    browser.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nevil 1 1\n").expect("sent");
    wait_until("it is refused", || rejected("unreadable") == 3);
    assert_eq!(written(), 6);
}
