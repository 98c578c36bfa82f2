//! `nyala shell`, as a person and a script use it: the real program through pipes and at a terminal.

#[path = "shell/at_terminal.rs"]
mod at_terminal;
#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "shell/connecting.rs"]
mod connecting;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;
#[path = "shell/scripts.rs"]
mod scripts;
#[cfg(feature = "sql")]
#[path = "shell/sql.rs"]
mod sql;
#[path = "support/terminal.rs"]
mod terminal;

use process::Process;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A measurement with what aligns and what does not.
const POINTS: &str = "\
m,host=a v=1.5,n=1i,s=\"x\" 1000000001
m,host=b v=-3,n=70i 3000000000
";

/// A name and a value that would turn a terminal red, and give it a title.
const HOSTILE: &str = "h\u{1b}[31m,host=a\u{1b}]0;title\u{7} w=\"\u{9b}31m\u{7f}\u{202e}x\" 1";

fn started(dir: &Path, arguments: &[&str]) -> Process {
    let server = Process::start(dir, arguments);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    server
}

/// What the shell did.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: i32,
    out: String,
    errors: String,
}

/// Runs the shell of a server's database `d`.
fn shell(server: &Process, arguments: &[&str], input: &str) -> Outcome {
    let port = server.address.port().to_string();
    let arguments: Vec<&str> = ["--port", &port, "-d", "d"].iter().chain(arguments).copied().collect();
    run(&arguments, &[], input)
}

/// Runs the shell with any arguments and variables.
fn run(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .arg("shell")
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // It may leave before it has read everything.
    let _ = child.stdin.take().expect("is piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Outcome {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// Asserts that all went well, and returns what was printed.
fn printed(outcome: Outcome) -> String {
    assert_eq!((outcome.code, &*outcome.errors), (0, ""), "{outcome:?}");
    outcome.out
}

/// What a terminal would obey, apart from line ends.
fn commands_of_terminals(text: &str) -> Vec<char> {
    text.chars().filter(|letter| letter.is_control() && !matches!(letter, '\n' | '\r')).collect()
}
