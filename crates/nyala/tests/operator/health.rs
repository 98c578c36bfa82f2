//! Health: which problems fail, which are only warnings, and that health passes again.

use crate::process::Process;
use crate::small_disk::SmallDisk;
use crate::{send_with, text};
use std::time::{Duration, Instant};

/// The status and body of `/health`.
fn health(server: &Process) -> (u16, serde_json::Value) {
    let answer = send_with(server, "GET", "/health", &[]);
    (answer.status, serde_json::from_slice(&answer.body).expect("JSON"))
}

fn wait_for(what: &str, server: &Process, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}: {} {}", health(server).1, server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn checked(health: &serde_json::Value, name: &str) -> Option<String> {
    let checks = health["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == name)?;
    Some(check["status"].as_str().expect("a status").to_owned())
}

fn is_well(health: &(u16, serde_json::Value)) -> bool {
    let (status, body) = health;
    *status == 200
        && body["checks"].as_array().is_some_and(Vec::is_empty)
        && body["message"] == "ready for queries and writes"
}

fn rows(first: i64) -> String {
    (first..first + 5000).map(|row| format!("m,h=h{} v={row}i {row}\n", row % 10)).collect()
}

#[test]
fn a_flush_that_fails_is_named_until_one_succeeds() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &["--wal-limit", "1MiB"]);
    server.query("CREATE DATABASE d");
    assert!(is_well(&health(&server)), "{:?}", health(&server));
    assert_eq!(server.metric("nyala_health{check=\"flush\"}"), 0);
    let (rowsets, away) = (data_dir.join("rowsets"), directory.path().join("away"));
    std::fs::rename(&rowsets, &away).expect("renamed");
    let mut written = 0;
    wait_for("it fails", &server, || {
        assert_eq!(server.write(&rows(written)).status, 204);
        written += 5000;
        health(&server).0 == 503
    });
    let (_, body) = health(&server);
    assert_eq!(
        (checked(&body, "flush").as_deref(), &body["status"]),
        (Some("fail"), &"fail".into()),
        "{body}"
    );
    assert!(body["message"].as_str().is_some_and(|words| words.contains("stays in memory")), "{body}");
    assert!(server.metric("nyala_flush_failures_total") > 0);
    assert_eq!(server.metric("nyala_health{check=\"flush\"}"), 2);
    // Requests are still answered, and a load balancer may know that.
    assert_eq!(server.status("/ready"), 200);
    assert_eq!(server.number("SELECT count(v) FROM m"), written);
    wait_for("it is logged", &server, || server.log().contains("health: fails check=\"flush\""));
    std::fs::rename(&away, &rowsets).expect("renamed");
    wait_for("it passes again", &server, || is_well(&health(&server)));
    wait_for("that is logged", &server, || server.log().contains("health: is well again check=\"flush\""));
    assert_eq!(server.number("SELECT count(v) FROM m"), written);
}

#[test]
fn a_catalogue_that_cannot_be_written_is_named_until_it_can() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m,h=a v=1i 1").status, 204);
    assert!(is_well(&health(&server)), "{:?}", health(&server));
    // The next manifest cannot be begun.
    let next = data_dir.join("manifest.new");
    std::fs::create_dir(&next).expect("made");
    let is_refused = (0_usize..10_000).find(|number| {
        let status = server.write(&format!("new{number} v=1i 1")).status;
        assert!([204, 503].contains(&status), "{status}");
        status == 503
    });
    let made = is_refused.expect("the manifest is full at some time");
    wait_for("it fails", &server, || health(&server).0 == 503);
    let (_, body) = health(&server);
    assert_eq!(checked(&body, "catalog").as_deref(), Some("fail"), "{body}");
    assert_eq!(server.metric("nyala_health{check=\"catalog\"}"), 2);
    assert!(server.metric("nyala_catalog_failures_total") > 0);
    // What needs no new measurement is stored.
    assert_eq!(server.write("m,h=a v=2i 2").status, 204);
    assert_eq!(server.number("SELECT count(v) FROM m"), 2);
    std::fs::remove_dir(&next).expect("removed");
    wait_for("it passes again", &server, || is_well(&health(&server)));
    assert_eq!(server.write(&format!("new{made} v=1i 1")).status, 204);
    let measurements = server.query("SHOW MEASUREMENTS").to_string();
    assert_eq!(measurements.matches("new").count(), made + 1, "{measurements}");
}

#[test]
fn a_disk_that_is_nearly_full_is_a_warning_and_one_that_is_full_fails() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&directory.path().join("disk"), 64) else { return };
    let server = Process::start(&disk.0.join("data"), &["--wal-limit", "4MiB"]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(&rows(0)).status, 204);
    assert!(is_well(&health(&server)), "{:?}", health(&server));
    let free = || server.metric("nyala_disk_free_bytes");
    let foreign = disk.0.join("foreign");
    wait_for("the disk is looked at", &server, || server.metric("nyala_disk_bytes") == 64 << 20);
    std::fs::write(&foreign, vec![1; free() as usize - (3 << 20)]).expect("it fits");
    wait_for("it warns", &server, || checked(&health(&server).1, "disk").is_some());
    let (status, body) = health(&server);
    assert_eq!(
        (status, checked(&body, "disk").as_deref(), &body["status"]),
        (200, Some("warn"), &"pass".into()),
        "{body}"
    );
    assert!(body["message"].as_str().is_some_and(|words| words.contains("nearly full")), "{body}");
    assert_eq!(server.metric("nyala_health{check=\"disk\"}"), 1);
    // Now the disk is full.
    let rest = std::fs::File::options().append(true).open(&foreign).expect("opened");
    while std::io::Write::write(&mut &rest, &[1; 4096]).is_ok() {}
    drop(rest);
    let mut written = 5000;
    wait_for("it fails", &server, || {
        let status = server.write(&rows(written)).status;
        written += if status == 204 { 5000 } else { 0 };
        health(&server).0 == 503
    });
    assert_eq!(server.status("/ready"), 200);
    assert_eq!(server.number("SELECT count(v) FROM m"), written);
    let (_, body) = health(&server);
    assert!(
        body["status"] == "fail" && body["message"].as_str().is_some_and(|words| !words.contains("ready")),
        "{body}"
    );
    std::fs::remove_file(&foreign).expect("removed");
    wait_for("it passes again", &server, || is_well(&health(&server)));
    assert_eq!(server.write(&rows(written)).status, 204);
    let metrics = text(&send_with(&server, "GET", "/metrics", &[]));
    assert!(metrics.contains("nyala_recovery_damaged_places 0"), "{metrics}");
}
