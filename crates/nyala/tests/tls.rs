//! HTTPS, and a certificate that is renewed while the server runs. openssl makes the certificates and is the client;
//! without it these tests are skipped (`support/peers.rs`).

#[path = "support/certificate.rs"]
mod certificate;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/peers.rs"]
mod peers;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use certificate::{has_openssl, make};
use process::Process;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The answer to a client that trusts one certificate; empty if it does not trust the server.
fn ping(server: &Process, trusted: &Path) -> String {
    ask(server, trusted, "GET /ping")
}

/// The same for any request without a body.
fn ask(server: &Process, trusted: &Path, request: &str) -> String {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &server.address.to_string(),
            "-verify_return_error",
            "-quiet",
            "-CAfile",
        ])
        .arg(trusted)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let request =
        format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    // A client that gave up reads nothing.
    let _ = client.stdin.take().expect("piped").write_all(request.as_bytes());
    let output = client.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_renewed_certificate_is_served_without_a_restart() {
    if !has_openssl() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    make(&path("old.pem"), &path("key.pem"));
    std::fs::copy(path("old.pem"), path("served.pem")).expect("copied");
    let texts = [path("served.pem"), path("key.pem")].map(|path| path.to_str().expect("UTF-8").to_owned());
    let arguments = ["--https-certificate", &*texts[0], "--https-private-key", &*texts[1]];
    let server = Process::spawn(&path("data"), &arguments);
    wait_for("it answers", || ping(&server, &path("old.pem")).starts_with("HTTP/1.1 204"));
    assert_eq!(server.status("/ping"), 0, "nothing goes in the clear");

    make(&path("new.pem"), &path("key.pem"));
    std::fs::copy(path("new.pem"), path("served.pem")).expect("copied");
    assert!(ping(&server, &path("old.pem")).starts_with("HTTP/1.1 204"), "the old one until it is told");
    server.signal("HUP");
    wait_for("the new one is served", || ping(&server, &path("new.pem")).starts_with("HTTP/1.1 204"));
    assert_eq!(ping(&server, &path("old.pem")), "");

    std::fs::write(path("served.pem"), "broken").expect("written");
    server.signal("HUP");
    wait_for("it says so", || server.log().contains("the previous one stays in use"));
    assert!(ping(&server, &path("new.pem")).starts_with("HTTP/1.1 204"));
    assert!(server.stop().success());

    let mut refused = Process::spawn(&path("data"), &arguments);
    assert!(!refused.wait().success(), "it does not start with a broken certificate");
    assert!(refused.log().contains("served.pem"), "{}", refused.log());
}

#[test]
fn a_client_that_does_not_shake_hands_holds_no_shutdown_up() {
    if !has_openssl() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    make(&path("own.pem"), &path("key.pem"));
    let texts = [path("own.pem"), path("key.pem")].map(|path| path.to_str().expect("UTF-8").to_owned());
    // Less than a client may take to shake hands, which is 30 s, and more than a busy machine takes to stop.
    let arguments =
        ["--https-certificate", &*texts[0], "--https-private-key", &*texts[1], "--shutdown-timeout", "20s"];
    let mut server = Process::spawn(&path("data"), &arguments);
    wait_for("it answers", || ping(&server, &path("own.pem")).starts_with("HTTP/1.1 204"));
    let silent = std::net::TcpStream::connect(server.address).expect("it listens");
    let two = "nyala_connections{listener=\"http-bind\"} 2";
    wait_for("it is accepted", || ask(&server, &path("own.pem"), "GET /metrics").contains(two));
    server.signal("TERM");
    assert!(server.wait().success());
    assert!(!server.log().contains("aborted"), "{}", server.log());
    drop(silent);
}

#[test]
fn points_reach_a_subscriber_over_https_if_its_certificate_is_trusted() {
    if !has_openssl() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    make(&path("own.pem"), &path("key.pem"));
    make(&path("other.pem"), &path("other-key.pem"));
    let text = |name: &str| path(name).to_str().expect("UTF-8").to_owned();
    let arguments = ["--https-certificate", &*text("own.pem"), "--https-private-key", &*text("key.pem")];
    let target = Process::spawn(&path("target"), &arguments);
    let created = "POST /query?q=CREATE+DATABASE+d";
    wait_for("it answers", || ask(&target, &path("own.pem"), created).starts_with("HTTP/1.1 200"));
    let source = |name: &str, trusted: &str| {
        let trusted = text(trusted);
        let source = Process::spawn_in(&path(name), &[], &[("SSL_CERT_FILE", &*trusted)]);
        source.wait_until_ready(Duration::from_secs(120));
        source.query("CREATE DATABASE d");
        let create =
            format!("CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'https://{}'", target.address);
        assert!(!source.query(&create).to_string().contains("error"));
        source
    };
    let (trusting, other) = (source("trusting", "own.pem"), source("other", "other.pem"));
    assert_eq!(other.write("m v=1i 1").status, 204);
    wait_for("it is not trusted", || {
        let stats = other.query("SHOW STATS FOR 'subscriber'");
        stats["results"][0]["series"][0]["values"] == serde_json::json!([[0, 0, 0, 1]])
    });
    assert_eq!(trusting.write("m v=7i 7").status, 204);
    let select = "GET /query?db=d&epoch=ns&q=SELECT+v+FROM+m";
    wait_for("the point is there", || ask(&target, &path("own.pem"), select).contains("[[7,7]]"));
}
