//! Subscriptions: points reach subscribers, and a destination that does not accept them delays nobody. Answers to
//! statements are in `testdata/influx/subscriptions.script`.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use process::Process;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(120);
/// So long a server waits for a destination that does not answer.
const DESTINATION_TIMEOUT: Duration = Duration::from_secs(30);

/// A destination that returns header and body of each request, and answers with a status.
fn destination(status: u16) -> (SocketAddr, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut read = Vec::new();
                let mut piece = [0; 1 << 16];
                loop {
                    let text = String::from_utf8_lossy(&read).into_owned();
                    let whole = text.split_once("\r\n\r\n").and_then(|(head, body)| {
                        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
                        let length: usize = length.parse().ok()?;
                        (body.len() >= length).then(|| (head.to_owned(), body[..length].to_owned()))
                    });
                    if let Some(request) = whole {
                        read.clear();
                        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                        if sender.send(request).is_err() || stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                    match stream.read(&mut piece) {
                        Ok(0) | Err(_) => return,
                        Ok(length) => read.extend_from_slice(&piece[..length]),
                    }
                }
            });
        }
    });
    (address, requests)
}

/// The next lines that a destination receives.
fn lines(requests: &Receiver<(String, String)>, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        let (_, body) = requests.recv_timeout(WAIT).expect("points come");
        all.extend(body.lines().map(str::to_owned));
    }
    all
}

fn ok(answer: &Value) {
    assert!(!answer.to_string().contains("error"), "{answer}");
}

/// A count of `subscriber` in /debug/vars.
fn count(server: &Process, name: &str) -> u64 {
    let vars = server.send("GET", "/debug/vars", b"").expect("an answer");
    let vars: Value = serde_json::from_slice(&vars.body).expect("JSON");
    vars["subscriber"]["values"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {vars}"))
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn points_go_to_all_or_to_one_in_turn_also_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    let (http, requests) = destination(204);
    let (second, of_second) = destination(200);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    udp.set_read_timeout(Some(WAIT)).expect("a timeout");
    let udp_address = udp.local_addr().expect("bound");
    ok(&server.query("CREATE DATABASE d"));
    ok(&server.query("CREATE RETENTION POLICY r ON d DURATION INF REPLICATION 1"));
    ok(&server.query(&format!(
        "CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'http://us:p%40ss@{http}/a/', 'udp://{udp_address}'"
    )));
    let body = b"m,h=a v=1,s=\"x\ny\" 5\nbroken\n\nm v=2 -7";
    let written = server.send("POST", "/write?db=d&precision=s", body).expect("an answer");
    assert_eq!(written.status, 400, "a line of it is broken");
    let (head, body) = requests.recv_timeout(WAIT).expect("points come");
    assert!(head.starts_with("POST /a/write?consistency=&db=d&precision=ns&rp=autogen HTTP/1.1"), "{head}");
    assert!(head.contains("authorization: Basic dXM6cEBzcw=="), "{head}");
    assert_eq!(body, "m,h=a v=1,s=\"x\ny\" 5000000000\nm v=2 -7000000000\n");
    let mut datagram = [0; 1000];
    for wanted in ["m,h=a v=1,s=\"x\ny\" 5000000000", "m v=2 -7000000000"] {
        let length = udp.recv(&mut datagram).expect("a point comes");
        assert_eq!(String::from_utf8_lossy(&datagram[..length]), wanted);
    }
    wait_for("both destinations are counted", || count(&server, "pointsWritten") == 4);
    let vars = server.send("GET", "/debug/vars", b"").expect("an answer").body;
    for shown in [server.query("SHOW STATS").to_string(), String::from_utf8_lossy(&vars).into_owned()] {
        assert!(shown.contains(&http.to_string()) && !shown.contains("p%40ss"), "{shown}");
    }

    // Points of other policies are not sent; points that queries write are.
    let other = server.send("POST", "/write?db=d&rp=r", b"m v=9 1").expect("an answer");
    assert_eq!(other.status, 204);
    ok(&server.query("SELECT v INTO copied FROM m WHERE time < 0"));
    assert_eq!(lines(&requests, 1), ["copied v=2.0 -7000000000"]);
    ok(&server.query("DROP SUBSCRIPTION s ON d.autogen"));
    ok(&server.query(&format!(
        "CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ANY 'http://{http}', 'http://{second}', 'http://127.0.0.1:1'"
    )));
    assert!(server.stop().success());
    let server = Process::start(&data_dir, &[]);
    for number in 0..6 {
        assert_eq!(server.write(&format!("m v={number} 1")).status, 204);
        // One after the other, because otherwise they would be sent together.
        wait_for("it is written", || count(&server, "pointsWritten") == number + 1);
    }
    let of_first = lines(&requests, 3);
    let of_second = lines(&of_second, 3);
    assert_eq!((of_first.len(), of_second.len()), (3, 3), "{of_first:?} {of_second:?}");
    assert_eq!(count(&server, "writeFailures"), 0, "another took what one did not");
    ok(&server.query("DROP RETENTION POLICY autogen ON d"));
    assert!(server.query("SHOW SUBSCRIPTIONS")["results"][0]["series"].is_null());
}

#[test]
fn destinations_that_accept_no_points_delay_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--memory-limit", "96MiB"]);
    // One destination never answers, one refuses, one works.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent_address = silent.local_addr().expect("bound");
    let (refusing, _refused) = destination(500);
    let (well, requests) = destination(204);
    let (beside_silent, requests_beside) = destination(204);
    ok(&server.query("CREATE DATABASE d"));
    for (name, address) in [("silent", silent_address), ("refusing", refusing), ("well", well)] {
        ok(&server
            .query(&format!("CREATE SUBSCRIPTION {name} ON d.autogen DESTINATIONS ALL 'http://{address}'")));
    }
    ok(&server.query(&format!(
        "CREATE SUBSCRIPTION both ON d.autogen DESTINATIONS ALL 'http://{silent_address}', 'http://{beside_silent}'"
    )));
    const ROUNDS: usize = 40;
    let text = "x".repeat(200);
    for round in 0..ROUNDS {
        let row = |row: usize| format!("m text=\"{text}\" {}\n", round * 1000 + row);
        let begun = Instant::now();
        assert_eq!(server.write(&(0..1000).map(row).collect::<String>()).status, 204);
        assert!(begun.elapsed() < DESTINATION_TIMEOUT, "a write waited");
        // The working ones keep up.
        lines(&requests, 1000);
        lines(&requests_beside, 1000);
    }
    wait_for("what had no room is counted", || count(&server, "pointsDropped") > 0);
    wait_for("what was refused is counted", || count(&server, "writeFailures") > 0);
    assert_eq!(server.number("SELECT count(text) FROM m"), ROUNDS as i64 * 1000);
    let stats = server.query("SHOW STATS FOR 'subscriber'");
    assert_eq!(stats["results"][0]["series"].as_array().map(Vec::len), Some(6), "{stats}");
    ok(&server.query("DROP SUBSCRIPTION silent ON d.autogen"));
    ok(&server.query("DROP DATABASE d"));
    wait_for("nothing is left of them", || {
        let stats = server.query("SHOW STATS FOR 'subscriber'");
        stats["results"][0]["series"].as_array().map(Vec::len) == Some(1)
    });
}

#[test]
fn long_requests_are_split_and_lines_too_long_for_a_datagram_are_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    let (http, requests) = destination(204);
    ok(&server.query("CREATE DATABASE d"));
    ok(&server.query(&format!("CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'http://{http}'")));
    const LINES: usize = 100_000;
    let body: String = (0..LINES).map(|second| format!("m v=1 {second}\n")).collect();
    let written = server.send("POST", "/write?db=d&precision=h", body.as_bytes()).expect("an answer");
    assert_eq!(written.status, 204);
    let mut came = Vec::new();
    while came.len() < LINES {
        let (_, body) = requests.recv_timeout(WAIT).expect("points come");
        assert!(body.len() <= 1 << 20, "{} bytes came together", body.len());
        came.extend(body.lines().map(str::to_owned));
    }
    assert_eq!(came.last().map(String::as_str), Some("m v=1 359996400000000000"));
    assert_eq!(came.len(), LINES);

    let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    udp.set_read_timeout(Some(WAIT)).expect("a timeout");
    let address = udp.local_addr().expect("bound");
    ok(&server.query("DROP SUBSCRIPTION s ON d.autogen"));
    ok(&server.query(&format!("CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'udp://{address}'")));
    assert_eq!(server.write(&format!("m s=\"{}\" 1\nm v=2 2", "x".repeat(65_500))).status, 204);
    let mut datagram = [0; 100];
    let length = udp.recv(&mut datagram).expect("the point behind the long one comes");
    assert_eq!(&datagram[..length], b"m v=2 2");
    wait_for("it is counted", || count(&server, "pointsDropped") == 1);
    assert_eq!(count(&server, "pointsWritten"), LINES as u64 + 1);
}
