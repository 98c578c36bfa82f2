//! Settings: how they are read, printed and documented; and what the server says about itself.

use crate::process::Process;
use crate::{send_with, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// What `nyala config` prints, or the error.
fn config(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_nyala")).arg("config").args(arguments).output().expect("it runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn addresses_are_understood_as_people_write_them() {
    for (written, shown) in [
        ("localhost:9999", "http-bind = \"127.0.0.1:9999\""),
        ("127.0.0.1:9999", "http-bind = \"127.0.0.1:9999\""),
        ("[::1]:9999", "http-bind = \"[::1]:9999\""),
        (":9999", "0.0.0.0:9999 is reachable from other machines"),
        ("example.com:9999", "localhost:8086 or :8086"),
        ("9999", "localhost:8086 or :8086"),
        (":", "localhost:8086 or :8086"),
    ] {
        let told = config(&["--http-bind", written]);
        assert!(told.contains(shown), "{written}: {told}");
    }
    let told = config(&["--http-bind", ":9999", "--auth-enabled"]);
    assert!(told.contains("http-bind = \"0.0.0.0:9999\""), "{told}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "http-bind = \"localhost:7777\"\nallowed-hosts = [\"a\"]\n")
        .expect("written");
    let told = config(&["--config", file.path().to_str().expect("UTF-8")]);
    assert!(told.contains("\"127.0.0.1:7777\"") && told.contains("allowed-hosts = [\"a\"]"), "{told}");
    assert!(told.contains("keep-alive-timeout = \"3m\"") && told.contains("shutdown-timeout = \"8s\""));
    assert!(config(&["--allowed-origins", "grafana"]).contains("allowed-origins"));
}

/// What is wrong in itself is found without a start of the server.
#[test]
fn settings_that_no_server_would_start_with_are_refused_where_they_are_looked_at() {
    for (flag, value, words) in [
        ("--files-s3", "http://archive", "is no bucket such as s3://bucket"),
        ("--files-s3", "s3:///prefix", "is no bucket such as s3://bucket"),
        ("--traces-endpoint", "collector:4318", "has to begin with http:// or https://"),
        ("--log-level", "warning", "is no level: error, warn"),
    ] {
        let told = config(&[flag, value]);
        assert!(told.contains(words), "{flag} {value}: {told}");
    }
    let told = config(&[
        "--files-s3",
        "s3://archive/a,s3://b",
        "--traces-endpoint",
        "http://collector.invalid:4318",
    ]);
    assert!(told.contains("files-s3 = [\"s3://archive/a\", \"s3://b\"]"), "{told}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "max-body-size = 50000000\n").expect("written");
    let told = config(&["--config", file.path().to_str().expect("UTF-8")]);
    assert!(told.contains("max-body-size = \"50000000\""), "{told}");
}

#[test]
fn the_page_of_settings_is_what_the_program_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/settings.md");
    let page = config(&["--markdown"]);
    if std::env::var_os("NYALA_REGENERATE").is_some_and(|value| value == "1") {
        std::fs::write(path, &page).expect("the page is writable");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == page, "write it again: cargo run -- config --markdown > docs/operations/settings.md");
}

#[test]
fn every_setting_is_a_key_a_variable_and_a_flag() {
    let printed = config(&[]);
    let page = config(&["--markdown"]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &printed).expect("written");
    assert_eq!(
        config(&["--config", file.path().to_str().expect("UTF-8")]),
        printed,
        "it is read as it is printed"
    );
    for line in printed.lines() {
        let (key, value) = line.split_once(" = ").expect("a key and a value");
        let variable = format!("NYALA_{}", key.replace('-', "_").to_uppercase());
        assert!(page.contains(&format!("| `{key}`<br>`{variable}` |")), "{key} is on the page");
        let value = value.trim_matches('"');
        let by_flag = config(&[&format!("--{key}={value}")]);
        assert_eq!(by_flag, printed, "--{key}");
        let output = Command::new(env!("CARGO_BIN_EXE_nyala")).arg("config").env(variable, value).output();
        assert_eq!(String::from_utf8_lossy(&output.expect("it runs").stdout), printed, "{key} as a variable");
    }
}

#[test]
fn the_root_path_describes_the_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let answer = send_with(&server, "GET", "/", &[]);
    assert_eq!(answer.status, 200);
    assert!(text(&answer).starts_with("nyala, a time-series database"), "{}", text(&answer));
    assert_eq!(send_with(&server, "POST", "/", &[]).status, 405);
}

#[test]
fn a_connection_that_pauses_too_long_is_closed() {
    const TRIES: usize = 10;
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--keep-alive-timeout", "1s"]);
    // On a busy machine this thread itself may pause too long between two requests.
    let served = (0..TRIES).find_map(|_| {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        (0..3).all(|_| pings(&mut stream).is_ok()).then_some(stream)
    });
    let mut stream = served.expect("a connection serves several requests");
    // No further request comes, so the server closes the connection.
    assert_eq!(stream.read(&mut [0]).expect("closed"), 0);
}

/// Sends a request, and reads the head of its answer.
fn pings(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"HTTP/1.1 204");
    while !answer.ends_with(b"\r\n\r\n") {
        answer.rotate_left(1);
        stream.read_exact(&mut answer[11..])?;
    }
    Ok(())
}
