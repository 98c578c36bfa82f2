//! Backups that somebody has damaged or forged, and places that are not what they should be.

use super::client::percent_encode;
use super::command::{backup, listed, nyala, nyala_fails, run, url};
use super::process::Process;
use ring::digest::{SHA256, digest};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

/// Replaces the list of a backup by another text, with a checksum that matches.
fn forge(list: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(list).expect("is there");
    let line = change(text.lines().next().expect("a line").to_owned());
    let sum: String =
        digest(&SHA256, line.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(list, format!("{line}\nsha256 {sum}\n")).expect("is written");
}

/// A directory with a backup, for a change that makes it bad.
fn with_backup() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    let name = backup(&server, &backups, &["--copy"]);
    let list = backups.join(name).join("backup.json");
    (dir, backups, list)
}

fn shared_file(backups: &Path) -> PathBuf {
    fs::read_dir(backups.join("files")).expect("is there").next().expect("a file").expect("an entry").path()
}

/// Answers every request with that body and status 500.
fn answers_badly(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // Its head is all of a request here.
            let _ = stream.read(&mut [0; 4096]);
            let head =
                format!("HTTP/1.1 500 No\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn a_terminal_obeys_no_words_of_a_server() {
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path().to_str().expect("a path");
    for body in ["\x1b]0;owned\x07\nnyala: done", r#"{"error":"\u001b]0;owned\u0007\nnyala: done"}"#] {
        let output = run(&["backup", "--url", &answers_badly(body), place]);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && text.contains("\\x1b]0;owned\\x07\\nnyala: done"), "{text:?}");
        assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
    }
}

#[test]
fn forged_and_damaged_backups_are_refused() {
    let (dir, backups, list) = with_backup();
    let sound = fs::read_to_string(&list).expect("is there");
    let path = backups.to_str().expect("a path");
    let mut number = 0;
    let mut refused = |words: &str| {
        nyala_fails(&["backup", "verify", path], words);
        number += 1;
        let restored = dir.path().join(format!("restored-{number}"));
        nyala_fails(&["restore", path, "--data-dir", restored.to_str().expect("a path")], words);
        // Nothing that a server would take for a store.
        let output = run(&["check", restored.to_str().expect("a path")]);
        assert!(!output.status.success(), "{words}");
        assert!(!dir.path().join("escaped").exists() && !dir.path().join("manifest-1").exists());
    };
    let manifest = |text: &str| {
        let start = text.find("manifest-").expect("is named");
        text[start..start + 29].to_owned()
    };
    for other in ["../../escaped", "/tmp/escaped", "rowsets/../../escaped", "wal/../manifest-1", "LOCK"] {
        forge(&list, |text| text.replace(&manifest(&text), other));
        refused("that no backup has");
        fs::write(&list, &sound).expect("is written");
    }
    forge(&list, |text| text.replace("\"format\":1", "\"format\":2"));
    refused("format 2");
    fs::write(&list, &sound).expect("is written");
    forge(&list, |text| text.replace("\"name\":\"2", "\"name\":\"3"));
    refused("it is that of backup");
    fs::write(&list, &sound).expect("is written");
    // The first number is that of all files, the next that of a file.
    let with_bytes = |text: &str| {
        let start = text.find(",\"bytes\":").expect("is there") + ",\"bytes\":".len();
        let end = start + text[start..].find(',').expect("goes on");
        format!("{}{}{}", &text[..start], u64::MAX, &text[end..])
    };
    forge(&list, |text| with_bytes(&text));
    refused("its files do not have 18446744073709551615 bytes together");
    fs::write(&list, &sound).expect("is written");
    forge(&list, |text| {
        let (head, files) = text.split_at(text.find("\"files\":").expect("is there"));
        format!("{head}{}", with_bytes(files))
    });
    refused("bytes together");
    forge(&list, |_| "{".repeat(100_000));
    refused("backup.json");
    fs::write(&list, &sound[..sound.len() / 2]).expect("is written");
    refused("its end is missing");
    fs::write(&list, sound.replace("\"sequence\":", "\"sequence\":1")).expect("is written");
    refused("its checksum does not match");
    fs::write(&list, b"").expect("is written");
    refused("its end is missing");
    fs::remove_file(&list).expect("is there");
    refused("backup.json");
    let elsewhere = dir.path().join("elsewhere.json");
    fs::write(&elsewhere, &sound).expect("is written");
    std::os::unix::fs::symlink(&elsewhere, &list).expect("a link");
    refused("backup.json");
    fs::remove_file(&list).expect("is there");
    fs::write(&list, &sound).expect("is written");
    nyala(&["backup", "verify", path]);

    let file = shared_file(&backups);
    let bytes = fs::read(&file).expect("is there");
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    fs::write(&file, &changed).expect("is written");
    nyala_fails(&["backup", "verify", path], "does not match");
    let restored = dir.path().join("restored-of-damaged");
    nyala_fails(&["restore", path, "--data-dir", restored.to_str().expect("a path")], "is damaged");
    fs::write(&file, &bytes[..bytes.len() - 1]).expect("is written");
    nyala_fails(&["backup", "verify", path], "bytes, not");
    fs::remove_file(&file).expect("is there");
    nyala_fails(&["backup", "verify", path], "cannot open");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("a link");
    nyala_fails(&["backup", "verify", path], "cannot open");
    fs::remove_file(&file).expect("is there");
    fs::write(&file, &bytes).expect("is written");
    nyala(&["backup", "verify", path]);
}

#[test]
fn nothing_is_removed_if_a_kept_backup_cannot_be_read() {
    let (_dir, backups, list) = with_backup();
    fs::write(&list, b"nonsense").expect("is written");
    let path = backups.to_str().expect("a path");
    nyala_fails(&["backup", "prune", "--keep", "1", path], "nothing was removed");
    assert!(shared_file(&backups).exists());
}

#[test]
fn a_damaged_shared_file_is_copied_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let path = backups.to_str().expect("a path");
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    backup(&server, &backups, &["--copy"]);
    fs::remove_file(shared_file(&backups)).expect("is there");
    nyala_fails(&["backup", "verify", path], "cannot open");
    backup(&server, &backups, &["--copy"]);
    assert_eq!(listed(&backups).len(), 2);
    nyala(&["backup", "verify", path]);
}

#[test]
fn places_that_are_something_else_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, foreign) = (dir.path().join("data"), dir.path().join("foreign"));
    let server = Process::start(&data, &[]);
    server.query("CREATE DATABASE d");
    let url = url(&server);
    let at = |path: &Path| path.to_str().expect("a path").to_owned();
    fs::create_dir(&foreign).expect("is made");
    fs::write(foreign.join("thesis.tex"), b"mine").expect("is written");
    nyala_fails(&["backup", "--url", &url, &at(&foreign)], "is not a directory of backups");
    nyala_fails(&["backup", "list", &at(&foreign)], "is not a directory of backups");
    nyala_fails(
        &["restore", &at(&foreign), "--data-dir", &at(&dir.path().join("new"))],
        "is not a directory of",
    );
    assert_eq!(fs::read_dir(&foreign).expect("is there").count(), 1);
    nyala_fails(&["backup", "--url", &url, &at(&data.join("backups"))], "is in the data directory");
    let backups = dir.path().join("backups");
    nyala_fails(&["backup", "--data-dir", &at(&data), &at(&backups)], "in use by another process");
    nyala_fails(&["backup", "--url", "http://127.0.0.1:1", &at(&backups)], "127.0.0.1:1");
    backup(&server, &backups, &[]);
    let path = at(&backups);
    nyala_fails(&["restore", &path, "--data-dir", &at(&foreign)], "is not empty");
    nyala_fails(&["restore", &path, "--data-dir", &at(&data)], "is not empty");
    let missing = "20200101T000000.000000000Z";
    let new = at(&dir.path().join("new"));
    nyala_fails(&["restore", &path, "--backup", missing, "--data-dir", &new], "there is no backup");
    nyala_fails(&["restore", &path, "--backup", "../data", "--data-dir", &new], "there is no backup");
    assert_eq!(server.metric("nyala_backups_total"), 1);
}

#[test]
fn only_administrators_back_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let server = Process::start(&data, &["--auth-enabled"]);
    let status = |method: &str, target: &str| server.send(method, target, b"").expect("an answer").status;
    let query =
        |login: &str, text: &str| status("POST", &format!("/query?{login}&q={}", percent_encode(text)));
    assert_eq!(status("POST", "/api/backup"), 403, "without an administrator");
    assert_eq!(query("", "CREATE USER root WITH PASSWORD 'secret' WITH ALL PRIVILEGES"), 200);
    assert_eq!(query("u=root&p=secret", "CREATE USER eve WITH PASSWORD 'secret'"), 200);
    assert_eq!(status("POST", "/api/backup"), 401);
    assert_eq!(status("DELETE", "/api/backup?name=x"), 401);
    assert_eq!(status("POST", "/api/backup?u=eve&p=secret"), 403);
    assert_eq!(status("POST", "/api/backup?u=root&p=wrong"), 401);
    assert_eq!(status("GET", "/api/backup?u=root&p=secret"), 405);
    let path = backups.to_str().expect("a path");
    nyala_fails(&["backup", "--url", &url(&server), path], "credentials: log in by --username");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nyala"));
    command
        .args(["backup", "--url", &url(&server), "--username", "root", path])
        .env("NYALA_PASSWORD", "secret");
    assert!(command.status().expect("it runs").success());
    assert_eq!(listed(&backups).len(), 1);
}
