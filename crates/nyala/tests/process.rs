//! What an operator may see: a start, a second start, a full disk, full memory, damage. All through the real program
//! over HTTP.

#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "support/small_disk.rs"]
mod small_disk;

use client::Response;
use process::Process;
use small_disk::SmallDisk;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// The longest wait for what takes a moment on an idle machine.
const WAIT: Duration = Duration::from_secs(180);

fn body(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// Rows of one measurement, one second apart, in a batch that carries its own number.
fn batch(measurement: &str, number: i64, rows: i64, padding: usize) -> String {
    let text = "x".repeat(padding);
    let mut lines = String::new();
    for row in 0..rows {
        let time = (number * rows + row) * 1_000_000_000;
        writeln!(lines, "{measurement},host=h{} batch={number}i,text=\"{row}{text}\" {time}", row % 10)
            .expect("writing to memory does not fail");
    }
    lines
}

/// Checks a refusal that asks the client to retry: 503 with `Retry-After`.
fn assert_refused(response: &Response) {
    assert_eq!(response.status, 503, "{}", body(response));
    let wait = response.header("Retry-After").and_then(|wait| wait.parse::<u32>().ok());
    assert!(wait.is_some_and(|wait| wait > 0), "no Retry-After");
    assert!(body(response).contains("\"error\":"), "{}", body(response));
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < WAIT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_server_listens_at_once_and_says_that_it_recovers() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let mut server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    for number in 0..40 {
        assert_eq!(server.write(&batch("cpu", number, 5000, 10)).status, 204);
    }
    // The log is replayed at every start. On a busy machine one may be over before this test can look.
    let mut seen = Vec::new();
    let is_seen = |seen: &[String]| seen.iter().any(|words| words.contains("of the log replayed"));
    for _ in 0..20 {
        server.kill();
        server = Process::spawn(&data_dir, &[]);
        watch_recovery(&server, &mut seen);
        if is_seen(&seen) {
            break;
        }
    }
    assert!(is_seen(&seen), "{seen:?}");
    assert_eq!(server.number("SELECT count(batch) FROM cpu WHERE time >= 0 AND time < 300000s"), 200_000);
}

/// Asks a server that starts until it is ready. Adds what it says of its health until then.
fn watch_recovery(server: &Process, seen: &mut Vec<String>) {
    wait_until("it listens", || server.status("/ping") == 204);
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < WAIT, "it is not ready: {seen:?}");
        let health = server.send("GET", "/health", b"").expect("an answer");
        if health.status == 200 {
            break;
        }
        assert_eq!(health.status, 503);
        seen.push(body(&health));
        assert_eq!(server.status("/ping"), 204);
        let ready = server.status("/ready");
        assert!(ready == 503 || ready == 200);
        for refused in [
            server.write("cpu v=1 1"),
            server.send("GET", "/query?db=d&q=SHOW+MEASUREMENTS", b"").expect("an answer"),
        ] {
            // It may have become ready meanwhile.
            if refused.status == 503 {
                assert_refused(&refused);
            }
        }
    }
}

#[test]
fn a_second_process_on_the_directory_does_not_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    let mut second = Process::spawn(&data_dir, &[]);
    assert_eq!(second.wait().code(), Some(1));
    let said = second.log();
    assert!(said.contains("in use by another process") && said.contains("data"), "{said}");
    let checked = check(&data_dir);
    assert_eq!(checked.0, Some(2), "{}", checked.1);
    assert_eq!(server.status("/health"), 200, "the first one goes on");
    assert!(server.stop().success());
}

/// Runs `nyala check --json`: its exit code and output.
fn check(data_dir: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["check", "--json"])
        .arg(data_dir)
        .output()
        .expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk"), 24) else { return };
    let data_dir = disk.0.join("data");
    let server = Process::start(&data_dir, &["--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE d");
    // The log fills the disk: so little space is left that the log is full before the memtable is.
    let mut others = std::fs::File::create(disk.0.join("others")).expect("a file");
    others.write_all(&vec![1; 18 << 20]).expect("there is room");
    let mut acknowledged = 0;
    let refused = loop {
        let response = server.write(&batch("cpu", acknowledged, 500, 200));
        if response.status != 204 {
            break response;
        }
        acknowledged += 1;
        assert!(acknowledged < 2000, "the disk does not fill");
    };
    assert_refused(&refused);
    // Without a free byte, a flush cannot help either. One that had begun may have made room meanwhile.
    let mut refusals = 0;
    while refusals < 5 {
        while others.write_all(&[1; 512]).is_ok() {}
        let response = server.write(&batch("cpu", acknowledged, 500, 200));
        if response.status == 204 {
            (acknowledged, refusals) = (acknowledged + 1, 0);
            assert!(acknowledged < 2000, "the disk does not fill");
            continue;
        }
        assert_refused(&response);
        refusals += 1;
    }
    // Writes are refused again and again, also to tables and shards that do not exist yet, and nothing of them is
    // stored.
    for _ in 0..5 {
        assert_refused(&server.write(&batch("cpu", acknowledged, 500, 200)));
        assert_refused(&server.write("fresh v=1 1000"));
    }
    let stored = |server: &Process| server.number("SELECT count(batch) FROM cpu");
    assert_eq!(stored(&server), acknowledged * 500, "queries are answered, and nothing is half-stored");
    assert_eq!(server.number("SELECT count(v) FROM fresh"), 0);
    // Health and metrics show it, and queries are answered.
    let health = server.send("GET", "/health", b"").expect("an answer");
    assert!(health.status == 503 && body(&health).contains("writes are not taken"), "{}", body(&health));
    assert_eq!(server.status("/ready"), 200);
    let grown = Command::new("mount").args(["-o", "remount,size=96m"]).arg(&disk.0).status();
    assert!(grown.expect("mount runs").success());
    wait_until("writes are accepted again", || {
        server.write(&batch("cpu", acknowledged, 500, 200)).status == 204
    });
    wait_until("new tables too", || server.write("fresh v=1 1000").status == 204);
    assert_eq!(stored(&server), (acknowledged + 1) * 500);
    assert!(server.stop().success());
    assert_eq!(check(&data_dir).0, Some(0), "{}", check(&data_dir).1);
    let server = Process::start(&data_dir, &["--memory-limit", "64MiB"]);
    assert_eq!(stored(&server), (acknowledged + 1) * 500);
    assert_eq!(server.number("SELECT count(v) FROM fresh"), 1);
    drop(server);
}

#[test]
fn dropping_a_database_works_on_a_full_disk_and_makes_room() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk"), 24) else { return };
    let data_dir = disk.0.join("data");
    let server = Process::start(&data_dir, &["--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE d");
    server.query("CREATE RETENTION POLICY p ON d DURATION INF REPLICATION 1");
    let of_policy = server.send("POST", "/write?db=d&rp=p", b"kept v=1 1").expect("an answer");
    assert_eq!(of_policy.status, 204);
    for number in 0..20 {
        assert_eq!(server.write(&batch("old", number, 500, 200)).status, 204);
    }
    assert!(server.stop().success(), "what was written is in rowsets then");
    let server = Process::start(&data_dir, &["--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE other");
    let write =
        |lines: &str| server.send("POST", "/write?db=other", lines.as_bytes()).expect("an answer").status;
    // The log fills the disk: so little space is left that the log is full before the memtable is.
    let mut file = std::fs::File::create(disk.0.join("somebody")).expect("a file");
    file.write_all(&vec![1; 16 << 20]).expect("there is room");
    let written = (0..2_000).take_while(|number| write(&batch("cpu", *number, 500, 200)) == 204).count();
    assert!(written < 2_000, "the disk does not fill");
    // Another file takes the last bytes.
    while file.write_all(&[1; 512]).is_ok() {}
    for statement in [
        "DROP SERIES FROM old WHERE host = 'h1'",
        "DELETE FROM old WHERE host = 'h2'",
        "DROP MEASUREMENT old",
        "ALTER RETENTION POLICY p ON d DURATION 52w SHARD DURATION 2d",
        "DROP RETENTION POLICY p ON d",
        "DROP DATABASE d",
        "CREATE DATABASE d",
    ] {
        let answer = server.query(statement);
        assert_eq!(answer["results"][0].get("error"), None, "{statement}: {answer}");
    }
    drop(file);
    std::fs::remove_file(disk.0.join("somebody")).expect("removed");
    wait_until("points are accepted again", || server.write(&batch("new", 0, 10, 10)).status == 204);
    assert_eq!(server.number("SELECT count(batch) FROM new"), 10);
    assert_eq!(server.number("SELECT count(batch) FROM old"), 0);
    assert!(server.stop().success());
    assert_eq!(check(&data_dir).0, Some(0), "{}", check(&data_dir).1);
}

#[test]
fn full_memory_refuses_writes_until_it_is_flushed() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &["--memory-limit", "64MiB"]);
    server.query("CREATE DATABASE d");
    let (next, stored, refused) = (AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    let rows = 20_000;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    // On a busy machine it may take more of them until so many come at once that they have no room.
                    let most = if refused.load(Ordering::Relaxed) > 0 { 48 } else { 480 };
                    if number >= most {
                        break;
                    }
                    let lines = batch("cpu", number, rows, 300);
                    let response = server.write(&lines);
                    match response.status {
                        204 => drop(stored.fetch_add(1, Ordering::Relaxed)),
                        _ => {
                            assert_refused(&response);
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let stored = stored.into_inner();
    assert!(refused.into_inner() > 0, "memory never was full: {stored} batches of 7 MB were stored");
    wait_until("writes are accepted again", || server.write("other v=1 1").status == 204);
    assert_eq!(server.number("SELECT count(batch) FROM cpu"), stored * rows, "whole batches only");
    server.assert_within_memory_limit(64);
}

#[test]
fn damage_affects_only_the_damaged_block_and_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    for number in 0..3 {
        assert_eq!(server.write(&batch("large", number, 5000, 20)).status, 204);
        assert_eq!(server.write(&batch("small", number, 50, 20)).status, 204);
    }
    assert!(server.stop().success());
    assert_eq!(check(&data_dir).0, Some(0), "{}", check(&data_dir).1);
    let rowsets = std::fs::read_dir(data_dir.join("rowsets")).expect("listed");
    let length = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let largest = rowsets.map(|entry| entry.expect("an entry").path()).max_by_key(length).expect("a rowset");
    let mut bytes = std::fs::read(&largest).expect("read");
    bytes[40] ^= 4;
    std::fs::write(&largest, bytes).expect("written");
    let name = largest.file_name().expect("a name").to_string_lossy().into_owned();
    let (code, said) = check(&data_dir);
    assert_eq!(code, Some(1));
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert!(said["damage"][0]["file"].as_str().is_some_and(|file| file.ends_with(&name)), "{said}");
    assert!(said["damage"][0]["message"].as_str().is_some_and(|words| words.contains("large")), "{said}");
    let server = Process::start(&data_dir, &[]);
    assert_eq!(server.number("SELECT count(batch) FROM small"), 150);
    let hit = server.send("GET", "/query?db=d&q=SELECT+*+FROM+large", b"");
    // The answer names the damage or is aborted; it is never complete without the rows.
    let named = hit.as_ref().is_ok_and(|response| body(response).contains(&name));
    assert!(named || hit.is_err(), "{:?}", hit.map(|response| body(&response)));
    assert_eq!(server.write("large batch=1i 1").status, 204, "writes go on");
    assert!(server.stop().success());
}

#[test]
fn rows_can_be_read_despite_damaged_records_of_databases() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(&batch("m", 0, 5000, 20)).status, 204);
    assert!(server.stop().success());
    let mut rowsets = std::fs::read_dir(data_dir.join("rowsets")).expect("listed");
    let of_databases = |path: PathBuf| {
        let (bytes, name) = (std::fs::read(&path).expect("read"), b"nyala.databases");
        bytes.windows(name.len()).any(|window| window == name).then_some((path, bytes))
    };
    let (path, mut bytes) = rowsets
        .find_map(|entry| of_databases(entry.expect("an entry").path()))
        .expect("a rowset of databases");
    bytes[40] ^= 4;
    std::fs::write(&path, bytes).expect("written");
    let (code, said) = check(&data_dir);
    assert_eq!(code, Some(1));
    assert!(said.contains("nyala.databases"), "{said}");
    let server = Process::start(&data_dir, &[]);
    assert_eq!(server.number("SELECT count(batch) FROM m"), 5000);
    assert_eq!(server.write("m batch=1i 1").status, 204, "writes go on");
    let shown = server.query("SHOW RETENTION POLICIES ON d");
    assert_eq!(shown["results"][0]["series"][0]["values"][0][0], "autogen", "{shown}");
    assert!(server.stop().success());
}

#[test]
fn a_policy_can_refuse_points_too_far_from_now() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE d WITH DURATION 10h FUTURE LIMIT 1h PAST LIMIT 2h NAME p");
    let now_ns =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later").as_nanos();
    let at = |minutes: i64| format!("m v={minutes}i {}", now_ns as i64 + minutes * 60_000_000_000);
    for (minutes, status) in [(0, 204), (55, 204), (-110, 204), (70, 400), (-130, 400)] {
        let answer = server.write(&at(minutes));
        assert_eq!(answer.status, status, "{minutes}: {}", body(&answer));
        assert!(status == 204 || body(&answer).contains("points beyond retention policy dropped=1"));
    }
    assert_eq!(server.number("SELECT count(v) FROM m"), 3);
    server.query("ALTER RETENTION POLICY p ON d FUTURE LIMIT 2h");
    assert_eq!(server.write(&at(70)).status, 204);
    let shown = server.query("SHOW RETENTION POLICIES");
    let shown = &shown["results"][0]["series"][0];
    assert_eq!(shown["columns"][4], "futureWriteLimit", "{shown}");
    assert_eq!((&shown["values"][0][4], &shown["values"][0][5]), (&"2h0m0s".into(), &"2h0m0s".into()));
}

#[test]
fn a_unix_socket_is_served_and_removed_at_the_end() {
    use std::os::unix::net::UnixStream;
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("nyala.sock");
    let arguments = ["--bind-socket", socket.to_str().expect("UTF-8")];
    let mut server = Process::start(&directory.path().join("data"), &arguments);
    let ping = || {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream
            .write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    assert!(ping().starts_with("HTTP/1.1 204"), "{}", ping());
    let mut second = Process::spawn(&directory.path().join("other"), &arguments);
    assert!(!second.wait().success() && second.log().contains("nyala.sock"), "{}", second.log());
    server.kill();
    let server = Process::start(&directory.path().join("data"), &arguments);
    assert!(ping().starts_with("HTTP/1.1 204"));
    assert!(server.stop().success());
    assert!(!socket.exists());
}

#[test]
fn a_client_that_still_sends_gets_the_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    for (target, status, words) in [
        ("/write?db=nowhere", 404, "database not found"),
        ("/api/v2/write?bucket=nowhere/autogen", 404, "database not found"),
        ("/api/v1/prom/write?db=nowhere", 404, "database not found"),
        ("/api/v2/delete?bucket=/", 404, "has an empty database"),
        ("/query?u=nobody&p=x", 400, "missing required parameter"),
        ("/nowhere", 404, "404 page not found"),
        ("/metrics", 405, "Method Not Allowed"),
    ] {
        for attempt in 1.. {
            let begun = Instant::now();
            let answers = send_in_parts(&server, target).unwrap_or_else(|error| error.to_string());
            let is_refused = answers.starts_with(&format!("HTTP/1.1 {status}")) && answers.contains(words);
            if is_refused && answers.contains("HTTP/1.1 204") {
                break;
            }
            // A client that stood still for longer than the server goes on reading tries again.
            assert!(begun.elapsed() >= DISCARD_TIMEOUT && attempt < 20, "{target}: {answers}");
        }
    }
}

/// How long a server goes on reading a body that it has refused.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends like Telegraf: first the header, then the body in parts. Then another request by the same connection. Returns all
/// answers.
fn send_in_parts(server: &Process, target: &str) -> std::io::Result<String> {
    let mut stream = std::net::TcpStream::connect(server.address)?;
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    for piece in [&b"6\r\nm v=1\n\r\n"[..], b"6\r\nm v=2\n\r\n", b"0\r\n\r\n"] {
        std::thread::sleep(Duration::from_millis(60));
        stream.write_all(piece)?;
    }
    stream.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    Ok(answers)
}
