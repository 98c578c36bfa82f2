//! Backups in a bucket of S3: a server of its protocol (moto), which can be slow, refuse and be cut off.

use super::command::{Listed, listed_of, nyala, program, url};
use super::killed::fill;
use super::kinds::sql;
use super::objects::Objects;
use super::process::Process;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A server gives up the copy of a killed command within ten seconds, if it is not kept from it.
const COPY_WAIT_MAX: Duration = Duration::from_secs(120);
const PLACE: &str = "s3://archive/of/nyala";

/// A bucket, a server of nyala, and a directory for what is restored.
struct Place {
    objects: Objects,
    server: Process,
    dir: tempfile::TempDir,
}

impl Place {
    fn start() -> Option<Self> {
        let objects = Objects::start()?;
        let dir = tempfile::tempdir().expect("a directory");
        let server = Process::start(&dir.path().join("data"), &[]);
        server.query("CREATE DATABASE d");
        Some(Self { objects, server, dir })
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.envs(self.objects.variables());
        command
    }

    /// What a command prints; it must succeed.
    fn nyala(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().expect("it runs");
        let [text, error] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
        assert!(output.status.success(), "{arguments:?}: {error}{text}");
        text
    }

    /// It must fail with these words.
    fn fails(&self, arguments: &[&str], words: &str) {
        let output = self.program(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(
            !output.status.success() && text.contains(words),
            "{arguments:?} says {text:?}, not {words:?}"
        );
        assert!(!text.contains("a secret"), "{text}");
    }

    /// Backs the server up, and returns the name of the backup.
    fn backup(&self, arguments: &[&str]) -> String {
        let text = self.nyala(&[&["backup", "--url", &url(&self.server), PLACE], arguments].concat());
        text.split_once(':').unwrap_or_else(|| panic!("{text}")).0.to_owned()
    }

    fn spawn_backup(&self) -> std::process::Child {
        let mut command = self.program(&["backup", "--url", &url(&self.server), PLACE]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
    }

    fn verify(&self) -> String {
        self.nyala(&["backup", "verify", PLACE])
    }

    fn listed(&self) -> Vec<Listed> {
        listed_of(&self.nyala(&["backup", "list", "--json", PLACE]))
    }

    /// Restores a backup, and returns a server of it.
    fn restored(&self, name: &str) -> Process {
        let data = self.dir.path().join(format!("restored-{name}"));
        let path = data.to_str().expect("a path");
        self.nyala(&["restore", PLACE, "--backup", name, "--data-dir", path]);
        nyala(&["check", path]);
        Process::start(&data, &[])
    }

    /// The files that backups share, and all other objects.
    fn files(&self) -> (Vec<String>, Vec<String>) {
        let names = self.objects.listed().into_iter().map(|(name, _)| name);
        names.partition(|name| name.starts_with("of/nyala/files/"))
    }

    fn write(&self, lines: &str) {
        assert_eq!(self.server.write(lines).status, 204);
    }
}

#[test]
fn backups_go_to_a_bucket_and_come_back() {
    let Some(place) = Place::start() else { return };
    fill(&place.server);
    sql(&place.server, "CREATE TABLE t (id int PRIMARY KEY, word text)");
    sql(&place.server, "INSERT INTO t VALUES (1, 'one')");
    let expected = place.server.query("SELECT * FROM f");
    let begun = Instant::now();
    let first = place.backup(&["--rate-limit", "1"]);
    let least = Duration::from_secs_f64(place.listed()[0].new_bytes as f64 / f64::from(1 << 20));
    assert!(begun.elapsed() >= least, "{least:?} are the least, not {:?}", begun.elapsed());
    // What is there is not sent again.
    let (files, _) = place.files();
    place.objects.changes();
    place.write("f,h=x v=7i 1");
    let second = place.backup(&[]);
    let changed = place.objects.changes();
    assert!(!files.is_empty() && !changed.iter().any(|name| files.contains(name)), "{changed:?}");
    let manifest = changed.iter().rfind(|name| !name.contains("/locks/"));
    assert_eq!(*manifest.expect("is stored"), format!("of/nyala/{second}/backup.json"), "comes last");
    let listed = place.listed();
    assert!(listed[1].new_bytes * 10 < listed[0].new_bytes, "{listed:?}");
    assert!(place.verify().matches("sound").count() == 2);
    let restored = place.restored(&first);
    assert_eq!(restored.query("SELECT * FROM f"), expected);
    assert!(sql(&restored, "SELECT word FROM t").contains("one"));
    assert_eq!(place.restored(&second).number("SELECT v FROM f WHERE h = 'x'"), 7);
    // A part of it, to the running server.
    let url = url(&place.server);
    let part = [
        "restore",
        PLACE,
        "--backup",
        &first,
        "--database",
        "d",
        "--measurement",
        "f",
        "--as-database",
        "then",
        "--url",
        &url,
    ];
    place.nyala(&part);
    assert_eq!(place.server.query("SELECT count(v) FROM then..f"), restored.query("SELECT count(v) FROM f"));
    // Old ones are removed with what only they need.
    assert!(place.nyala(&["backup", "prune", "--dry-run", "--keep", "1", PLACE]).contains("1 backups"));
    assert_eq!(place.listed().len(), 2);
    place.server.query("DROP MEASUREMENT f");
    let third = place.backup(&[]);
    place.nyala(&["backup", "prune", "--keep", "1", PLACE]);
    place.verify();
    let (kept, others) = place.files();
    let still = files.iter().filter(|name| kept.contains(name)).count();
    assert!(still * 10 < files.len(), "{still} of {} are still there", files.len());
    let is_kept =
        |name: &String| name.starts_with(&format!("of/nyala/{third}/")) || name == "of/nyala/nyala-backups";
    assert!(others.iter().all(is_kept), "{others:?}");
    assert_eq!(place.objects.uploads(), "0");
}

#[test]
fn a_server_of_objects_that_is_slow_or_busy_or_cut_off_is_asked_again() {
    let Some(place) = Place::start() else { return };
    place.write("f,h=a v=1i 1\nf,h=b v=2i 2");
    let expected = place.server.query("SELECT * FROM f");
    // Each request of a backup, of its verification and of a removal, one after the other; by the end there are fewer.
    for after in 0..24 {
        let kind = ["lost", "cut", "503"][after % 3];
        place.write(&format!("f,h=x v={after}i 1"));
        place.objects.fail_after(after, kind, 2);
        place.backup(&[]);
        place.objects.fail_after(after, kind, 2);
        place.verify();
        place.objects.fail_after(after, kind, 2);
        place.nyala(&["backup", "prune", "--keep", "2", PLACE]);
    }
    place.objects.fail_after(3, "slow", 2);
    place.backup(&[]);
    place.nyala(&["backup", "prune", "--keep", "2", PLACE]);
    place.objects.fail("lost", 0);
    let [_, kept] = &place.listed()[..] else { panic!("two backups") };
    place.objects.fail_after(9, "cut", 3);
    assert_eq!(place.restored(&kept.name).query("SELECT * FROM f WHERE h != 'x'"), expected);
    // Who may not write is told at once, and nothing is left.
    let before = place.objects.listed();
    place.objects.fail("403", 1000);
    place.fails(&["backup", "--url", &url(&place.server), PLACE], "does not allow it");
    place.objects.fail("403", 0);
    assert_eq!(place.objects.listed(), before);
}

#[test]
fn a_killed_command_harms_nothing_and_what_it_sent_is_not_sent_again() {
    let Some(place) = Place::start() else { return };
    fill(&place.server);
    let first = place.backup(&[]);
    let (mut kills, mut finished, mut resumed) = (0, 0, 0);
    for number in [2, 3, 4, 9] {
        let begun = Instant::now();
        // Something new each time, in several files.
        for day in 0..4 {
            place.write(&format!("f,h=x v={number}i {}000000000000000", 100 * day + number));
        }
        let (before, _) = place.files();
        // For some seconds the server has the copy of the command that was killed, and refuses another one.
        let mut child = loop {
            place.objects.changes();
            // So many objects later it is killed.
            place.objects.hold_after(number);
            let mut child = place.spawn_backup();
            let ended = loop {
                let ended = child.try_wait().expect("a child");
                if ended.is_some() || place.objects.holds() {
                    break ended;
                }
                std::thread::sleep(Duration::from_millis(2));
            };
            match ended {
                Some(status) if !status.success() && begun.elapsed() < COPY_WAIT_MAX => {
                    std::thread::sleep(Duration::from_millis(300));
                }
                _ => break child,
            }
        };
        let _ = child.kill();
        let succeeded = child.wait().expect("gone").success();
        place.objects.drop_held();
        let changed = place.objects.changes();
        assert!(!changed.iter().any(|name| before.contains(name)), "sent again: {changed:?}");
        resumed += place.files().0.len() - before.len();
        let listed = place.listed();
        assert_eq!(listed[0].name, first, "after {number}");
        // One that is killed after its list was written is whole.
        match listed.len() - 1 - finished {
            0 if !succeeded => kills += 1,
            1 => finished += 1,
            _ => panic!("{} backups after {finished} and {number} objects", listed.len()),
        }
        place.verify();
    }
    assert!(kills > 1 && resumed > 0, "{kills} were killed, {resumed} files were there before the next one");
    // Those who were killed may still need what they have sent, until they were not heard of for long.
    let prune = ["backup", "prune", "--keep", "1", PLACE];
    place.fails(&prune, "another command adds the backups in s3://archive/of/nyala now, or was killed");
    // The server may wait a moment for the last one to read its copy.
    let begun = Instant::now();
    while !place.spawn_backup().wait().expect("gone").success() {
        assert!(begun.elapsed() < COPY_WAIT_MAX, "{}", place.server.log());
        std::thread::sleep(Duration::from_millis(300));
    }
    let last = place.listed().pop().expect("a backup").name;
    assert_eq!(place.restored(&last).query("SELECT * FROM f"), place.server.query("SELECT * FROM f"));
    let locks: Vec<String> = place.files().1.into_iter().filter(|name| name.contains("/locks/")).collect();
    assert!(!locks.is_empty());
    locks.iter().for_each(|lock| place.objects.harm("age", lock));
    place.nyala(&prune);
    let (shared, others) = place.files();
    let is_kept =
        |name: &String| name.starts_with(&format!("of/nyala/{last}/")) || name == "of/nyala/nyala-backups";
    assert!(!shared.is_empty() && others.iter().all(is_kept), "{others:?}");
    place.verify();
}

#[test]
fn nobody_adds_or_reads_while_somebody_removes() {
    let Some(place) = Place::start() else { return };
    place.write("m v=1 1");
    place.backup(&[]);
    place.objects.store("of/nyala/locks/removes-1-1", b"process 1 on another machine\n");
    let url = url(&place.server);
    place.fails(&["backup", "--url", &url, PLACE], "another command removes");
    place.fails(&["backup", "verify", PLACE], "another command removes");
    place.fails(&["backup", "prune", "--keep", "1", PLACE], "another command removes");
    place.objects.harm("age", "of/nyala/locks/removes-1-1");
    place.backup(&[]);
    place.verify();
    // Who may read only reads without a lock.
    place.objects.fail_after(2, "403", 1);
    place.verify();
    assert!(!place.files().1.iter().any(|name| name.contains("/locks/")), "{:?}", place.files());
}

#[test]
fn damaged_and_foreign_places_are_named() {
    let Some(place) = Place::start() else { return };
    place.write("m v=1 1");
    place.backup(&[]);
    let restore = |data: &str, words: &str| {
        let data = place.dir.path().join(data);
        place.fails(&["restore", PLACE, "--data-dir", data.to_str().expect("a path")], words);
        assert!(!nyala_check(&data), "{words}");
    };
    let file = &place.files().0[0];
    place.objects.harm("damage", file);
    place.fails(&["backup", "verify", PLACE], &format!("the checksum of s3://archive/{file} does not match"));
    restore("of-damaged", "is damaged");
    place.objects.harm("remove", file);
    place.fails(&["backup", "verify", PLACE], "there is no such object");
    restore("of-missing", "there is no such object");
    // It is stored again.
    place.backup(&[]);
    assert_eq!(place.verify().matches("sound").count(), 2);
    let list = format!("of/nyala/{}/backup.json", place.listed()[1].name);
    place.objects.harm("damage", &list);
    restore("of-lies", "cannot be used");
    place.fails(&["backup", "prune", "--keep", "1", PLACE], "nothing was removed");
    place.objects.store("foreign/thesis.tex", b"mine");
    let url = url(&place.server);
    place.fails(&["backup", "--url", &url, "s3://archive/foreign"], "is no place of backups");
    place.fails(&["backup", "list", "s3://archive/foreign"], "is no place of backups");
    place.fails(&["backup", "list", "s3://archive/nothing"], "is no place of backups");
    place.fails(&["backup", "list", "s3:///nothing"], "names no bucket");
    place.objects.store("newer/nyala-backups", b"This directory has backups of nyala, format 2.\n");
    place.fails(&["backup", "list", "s3://archive/newer"], "of another version of nyala");
}

fn nyala_check(data: &std::path::Path) -> bool {
    program(&["check", data.to_str().expect("a path")]).output().expect("it runs").status.success()
}

#[test]
fn a_directory_that_was_copied_to_a_bucket_is_one_of_backups() {
    let Some(place) = Place::start() else { return };
    place.write("m v=1 1");
    let backups = place.dir.path().join("backups");
    let name = super::command::backup(&place.server, &backups, &[]);
    let mut waiting = vec![backups.clone()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(
                std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()),
            );
        } else {
            let key = path.strip_prefix(&backups).expect("is below").to_str().expect("a path");
            place.objects.store(&format!("of/nyala/{key}"), &std::fs::read(&path).expect("is there"));
        }
    }
    place.verify();
    assert_eq!(place.restored(&name).number("SELECT v FROM m"), 1);
    place.objects.changes();
    place.backup(&[]);
    assert!(!place.objects.changes().iter().any(|name| name.contains("/files/")), "is there already");
}
