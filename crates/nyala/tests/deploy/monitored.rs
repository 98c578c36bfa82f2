//! Two servers that a real Prometheus scrapes: one with users and clients of every kind, one with TLS.

use crate::certificate;
use crate::client::{self, Request, percent_encode};
use crate::peers;
use crate::process::Process;
use crate::prometheus_server::PrometheusServer;
use crate::root;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Servers and Prometheus.
pub(crate) struct Monitored {
    pub(crate) server: Process,
    _with_tls: Process,
    pub(crate) prometheus: PrometheusServer,
    _directory: tempfile::TempDir,
}

const LOGIN: &str = "u=ann&p=secret";

impl Monitored {
    /// Starts them, if Prometheus is there.
    pub(crate) fn start() -> Option<Self> {
        let program = std::env::var("NYALA_PROMETHEUS").unwrap_or_else(|_| "prometheus".to_owned());
        let found = peers::works(&program, &["--version"]).then_some(());
        peers::require("Prometheus", "install Debian's package prometheus", found)?;
        if !certificate::has_openssl() {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let server = filled_server(&path("data"));
        certificate::make(&path("cert.pem"), &path("key.pem"));
        let texts = [path("cert.pem"), path("key.pem")].map(|path| path.to_str().expect("UTF-8").to_owned());
        let with_tls = Process::spawn(
            &path("with-tls"),
            &["--https-certificate", &texts[0], "--https-private-key", &texts[1]],
        );
        let rules = root().join("deploy/prometheus/alerts.yml");
        // A server must answer within the interval, and where it once does not, nothing is known of it for as long.
        let prometheus = PrometheusServer::start(&program, &path("prometheus"), |_| {
            format!(
                "global: {{scrape_interval: 2s, evaluation_interval: 1s}}\n\
                 rule_files: [{}]\n\
                 scrape_configs:\n\
                 - job_name: nyala\n\
                 \x20 basic_auth: {{username: ann, password: secret}}\n\
                 \x20 static_configs: [{{targets: ['{}']}}]\n\
                 - job_name: nyala-with-tls\n\
                 \x20 scheme: https\n\
                 \x20 tls_config: {{insecure_skip_verify: true}}\n\
                 \x20 static_configs: [{{targets: ['{}']}}]\n",
                rules.display(),
                server.address,
                with_tls.address
            )
        });
        let monitored = Self { server, _with_tls: with_tls, prometheus, _directory: directory };
        monitored.wait_until("both servers are scraped", || {
            monitored.prometheus.ask("sum(up)").contains(r#","2"]"#)
        });
        Some(monitored)
    }

    /// One of each kind of request: good ones, wrong ones, and one without a log-in.
    pub(crate) fn be_busy(&self) {
        for (method, target, body, status) in [
            ("POST", "/write?db=d", "m,t=a v=2 2", 204),
            ("POST", "/write?db=d", "m,t=a", 400),
            ("GET", "/query?db=d&q=SELECT+mean(v)+FROM+m", "", 200),
            ("POST", "/api/sql?db=d", "SELECT count(*) FROM m", 200),
        ] {
            let login = if target.contains('?') { format!("{target}&{LOGIN}") } else { target.to_owned() };
            let answer = self.server.send(method, &login, body.as_bytes()).expect("an answer");
            assert_eq!(answer.status, status, "{target} {body}: {}", String::from_utf8_lossy(&answer.body));
        }
        assert_eq!(self.server.status("/query?q=SHOW+DATABASES&u=ann&p=wrong"), 401);
    }

    /// Waits while clients are busy.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(180), "not within three minutes: {what}");
            self.be_busy();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// What `/metrics` says.
    pub(crate) fn metrics(&self) -> String {
        let answer = self.server.send("GET", &format!("/metrics?{LOGIN}"), b"").expect("an answer");
        String::from_utf8(answer.body).expect("UTF-8")
    }

    /// How many series the value of an expression has.
    pub(crate) fn count(&self, expression: &str) -> usize {
        let answer = self.prometheus.ask(expression);
        let read: Value = serde_json::from_str(&answer).unwrap_or_default();
        assert_eq!(read["status"], "success", "{expression}: {answer}");
        let result = &read["data"]["result"];
        // Of a number, such as the one of vector(1).
        result.as_array().map_or(0, Vec::len)
    }

    /// What Prometheus lists at one of its addresses.
    pub(crate) fn list(&self, target: &str) -> Vec<Value> {
        let answer = self.prometheus.get(target);
        let read: Value = serde_json::from_str(&answer).unwrap_or_default();
        read["data"].as_array().unwrap_or_else(|| panic!("{target}: {answer}")).clone()
    }

    /// Complains about metrics, and labels of them, that an expression names and that are not there.
    pub(crate) fn check_names(&self, expression: &str) {
        let selectors = selectors(expression);
        assert!(!selectors.is_empty(), "no metric in {expression}");
        for (metric, labels) in selectors {
            let target = format!("/api/v1/series?match[]={}", percent_encode(&metric));
            let series = self.list(&target);
            assert!(!series.is_empty(), "{expression}: there is no {metric}");
            for label in labels {
                assert!(series.iter().any(|one| one.get(&label).is_some()), "{metric} has no label {label}");
            }
        }
    }
}

/// The metrics of an expression, with the labels that it names in their braces.
fn selectors(expression: &str) -> Vec<(String, Vec<String>)> {
    let name = regex::Regex::new(r#"\b(up|(?:nyala|process)_[a-z0-9_]+)\b(?:\{([^}]*)\})?"#).expect("valid");
    let label = regex::Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*""#).expect("valid");
    let of = |braces: &str| label.captures_iter(braces).map(|found| found[1].to_owned()).collect();
    let found = name.captures_iter(expression);
    found
        .map(|found| (found[1].to_owned(), found.get(2).map_or_else(Vec::new, |own| of(own.as_str()))))
        .collect()
}

/// A server with a user, points in files, and whatever has metrics only if it is asked for.
fn filled_server(data_dir: &Path) -> Process {
    let [postgres, flight, udp] = [0; 3].map(|_| client::free_address().to_string());
    let audit_log = data_dir.with_extension("audit").to_str().expect("UTF-8").to_owned();
    let arguments = [
        ["--postgres-bind", &postgres],
        ["--flight-bind", &flight],
        ["--udp-bind", &udp],
        ["--audit-log", &audit_log],
        // Clients fail to log in all the time.
        ["--log-in-failures", "0"],
        ["--slow-query-threshold", "1u"],
        // Nobody is there to take them.
        ["--traces-endpoint", "http://127.0.0.1:1"],
    ];
    let arguments = [&["--auth-enabled"][..], arguments.as_flattened()].concat();
    let server = Process::start(data_dir, &arguments);
    let ask = |login: &str, statement: &str| {
        let request = Request {
            method: "POST".to_owned(),
            target: format!("/query?{login}&q={}", percent_encode(statement)),
            headers: Vec::new(),
            body: Vec::new(),
        };
        let answer = client::send(server.address, &request).expect("an answer");
        assert_eq!(answer.status, 200, "{statement}: {}", String::from_utf8_lossy(&answer.body));
    };
    ask("", "CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES");
    ask(LOGIN, "CREATE DATABASE d");
    let lines: String = (0..5000).map(|row| format!("m,t=a v={row} {row}\n")).collect();
    let written = server.send("POST", &format!("/write?db=d&{LOGIN}"), lines.as_bytes()).expect("an answer");
    assert_eq!(written.status, 204);
    // A stop writes them to files.
    assert!(server.stop().success());
    Process::start(data_dir, &arguments)
}
