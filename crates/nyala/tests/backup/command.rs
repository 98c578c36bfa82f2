//! The commands under test.

use super::process::Process;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program.
pub(crate) fn run(arguments: &[&str]) -> Output {
    program(arguments).output().expect("it runs")
}

/// The program, which does not run yet.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
    command.args(arguments).env("NYALA_POSTGRES_BIND", "none");
    command
}

/// What it prints; it must succeed.
pub(crate) fn nyala(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("text")
}

/// It must fail with these words.
pub(crate) fn nyala_fails(arguments: &[&str], words: &str) {
    let output = run(arguments);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && text.contains(words), "{arguments:?} says {text:?}, not {words:?}");
}

pub(crate) fn url(server: &Process) -> String {
    format!("http://{}", server.address)
}

/// Backs a server up, and returns the name of the backup.
pub(crate) fn backup(server: &Process, backups: &Path, arguments: &[&str]) -> String {
    let url = url(server);
    let mut all = vec!["backup", "--url", &url, backups.to_str().expect("a path")];
    all.extend(arguments);
    let text = nyala(&all);
    text.split_once(':').unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

pub(crate) fn restore(backups: &Path, data: &Path, arguments: &[&str]) -> String {
    let mut all =
        vec!["restore", backups.to_str().expect("a path"), "--data-dir", data.to_str().expect("a path")];
    all.extend(arguments);
    nyala(&all)
}

/// A line of `nyala backup list --json`.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) new_bytes: u64,
}

impl Listed {
    /// Bytes of what it shares with no other backup.
    pub(crate) fn own_bytes(&self, backups: &Path) -> u64 {
        let dir = backups.join(&self.name);
        let manifests = ["", "wal"].map(|folder| {
            let entries = std::fs::read_dir(dir.join(folder)).into_iter().flatten().flatten();
            let own = entries.filter(|entry| entry.path().is_file() && entry.file_name() != "backup.json");
            own.map(|entry| entry.metadata().expect("a length").len()).sum::<u64>()
        });
        manifests.iter().sum()
    }
}

/// The backups of a directory.
pub(crate) fn listed(backups: &Path) -> Vec<Listed> {
    listed_of(&nyala(&["backup", "list", "--json", backups.to_str().expect("a path")]))
}

/// Those of the lines of JSON.
pub(crate) fn listed_of(text: &str) -> Vec<Listed> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .map(|line| Listed {
            name: line["name"].as_str().expect("a name").to_owned(),
            bytes: line["bytes"].as_u64().unwrap_or_else(|| panic!("{line}")),
            new_bytes: line["new_bytes"].as_u64().expect("a number"),
        })
        .collect()
}
