//! Whatever is killed, earlier backups stay whole, and the next one works.

use super::command::{backup, listed, nyala, nyala_fails, restore, url};
use super::process::Process;
use super::{check_whole, values, write_beside};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn spawn(server: &Process, backups: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command.args(["backup", "--copy", "--url", &url(server)]).arg(backups);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
}

/// Enough that a backup takes a while.
pub(crate) fn fill(server: &Process) {
    server.query("CREATE DATABASE d");
    let mut state = 7_u64;
    for day in 0..60 {
        let mut text = String::new();
        for row in 0..1500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("f,h={} v={}i {}\n", row % 10, state as i64, day * 700_000 + row));
        }
        let response = server.send("POST", "/write?db=d&precision=s", text.as_bytes()).expect("an answer");
        assert_eq!(response.status, 204);
    }
}

#[test]
fn a_killed_command_harms_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let path = backups.to_str().expect("a path");
    let server = Process::start(&data, &[]);
    fill(&server);
    let first = backup(&server, &backups, &[]);
    let begun = Instant::now();
    assert_eq!(server.write("f v=1i 1").status, 204);
    backup(&server, &backups, &["--copy"]);
    let usual = begun.elapsed();
    let (mut kills, mut finished) = (0, 0);
    for number in 0..14_u32 {
        // Something is new each time.
        assert_eq!(server.write(&format!("f,h=x v={number}i {number}000000000000000")).status, 204);
        let mut child = spawn(&server, &backups);
        std::thread::sleep(usual * number / 14);
        let _ = child.kill();
        let succeeded = child.wait().expect("gone").success();
        let listed = listed(&backups);
        assert_eq!(listed[0].name, first);
        // One that is killed after its list was written is whole.
        match listed.len() - 2 - finished {
            0 if !succeeded => kills += 1,
            1 => finished += 1,
            _ => panic!("{} backups after {finished} and {number}", listed.len()),
        }
        nyala(&["backup", "verify", path]);
    }
    assert!(kills > 3, "only {kills} were killed");
    // The server may wait a moment for the last one to read its copy.
    let until = Instant::now() + Duration::from_secs(120);
    let last = loop {
        let mut child = spawn(&server, &backups);
        if child.wait().expect("gone").success() {
            break listed(&backups).pop().expect("a backup").name;
        }
        assert!(Instant::now() < until, "no backup can be made any more: {}", server.log());
        std::thread::sleep(Duration::from_millis(500));
    };
    nyala(&["backup", "verify", path]);
    let restored = dir.path().join("restored");
    restore(&backups, &restored, &["--backup", &last]);
    let expected = server.query("SELECT * FROM f");
    drop(server);
    assert_eq!(Process::start(&restored, &[]).query("SELECT * FROM f"), expected);
    // Of those that were not finished nothing is left.
    let names =
        std::fs::read_dir(&backups).expect("is there").map(|entry| entry.expect("an entry").file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("unfinished")));
}

#[test]
fn a_killed_server_harms_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let path = backups.to_str().expect("a path");
    let mut server = Process::start(&data, &[]);
    fill(&server);
    backup(&server, &backups, &["--copy"]);
    for number in 0..8_u64 {
        let (before, after, child_succeeded) = write_beside(&server, |acknowledged| {
            std::thread::sleep(Duration::from_millis(50));
            let before = values(acknowledged);
            let mut child = spawn(&server, &backups);
            std::thread::sleep(Duration::from_millis(number * 25));
            server.kill_9();
            let succeeded = child.wait().expect("gone").success();
            (before, values(acknowledged), succeeded)
        });
        server = {
            drop(server);
            Process::start(&data, &[])
        };
        nyala(&["backup", "verify", path]);
        check_whole(&server, &before, &after);
        if child_succeeded {
            let restored = dir.path().join(format!("restored-{number}"));
            restore(&backups, &restored, &[]);
            check_whole(&Process::start(&restored, &[]), &before, &after);
        }
        // What was kept for a backup that nobody makes any more is removed at the start.
        let until = Instant::now() + Duration::from_secs(120);
        while std::fs::read_dir(data.join("copies")).map_or(0, Iterator::count) > 0 {
            assert!(Instant::now() < until, "a copy is left: {}", server.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        server.query("DROP MEASUREMENT m");
        server.query("DROP MEASUREMENT n");
    }
    backup(&server, &backups, &["--copy"]);
    nyala(&["backup", "verify", path]);
}

#[test]
fn there_is_one_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    backup(&server, &backups, &[]);
    // As another command does that has the directory of backups open.
    let lock = std::fs::File::open(backups.join("LOCK")).expect("is there");
    lock.lock().expect("is free");
    let (url, path) = (url(&server), backups.to_str().expect("a path"));
    nyala_fails(&["backup", "--url", &url, path], "changes the backups");
    nyala_fails(&["backup", "prune", "--keep", "1", path], "changes the backups");
    nyala(&["backup", "list", path]);
    drop(lock);
    // As another command does that reads the copy of the server.
    let response = server.send("POST", "/api/backup", b"").expect("an answer");
    assert_eq!(response.status, 201);
    let made: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    let name = made["name"].as_str().expect("a name");
    let lease = std::fs::File::open(data.join("copies").join(format!("{name}.lease"))).expect("is there");
    lease.lock().expect("is free");
    nyala_fails(&["backup", "--url", &url, path], "under way already");
    let target = format!("/api/backup?name={name}");
    assert_eq!(server.send("DELETE", &target, b"").expect("an answer").status, 204);
    // Earlier, the server might have removed it itself.
    drop(lease);
    assert_eq!(server.send("DELETE", &target, b"").expect("an answer").status, 404);
    backup(&server, &backups, &[]);
}
