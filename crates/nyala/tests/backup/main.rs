//! `nyala backup` and `nyala restore`, through the real program: with writers beside, killed at any moment, damaged by
//! somebody else.

mod buckets;
#[path = "../support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
mod command;
mod hostile;
mod killed;
mod kinds;
#[path = "../support/objects.rs"]
mod objects;
mod part;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "../support/small_disk.rs"]
mod small_disk;

use command::{backup, listed, nyala, nyala_fails, restore};
use process::Process;
use small_disk::SmallDisk;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Writes points of four writers until it is told to stop. Each request has a point in `m` and one in `n`, so what has one
/// of them without the other has half a request. `acknowledged` counts, for each writer, what was answered.
fn write_beside<T>(server: &Process, body: impl FnOnce(&[AtomicU64]) -> T) -> T {
    let acknowledged: [AtomicU64; 4] = Default::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (writer, count) in acknowledged.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                for number in 1.. {
                    let lines = format!("m,w={writer} v={number} {number}\nn,w={writer} v={number} {number}");
                    match server.send("POST", "/write?db=d", lines.as_bytes()) {
                        Ok(response) if response.status == 204 => count.store(number, Ordering::SeqCst),
                        _ if is_over.load(Ordering::SeqCst) => return,
                        _ => std::thread::sleep(Duration::from_millis(5)),
                    }
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
        let outcome = body(&acknowledged);
        is_over.store(true, Ordering::SeqCst);
        outcome
    })
}

fn values(acknowledged: &[AtomicU64]) -> Vec<i64> {
    acknowledged.iter().map(|count| count.load(Ordering::SeqCst) as i64).collect()
}

/// Checks that a restored store has all that was acknowledged before, no gap, and no half of a request.
fn check_whole(server: &Process, before: &[i64], after: &[i64]) {
    for (writer, (before, after)) in before.iter().zip(after).enumerate() {
        let of = |what: &str, measurement: &str| {
            server.number(&format!("SELECT {what}(v) FROM {measurement} WHERE w = '{writer}'"))
        };
        let counted = of("count", "m");
        assert!((before..=&(after + 1)).contains(&&counted), "{before} <= {counted} <= {after}");
        assert_eq!([of("max", "m"), of("count", "n"), of("max", "n")], [counted; 3], "of writer {writer}");
    }
}

#[test]
fn a_backup_has_everything_that_was_acknowledged_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    let mut moments = Vec::new();
    write_beside(&server, |acknowledged| {
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            let before = values(acknowledged);
            let name = backup(&server, &backups, &[]);
            moments.push((name, before, values(acknowledged)));
        }
    });
    nyala(&["backup", "verify", backups.to_str().expect("a path")]);
    for (number, (name, before, after)) in moments.iter().enumerate() {
        let restored = dir.path().join(format!("restored-{number}"));
        restore(&backups, &restored, &["--backup", name]);
        nyala(&["check", restored.to_str().expect("a path")]);
        let server = Process::start(&restored, &[]);
        check_whole(&server, before, after);
        // The restored store is written to as any other.
        assert_eq!(server.write("m,w=x v=1 1").status, 204);
        assert_eq!(server.number("SELECT count(v) FROM m WHERE w = 'x'"), 1);
    }
    // What the server kept for the backups is gone.
    assert_eq!(std::fs::read_dir(data.join("copies")).expect("is there").count(), 0);
    assert_eq!(server.metric("nyala_backups_total"), 4);
    assert_eq!(server.metric("nyala_backup_failures_total"), 0);
    assert!(server.metric("nyala_backup_last_bytes") > server.metric("nyala_backup_last_new_bytes"));
    assert!(server.metric("nyala_backup_last_time_seconds") > 1_700_000_000);
    assert!(server.log().contains("backup"), "the audit names it");
}

#[test]
fn a_later_backup_moves_only_what_is_new() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    // Values that hardly compress, each shard with as many.
    let mut state = 1_u64;
    let mut lines = |days: std::ops::Range<u64>, rows: u64| {
        for day in days {
            let mut text = String::new();
            for row in 0..rows {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let time = 1_600_000_000_000 + day * 7 * 86_400_000 + row * 1000;
                text.push_str(&format!("m,h={} v={}i {time}\n", row % 10, state as i64));
            }
            let response =
                server.send("POST", "/write?db=d&precision=ms", text.as_bytes()).expect("an answer");
            assert_eq!(response.status, 204);
        }
    };
    lines(0..100, 2000);
    // So that the space of the log and of the manifest is not what is measured.
    backup(&server, &backups, &["--copy"]);
    lines(100..101, 2000);
    backup(&server, &backups, &["--copy"]);
    backup(&server, &backups, &["--copy"]);
    let [first, second, third] = &listed(&backups)[..] else { panic!("three backups") };
    assert_eq!(first.bytes, first.new_bytes);
    let of_manifest = first.own_bytes(&backups);
    let moved = |backup: &command::Listed| backup.new_bytes - backup.own_bytes(&backups);
    assert!(first.bytes - of_manifest > 1 << 20, "{first:?}");
    assert!(moved(second) > 0 && moved(second) * 100 <= first.bytes * 3, "{second:?} after {first:?}");
    assert_eq!(moved(third), 0, "{third:?}");
    // The disk says the same.
    let shared: u64 = std::fs::read_dir(backups.join("files"))
        .expect("is there")
        .map(|entry| entry.expect("an entry").metadata().expect("a length").len())
        .sum();
    assert_eq!(shared, moved(first) + moved(second));
}

/// Never faster than it may be; how fast it is otherwise depends on the machine.
#[test]
fn a_rate_limit_holds_for_all_that_is_copied() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    killed::fill(&server);
    let begun = Instant::now();
    backup(&server, &backups, &["--copy", "--rate-limit", "1"]);
    let [copied] = &listed(&backups)[..] else { panic!("one backup") };
    let least = Duration::from_secs_f64(copied.new_bytes as f64 / f64::from(1 << 20));
    assert!(copied.new_bytes > 1 << 19 && begun.elapsed() >= least, "{copied:?} in {:?}", begun.elapsed());
    nyala(&["backup", "verify", backups.to_str().expect("a path")]);
    nyala_fails(&["backup", "--rate-limit", "0", backups.to_str().expect("a path")], "--rate-limit");
}

#[test]
fn old_backups_are_removed_and_the_others_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    for number in 1..=4_i64 {
        assert_eq!(server.write(&format!("m v={number} {}", number * 1_000_000_000_000_000)).status, 204);
        backup(&server, &backups, &[]);
    }
    let path = backups.to_str().expect("a path");
    let dry = nyala(&["backup", "prune", "--dry-run", "--keep", "2", path]);
    assert!(dry.contains("2 backups") && listed(&backups).len() == 4, "{dry}");
    nyala(&["backup", "prune", "--keep", "2", path]);
    nyala_fails(&["backup", "prune", "--keep", "0", path], "0");
    assert_eq!(listed(&backups).len(), 2);
    nyala(&["backup", "verify", path]);
    for (number, backup) in listed(&backups).iter().enumerate() {
        let restored = dir.path().join(format!("restored-{number}"));
        restore(&backups, &restored, &["--backup", &backup.name]);
        let server = Process::start(&restored, &[]);
        assert_eq!(server.number("SELECT count(v) FROM m"), number as i64 + 3);
    }
    // Nothing is left that no backup needs.
    let needed: u64 = listed(&backups).iter().map(|backup| backup.bytes).sum();
    assert!(disk_bytes(&backups.join("files")) < needed);
    nyala(&["backup", "prune", "--keep", "1", path]);
    let [only] = &listed(&backups)[..] else { panic!("one backup") };
    assert_eq!(disk_bytes(&backups.join("files")) + only.own_bytes(&backups), only.bytes);
}

#[test]
fn a_backup_is_newer_than_one_that_was_made_while_the_clock_was_ahead() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let (server, path) = (Process::start(&data, &[]), backups.to_str().expect("a path"));
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    let ahead = "20990101T000000.000000000Z";
    rename_backup(&backups, &backup(&server, &backups, &[]), ahead);
    assert_eq!(server.write("m v=2 2").status, 204);
    let text = nyala(&["backup", "--url", &command::url(&server), path]);
    let (name, rest) = text.split_once(':').expect("a name");
    assert!(name > ahead && rest.contains(&format!("behind that of {ahead}")), "{text}");
    let shown = nyala(&["backup", "list", path]);
    assert!(shown.lines().nth(1).is_some_and(|line| line.contains(", of 20")), "{shown}");
    nyala(&["backup", "prune", "--keep", "1", path]);
    assert_eq!(listed(&backups).iter().map(|backup| &*backup.name).collect::<Vec<_>>(), [name]);
    nyala(&["backup", "verify", path]);
    let restored = dir.path().join("restored");
    restore(&backups, &restored, &[]);
    assert_eq!(Process::start(&restored, &[]).number("SELECT count(v) FROM m"), 2);
    assert!(backup(&server, &backups, &[]).as_str() > name);
}

/// Gives a backup the name that it would have if the clock had been wrong.
fn rename_backup(backups: &Path, from: &str, to: &str) {
    let list = backups.join(from).join("backup.json");
    let text = std::fs::read_to_string(&list).expect("a list");
    let line = text.lines().next().expect("a line").replace(from, to);
    let sum = ring::digest::digest(&ring::digest::SHA256, line.as_bytes());
    let sum: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&list, format!("{line}\nsha256 {sum}\n")).expect("written");
    std::fs::rename(backups.join(from), backups.join(to)).expect("renamed");
}

fn disk_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("is there");
    entries.map(|entry| entry.expect("an entry").metadata().expect("a length").len()).sum()
}

#[test]
fn what_is_written_is_nobody_elses() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups, restored) =
        (dir.path().join("data"), dir.path().join("backups"), dir.path().join("restored"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    let name = backup(&server, &backups, &["--copy"]);
    restore(&backups, &restored, &[]);
    let mut modes = BTreeMap::new();
    let mut waiting = vec![backups.clone(), restored];
    while let Some(path) = waiting.pop() {
        let metadata = std::fs::symlink_metadata(&path).expect("is there");
        modes.insert(path.clone(), metadata.permissions().mode() & 0o777);
        if metadata.is_dir() {
            waiting.extend(
                std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()),
            );
        }
    }
    assert!(modes.contains_key(&backups.join(name).join("backup.json")) && modes.len() > 10, "{modes:?}");
    for (path, mode) in modes {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{mode:o} of {}", path.display());
    }
}

#[test]
fn a_full_disk_harms_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(disk) = SmallDisk::mount(&dir.path().join("disk"), 17) else { return };
    let (data, backups) = (dir.path().join("data"), disk.0.join("backups"));
    let path = backups.to_str().expect("a path");
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1i 1").status, 204);
    backup(&server, &backups, &[]);
    let mut state = 5_u64;
    for from in 0..20 {
        let mut text = String::new();
        for row in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("m v={}i {}\n", state as i64, from * 10_000 + row));
        }
        assert_eq!(server.send("POST", "/write?db=d", text.as_bytes()).expect("an answer").status, 204);
    }
    // Known before anything is copied.
    command::nyala_fails(&["backup", "--url", &command::url(&server), path], "there is no space");
    assert_eq!(listed(&backups).len(), 1);
    nyala(&["backup", "verify", path]);
    // And again when there is some.
    assert!(server.query("DROP MEASUREMENT m")["results"][0].get("error").is_none());
    assert_eq!(server.write("m v=2i 1").status, 204);
    backup(&server, &backups, &[]);
    assert_eq!(listed(&backups).len(), 2);
    nyala(&["backup", "verify", path]);
    let restored = dir.path().join("restored");
    restore(&backups, &restored, &[]);
    assert_eq!(Process::start(&restored, &[]).number("SELECT v FROM m"), 2);
    assert_eq!(server.metric("nyala_backup_failures_total"), 1);
}
