//! Which web pages may use a server, and which host names its requests may have. The rules are tested beside their code
//! (`src/server/http/host_origin.rs`).

use crate::process::Process;
use crate::{send_with, text};

const EVIL: (&str, &str) = ("Origin", "http://evil.example");
const GRAFANA: (&str, &str) = ("Origin", "http://grafana.example.com:3000");

/// The status of an answer, and the origin that may read it.
fn asked(server: &Process, method: &str, target: &str, headers: &[(&str, &str)]) -> (u16, Option<String>) {
    let answer = send_with(server, method, target, headers);
    (answer.status, answer.header("Access-Control-Allow-Origin").map(str::to_owned))
}

#[test]
fn a_page_of_another_site_neither_reads_nor_drops_anything() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &[]);
    server.query("CREATE DATABASE precious");
    let drop = "/query?q=DROP+DATABASE+precious";
    for (method, target, headers) in [
        ("POST", drop, &[EVIL][..]),
        ("GET", drop, &[EVIL]),
        ("OPTIONS", drop, &[EVIL]),
        ("POST", "/write?db=precious", &[EVIL]),
        ("POST", "/api/v2/delete?bucket=precious", &[EVIL]),
        ("GET", "/debug/vars", &[EVIL]),
        ("GET", "/metrics", &[EVIL]),
        ("POST", drop, &[("Origin", "null")]),
        // An image, a link, a form that opens a window.
        ("GET", drop, &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")]),
        ("GET", drop, &[("Sec-Fetch-Site", "same-site")]),
        // A host name of theirs that resolves to this server.
        ("GET", "/query?q=SHOW+DATABASES", &[("Host", "evil.example:8086")]),
        ("POST", drop, &[("Host", "evil.example"), ("Origin", "http://evil.example")]),
        ("GET", "/ping", &[("Host", "evil.example")]),
    ] {
        assert_eq!(asked(&server, method, target, headers), (403, None), "{method} {target} {headers:?}");
    }
    let refused = text(&send_with(&server, "POST", drop, &[EVIL]));
    assert!(refused.contains("http://evil.example") && refused.contains("allowed-origins"), "{refused}");
    let refused = text(&send_with(&server, "GET", drop, &[("Host", "evil.example")]));
    assert!(refused.contains("evil.example") && refused.contains("allowed-hosts"), "{refused}");
    assert!(server.log().contains("who=\"http://evil.example\""), "{}", server.log());
    // Any page may ask whether the server runs, but its browser hides the answer.
    assert_eq!(asked(&server, "GET", "/ping", &[EVIL]), (204, None));
    assert_eq!(asked(&server, "GET", "/health", &[EVIL]), (200, None));
    let port = server.address.port();
    for host in
        ["localhost".to_owned(), format!("localhost:{port}"), format!("127.0.0.1:{port}"), "[::1]".into()]
    {
        let shown = send_with(&server, "GET", "/query?q=SHOW+DATABASES", &[("Host", &host)]);
        assert!(shown.status == 200 && text(&shown).contains("precious"), "{host}");
    }
}

#[test]
fn allowed_pages_and_host_names_are_answered() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = ["--allowed-origins", GRAFANA.1, "--allowed-hosts", "influxdb,influxdb.example.com"];
    let server = Process::start(&directory.path().join("data"), &settings);
    let show = "/query?q=SHOW+DATABASES";
    for method in ["GET", "POST", "OPTIONS"] {
        assert_eq!(asked(&server, method, show, &[GRAFANA]), (200, Some(GRAFANA.1.into())), "{method}");
        assert_eq!(asked(&server, method, show, &[EVIL]), (403, None), "{method}");
    }
    for (host, status) in
        [("influxdb:8086", 200), ("InfluxDB.example.com", 200), ("localhost", 200), ("evil", 403)]
    {
        assert_eq!(asked(&server, "GET", show, &[("Host", host)]).0, status, "{host}");
    }
}

#[test]
fn with_authentication_all_pages_are_answered_unless_allowed_ones_are_listed() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(&directory.path().join("data"), &["--auth-enabled"]);
    let create = "/query?q=CREATE+USER+a+WITH+PASSWORD+%27a%27+WITH+ALL+PRIVILEGES";
    assert_eq!(send_with(&server, "POST", create, &[]).status, 200);
    let show = "/query?u=a&p=a&q=SHOW+DATABASES";
    assert_eq!(asked(&server, "GET", show, &[EVIL, ("Host", "influxdb:8086")]), (200, Some(EVIL.1.into())));
    let settings = ["--auth-enabled", "--allowed-origins", GRAFANA.1, "--allowed-hosts", "a.example"];
    assert!(server.stop().success());
    let server = Process::start(&directory.path().join("data"), &settings);
    assert_eq!(asked(&server, "GET", show, &[EVIL]), (403, None));
    assert_eq!(asked(&server, "GET", show, &[("Host", "influxdb:8086")]), (403, None));
    assert_eq!(asked(&server, "GET", show, &[GRAFANA, ("Host", "a.example")]).0, 200);
}
