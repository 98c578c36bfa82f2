//! Servers that are there, that are not, that ask who it is, and data without a server.

use super::process::Process;
use super::terminal::Terminal;
use super::{POINTS, certificate, client, printed, run, shell, started};
use std::path::Path;

#[test]
fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let port = client::free_address().port().to_string();
    let outcome = run(&["--port", &port, "-c", "SHOW DATABASES"], &[], "");
    assert_eq!((outcome.code, &*outcome.out), (2, ""));
    assert!(outcome.errors.contains(&format!("connecting to http://127.0.0.1:{port}: ")), "{outcome:?}");
    assert!(outcome.errors.contains("`nyala serve`") && outcome.errors.contains("--data-dir"), "{outcome:?}");
    // One that goes away.
    let mut server = started(dir.path(), &[]);
    assert_eq!(shell(&server, &["-c", "SHOW DATABASES"], "").code, 0);
    server.kill();
    assert_eq!(shell(&server, &["-c", "SHOW DATABASES"], "").code, 2);
    for wrong in [
        &["--url", "ftp://x"][..],
        &["--url", "http://127.0.0.1/path"],
        &["--port", "x"],
        &["--precision", "d"],
    ] {
        assert_ne!(run(wrong, &[], "").code, 0);
    }
}

#[test]
fn a_user_logs_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = "of thirty-two bytes, at the least";
    let server = Process::start(dir.path(), &["--auth-enabled", "--shared-secret", secret]);
    server
        .send(
            "POST",
            "/query?q=CREATE%20USER%20ann%20WITH%20PASSWORD%20'p%C3%A4ss'%20WITH%20ALL%20PRIVILEGES",
            b"",
        )
        .expect("an answer");
    let port = server.address.port().to_string();
    let ask = |arguments: &[&str], variables: &[(&str, &str)]| {
        let arguments = [&["--port", &*port, "-c", "SHOW USERS"][..], arguments].concat();
        run(&arguments, variables, "")
    };
    let text = printed(ask(&["-u", "ann"], &[("NYALA_PASSWORD", "päss")]));
    assert!(text.contains("ann"), "{text}");
    printed(ask(&[], &[("INFLUX_USERNAME", "ann"), ("INFLUX_PASSWORD", "päss")]));
    for outcome in
        [ask(&[], &[]), ask(&["-u", "ann"], &[("NYALA_PASSWORD", "wrong")]), ask(&["--token", "x.y.z"], &[])]
    {
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.errors.contains("ERROR") && outcome.errors.contains("--username"), "{outcome:?}");
        assert!(!outcome.errors.contains("wrong"), "{outcome:?}");
    }
    // At the prompt nothing of the password is shown.
    let home = dir.path().to_str().expect("UTF-8");
    let arguments = ["shell", "--port", &port, "-u", "ann"];
    let mut terminal =
        Terminal::start(env!("CARGO_BIN_EXE_nyala"), &arguments, &[("HOME", home), ("XDG_STATE_HOME", "")]);
    terminal.asks_for_secret("Password of ann: ");
    terminal.types("typo\u{15}päsx\u{7f}s\r");
    terminal.asks("influxql> ");
    terminal.types("SHOW USERS\r");
    terminal.shows("ann");
    terminal.asks("influxql> ");
    terminal.types("CREATE USER ben WITH PASSWORD 'secret'\r");
    terminal.asks("influxql> ");
    terminal.types("auth ben\r");
    terminal.asks_for_secret("Password of ben: ");
    terminal.types("secret\r");
    terminal.asks("influxql> ");
    terminal.types("\u{4}");
    assert!(!terminal.all().contains("päs") && !terminal.all().contains("typo"));
    assert!(terminal.ends().success());
    let history =
        std::fs::read_to_string(dir.path().join(".local/state/nyala/shell_history")).expect("is there");
    assert!(history.contains("SHOW USERS") && !history.contains("secret"), "{history}");
}

#[test]
fn a_directory_is_served_for_the_life_of_the_shell() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().to_str().expect("UTF-8");
    let server = Process::start(dir.path(), &[]);
    server.query("CREATE DATABASE d");
    assert_eq!(server.write(POINTS).status, 204);
    // Somebody else serves it.
    let refused = run(&["--data-dir", data, "-c", "SHOW DATABASES"], &[], "");
    assert_eq!((refused.code, &*refused.out), (1, ""), "{refused:?}");
    assert!(refused.errors.contains("another process"), "{refused:?}");
    assert!(server.stop().success());
    let text =
        printed(run(&["--data-dir", data, "-d", "d"], &[], "insert m,host=c v=9 5\nSELECT count(v) FROM m"));
    assert!(text.contains("| 3") || text.contains(" 3\n"), "{text}");
    assert_eq!(run(&["--data-dir", data, "-d", "d", "-c", "SELECT * FRM m"], &[], "").code, 1);
    let server = Process::start(dir.path(), &[]);
    assert_eq!(server.number("SELECT count(v) FROM m"), 3);
    assert_ne!(run(&["--data-dir", data, "--port", "1"], &[], "").code, 0);
}

#[test]
fn certificates_are_trusted_when_they_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    if !certificate::has_openssl() {
        return;
    }
    let (certificate, key) = (dir.path().join("certificate"), dir.path().join("key"));
    certificate::make(&certificate, &key);
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (certificate, key) = (text(&certificate), text(&key));
    let arguments = ["--https-certificate", &*certificate, "--https-private-key", &key];
    let server = Process::spawn(&dir.path().join("data"), &arguments);
    let url = format!("https://{}", server.address);
    let ask = |arguments: &[&str]| {
        run(&[&["--url", &*url, "-c", "SHOW DATABASES"][..], arguments].concat(), &[], "")
    };
    let begun = std::time::Instant::now();
    while ask(&["--insecure"]).code != 0 {
        assert!(begun.elapsed().as_secs() < 60, "{:?}: {}", ask(&["--insecure"]), server.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(printed(ask(&["--ca", &certificate])).contains("name: databases"));
    for wrong in [&[][..], &["--ca", &key], &["--ca", "/nonexistent"]] {
        let outcome = ask(wrong);
        assert_ne!(outcome.code, 0, "{outcome:?}");
        assert!(outcome.errors.contains("ERROR"), "{outcome:?}");
    }
    // HTTP at a port of HTTPS.
    let port = server.address.port().to_string();
    assert_eq!(run(&["--port", &port, "-c", "SHOW DATABASES"], &[], "").code, 2);
}
