//! Finds the commit that a release is built from, for the first log line, `--version` and `SHOW DIAGNOSTICS`.
//!
//! `NYALA_COMMIT` names it when there is no git. A debug build has no commit, because it would be built again after
//! each commit.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=NYALA_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let told = std::env::var("NYALA_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = match (told, is_release) {
        (Some(commit), _) => commit,
        (None, true) => described(),
        (None, false) => "debug build".to_owned(),
    };
    println!("cargo::rustc-env=NYALA_COMMIT={commit}");
}

fn described() -> String {
    // Git writes this file at each commit and checkout.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        Some(path) if Path::new(&path).exists() => println!("cargo::rerun-if-changed={path}"),
        _ => println!("cargo::rerun-if-changed=build.rs"),
    }
    git(&["describe", "--always", "--tags", "--abbrev=12"]).unwrap_or_else(|| "unknown".to_owned())
}

/// The one line that git prints; `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8(output.stdout).ok()?;
    Some(said.trim().to_owned()).filter(|said| !said.is_empty() && !said.contains('\n'))
}
