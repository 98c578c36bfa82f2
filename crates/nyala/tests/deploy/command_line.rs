//! What shells and `man` know about the command line.

use crate::{peers, succeed, text};
use std::process::Command;

#[test]
fn shells_can_read_their_completions() {
    let nyala = || Command::new(env!("CARGO_BIN_EXE_nyala"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = succeed(nyala().args(["completions", shell]));
        assert!(script.contains("doctor") && script.contains("memory-limit"), "{shell}");
    }
    let script = succeed(nyala().args(["completions", "bash"]));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("nyala");
    std::fs::write(&file, script).expect("written");
    // What bash would offer after `nyala ser` and `nyala serve --memory-`.
    for (words, index, offered) in [("nyala ser", 1, "serve"), ("nyala serve --memory-", 2, "--memory-limit")]
    {
        let last = words.rsplit(' ').next().expect("a word");
        let asked = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={index}; _nyala nyala {last} ''; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        assert_eq!(succeed(Command::new("bash").args(["-c", &asked])).trim(), offered);
    }
}

#[test]
fn manual_pages_are_written_and_man_shows_them() {
    let directory = tempfile::tempdir().expect("a directory");
    succeed(Command::new(env!("CARGO_BIN_EXE_nyala")).arg("man").arg(directory.path()));
    let refused =
        Command::new(env!("CARGO_BIN_EXE_nyala")).args(["man", "/nowhere"]).output().expect("it runs");
    assert!(!refused.status.success() && text(&refused).contains("/nowhere"), "{}", text(&refused));
    let found = peers::works("man", &["--version"]).then_some(());
    if peers::require("man", "install man-db", found).is_none() {
        return;
    }
    for (page, part) in [
        ("nyala", "nyala-doctor"),
        ("nyala-serve", "--memory-limit"),
        ("nyala-check", "\n       Exit code: 0"),
    ] {
        let file = directory.path().join(format!("{page}.1"));
        let output = Command::new("man")
            .args(["--warnings=w", "--encoding=UTF-8", "--local-file"])
            .arg(&file)
            .env("MANWIDTH", "400")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{page}: {}", text(&output));
        assert!(text(&output).contains(part), "{page}: {}", text(&output));
    }
}
