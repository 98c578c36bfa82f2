//! `nyala upgrade-check` says of data of every version what a start makes of them, and changes none.

use crate::process::Process;
use crate::{root, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What it says, and its exit code.
fn ask(arguments: &[&str], variables: &[(&str, &str)]) -> (Value, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["upgrade-check", "--json"])
        .args(arguments)
        // The tests have variables of their own.
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    let code = output.status.code().expect("a code");
    assert_eq!(code, i32::from(report["problems"].as_u64() > Some(0)), "{report}");
    (report, code)
}

/// The same of a data directory, in which nothing may have changed.
fn ask_of(data_dir: &Path) -> (Value, i32) {
    let before = contents(data_dir);
    let answer = ask(&["--data-dir", data_dir.to_str().expect("UTF-8")], &[]);
    assert!(before == contents(data_dir), "{} was changed", data_dir.display());
    answer
}

/// The grade of a check and what was found, one line each.
fn found(report: &Value, check: &str) -> String {
    let all = report["findings"].as_array().expect("findings").iter();
    let lines = all.filter(|finding| finding["check"] == check).map(|finding| {
        let part = |name: &str| finding[name].as_str().expect("text").to_owned();
        let is_explained = !part("why").is_empty() && !part("advice").is_empty();
        assert!(part("grade") == "ok" || is_explained, "{finding}");
        format!("{}: {}\n", part("grade"), part("found"))
    });
    lines.collect()
}

/// Every file below a directory.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files.extend(contents(&path)),
            false => drop(files.insert(path.clone(), std::fs::read(&path).expect("it is read"))),
        }
    }
    files
}

/// A copy of a directory that an earlier version wrote.
fn kept(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let from = root().join("crates/nyala-engine/tests/formats").join(name);
    for (path, bytes) in contents(&from) {
        let to = data_dir.join(path.strip_prefix(&from).expect("it is below"));
        std::fs::create_dir_all(to.parent().expect("a parent")).expect("created");
        std::fs::write(to, bytes).expect("written");
    }
    (directory, data_dir)
}

/// The file of a directory whose name has a beginning and an end.
fn file_in(dir: &Path, start: &str, end: &str) -> PathBuf {
    let mut names = contents(dir).into_keys();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        name.starts_with(start) && name.ends_with(end)
    };
    names.rfind(is_it).unwrap_or_else(|| panic!("no {start}…{end} in {}", dir.display()))
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("it is read");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("written");
}

/// Writes a checksum of some bytes behind them.
fn seal(bytes: &mut [u8], from: usize, to: usize) {
    let checksum = crc32fast::hash(&bytes[from..to]);
    bytes[to..to + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether a server refuses a directory, and what it says.
fn refusal(data_dir: &Path) -> String {
    let mut server = Process::spawn(data_dir, &[]);
    assert!(!server.wait().success());
    server.log()
}

#[test]
fn data_of_this_version_are_as_it_writes_them_and_a_running_server_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let (report, code) = ask_of(&data_dir);
    assert!(code == 0 && found(&report, "data-directory").contains("there are no data"), "{report}");
    assert!(!data_dir.exists());

    let server = Process::start(&data_dir, &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write("m v=1 1").status, 204);
    let (report, code) = ask(&["--data-dir", data_dir.to_str().expect("UTF-8")], &[]);
    assert!(code == 0 && found(&report, "data-directory").starts_with("warning: a server uses "), "{report}");
    assert!(found(&report, "manifest").starts_with("ok: version 2 (1 file"), "{report}");
    assert!(found(&report, "log").starts_with("ok: version 2 (1 file"), "{report}");
    assert!(server.stop().success());

    let (report, code) = ask_of(&data_dir);
    assert!(code == 0 && report["warnings"] == 0, "{report}");
    assert!(found(&report, "rowsets").contains("as this program writes it"), "{report}");
    assert!(found(&report, "way-back").starts_with("ok: "), "{report}");
    assert!(found(&report, "disk").contains(" are free"), "{report}");
    // For people.
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["upgrade-check", "--data-dir"])
        .arg(&data_dir)
        .env_clear()
        .output();
    let said = text(&output.expect("it runs"));
    assert!(said.contains("\nok       manifest: version 2") && said.ends_with("all is well\n"), "{said}");
}

#[test]
fn data_of_earlier_versions_are_used_and_there_is_no_way_back_but_a_copy() {
    for (name, expected) in [
        (
            "store-v1",
            [("manifest", "version 1 (1 file"), ("log", "version 1 (1 file"), ("rowsets", "version 1 (")],
        ),
        (
            "store-v2",
            [
                ("manifest", "version 1 (1 file"),
                ("log", "version 1 (2 files"),
                ("rowsets", "version 2 (4 files"),
            ],
        ),
        (
            "rowsets-v3",
            [("manifest", "version 2 (1 file"), ("log", "version 2 (1 file"), ("rowsets", "version 3 (10 ")],
        ),
    ] {
        let (_directory, data_dir) = kept(name);
        let (report, code) = ask_of(&data_dir);
        assert_eq!(code, 0, "{name}: {report}");
        for (check, start) in expected {
            assert!(found(&report, check).starts_with(&format!("ok: {start}")), "{name}: {report}");
        }
        assert!(found(&report, "rowsets").contains("until compaction writes version 4"), "{name}: {report}");
        let way_back = found(&report, "way-back");
        assert!(
            way_back.starts_with("warning: ") && way_back.contains("rowsets in version 4"),
            "{name}: {report}"
        );
        assert!(found(&report, "disk").contains("merging earlier rowsets up to"), "{name}: {report}");
    }
    // What it says of a directory of a whole server comes true.
    let (_directory, data_dir) = kept("store-v2");
    let (report, _) = ask_of(&data_dir);
    for table in ["nyala.continuous", "nyala.databases", "nyala.users"] {
        assert!(found(&report, "way-back").contains(table), "{report}");
    }
    assert_eq!(Process::start(&data_dir, &[]).stop().code(), Some(0));
    let (report, code) = ask_of(&data_dir);
    assert!(code == 0 && found(&report, "manifest").contains("as this program writes it"), "{report}");
    assert!(!found(&report, "way-back").contains("records"), "{report}");
}

#[test]
fn what_a_newer_program_wrote_is_refused_here_as_a_start_refuses_it() {
    for (start, end, check) in [("manifest-", "", "manifest"), ("", ".wal", "log")] {
        let (_directory, data_dir) = kept("rowsets-v4");
        change(&file_in(&data_dir, start, end), |bytes| {
            bytes[8] = 3;
            seal(bytes, 0, 60);
        });
        let (report, code) = ask_of(&data_dir);
        let said = found(&report, check);
        assert!(code == 1 && said.starts_with("problem: version 3 (1 file"), "{report}");
        assert!(said.contains("reads up to version 2"), "{report}");
        assert!(found(&report, "way-back").is_empty(), "{report}");
        assert!(refusal(&data_dir).contains("another program version"), "{check}");
    }
    let (_directory, data_dir) = kept("rowsets-v4");
    change(&file_in(&data_dir, "", "9.rowset"), |bytes| bytes[8] = 5);
    let (report, code) = ask_of(&data_dir);
    assert!(code == 1 && found(&report, "rowsets").contains("version 4 (9 files"), "{report}");
    assert!(found(&report, "rowsets").contains("version 5 (1 file"), "{report}");

    // The version is known, an entry is not.
    let (_directory, data_dir) = kept("rowsets-v4");
    change(&file_in(&data_dir, "manifest-", ""), |bytes| {
        let length = u32::from_le_bytes(bytes[64..68].try_into().expect("four bytes")) as usize;
        bytes[96] = 99;
        let checksum = crc32fast::hash(&bytes[96..96 + length]);
        bytes[88..92].copy_from_slice(&checksum.to_le_bytes());
        seal(bytes, 64, 92);
    });
    let (report, code) = ask_of(&data_dir);
    assert!(code == 1 && found(&report, "contents").contains("unknown edit 99"), "{report}");
    assert!(refusal(&data_dir).contains("unknown edit 99"));
}

#[test]
fn other_directories_and_damaged_ones_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("photographs"), "").expect("written");
    let (report, code) = ask_of(directory.path());
    assert!(
        code == 1 && found(&report, "data-directory").contains("is not a data directory of nyala"),
        "{report}"
    );

    let (_directory, data_dir) = kept("rowsets-v4");
    std::fs::remove_file(file_in(&data_dir, "manifest-", "")).expect("removed");
    let (report, code) = ask_of(&data_dir);
    assert!(code == 1 && found(&report, "data-directory").contains("there is no manifest"), "{report}");

    let (_directory, data_dir) = kept("rowsets-v4");
    std::fs::remove_file(file_in(&data_dir, "", "9.rowset")).expect("removed");
    change(&file_in(&data_dir, "", "8.rowset"), |bytes| bytes.truncate(100));
    let (report, code) = ask_of(&data_dir);
    let said = found(&report, "contents");
    assert!(
        code == 1 && said.contains("9.rowset: the file is missing") && said.contains("8.rowset"),
        "{report}"
    );
}

#[test]
fn settings_that_are_no_more_are_named_all_at_once() {
    let (directory, data_dir) = kept("rowsets-v4");
    let file = directory.path().join("nyala.toml");
    let shown = file.to_str().expect("UTF-8");
    let write = |more: &str| {
        std::fs::write(&file, format!("data-dir = {data_dir:?}\nwal-limit = \"64MiB\"\n{more}"))
            .expect("written");
    };
    write("");
    let (report, code) =
        ask(&["--config", shown], &[("NYALA_WAL_LIMIT", "1GiB"), ("NYALA_MEM_LIMIT", "1GiB")]);
    assert!(code == 0 && found(&report, "settings") == "ok: they are valid\n", "{report}");
    let environment = found(&report, "environment");
    assert!(environment.starts_with("warning: ") && environment.contains("NYALA_MEM_LIMIT"), "{report}");
    assert!(!environment.contains("NYALA_WAL_LIMIT"), "{report}");
    write("mem-limit = \"1GiB\"\nretention-check = \"1h\"\n");
    let (report, code) = ask(&["--config", shown], &[]);
    let settings = found(&report, "settings");
    assert!(code == 1 && settings.contains(": mem-limit, retention-check\n"), "{report}");
    // The file is refused, and what it says of the data is still of use.
    assert!(found(&report, "manifest").starts_with("ok: "), "{report}");
    write("memory-limit = \"1MiB\"\n");
    let (report, code) = ask(&["--config", shown], &[]);
    assert!(code == 1 && found(&report, "settings").contains("less than 64MiB"), "{report}");
}
