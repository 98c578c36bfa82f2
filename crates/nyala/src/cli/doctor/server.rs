//! A running server: whether it is well (`/health`), what its metrics hint at, and whether it runs with the settings that
//! are looked at here.

use super::process::ServerProcess;
use crate::cli::findings::Finding;
use crate::config::Config;
use base64ct::{Base64, Encoding};
use nyala_client::{Body, ClientError, Connection, Target, Trust};
use serde_json::Value;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take to say how it is.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Metrics of a server with many users are a few kilobytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The histogram of syncs of the log.
const SYNCS: &str = "nyala_log_sync_duration_seconds";

/// Where the server is, and who asks.
pub(super) struct Address {
    pub(super) url: Option<String>,
    pub(super) ca: Option<PathBuf>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

/// An answer: its status and its body.
type Answer = Result<(u16, String), ClientError>;

pub(super) fn look(config: &Config, at: &Address, process: Option<&ServerProcess>) -> Vec<Finding> {
    let url = at.url.clone().unwrap_or_else(|| own_url(config));
    let ask = |path: &str| ask(&url, at, path);
    let (status, health) = match ask("/health") {
        Ok(answer) => answer,
        Err(error) => {
            let expected = match at.url.is_some() || process.is_some() {
                true => Expected::Certainly,
                false if has_data(&config.data_dir) => Expected::Probably,
                false => Expected::No,
            };
            return vec![judge_silence(&url, &error, expected)];
        }
    };
    let mut findings = judge_health(&url, status, &health);
    match ask("/metrics") {
        Ok((200, text)) => findings.extend(judge_metrics(&Samples(&text), config)),
        Ok((status @ (401 | 403), _)) => findings.push(Finding::ok(
            "metrics",
            format!(
                "metrics were not looked at ({status}): -u ADMINISTRATOR, with the password in NYALA_PASSWORD"
            ),
        )),
        Ok((status, _)) => findings.push(not_read("/metrics", &format!("status {status}"))),
        Err(error) => findings.push(not_read("/metrics", &error.to_string())),
    }
    if let Ok((200, text)) = ask("/query?q=SHOW+DIAGNOSTICS") {
        findings.extend(judge_settings(&text, config));
    }
    findings
}

/// The address of a server with these settings, on this machine.
fn own_url(config: &Config) -> String {
    let scheme = if config.https_certificate.is_some() { "https" } else { "http" };
    let mut address = config.http_bind.0;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        });
    }
    format!("{scheme}://{address}")
}

fn ask(url: &str, at: &Address, path: &str) -> Answer {
    let trust = at.ca.clone().map_or(Trust::System, Trust::File);
    let target = Target::trusting(url, &trust)?;
    let mut headers = String::new();
    if let Some(name) = &at.username {
        let password = at.password.as_deref().unwrap_or_default();
        let both = Base64::encode_string(format!("{name}:{password}").as_bytes());
        headers = format!("Authorization: Basic {both}\r\n");
    }
    let mut body = Vec::new();
    let into = Body::Collect { into: &mut body, limit_bytes: ANSWER_BYTES_MAX };
    let mut connection = Connection::new(&target, TIMEOUT);
    let response = connection.request("GET", path, &headers, b"", into)?;
    Ok((response.status, String::from_utf8_lossy(&body).into_owned()))
}

fn not_read(what: &str, why: &str) -> Finding {
    Finding::warning(
        "server",
        format!("{what}: {why}"),
        "what it would say is unknown",
        "ask it by hand: curl",
    )
}

/// Whether a server should answer.
enum Expected {
    /// It runs, or its address was given.
    Certainly,
    /// It has run.
    Probably,
    No,
}

/// Whether a server has stored something in a directory.
fn has_data(data_dir: &Path) -> bool {
    let mut entries = std::fs::read_dir(data_dir).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("manifest-"))
}

fn judge_silence(url: &str, error: &ClientError, expected: Expected) -> Finding {
    let found = format!("no server answers at {url}: {error}");
    match expected {
        Expected::No => Finding::ok("server", found),
        Expected::Probably => Finding::warning(
            "server",
            format!("there are data, but {found}"),
            "clients get no answer",
            "start it (systemctl start nyala), after a look at the end of its log; or name its address with --url",
        ),
        Expected::Certainly => Finding::problem(
            "server",
            found,
            "clients get no answer either, or it is at another address",
            "read the end of its log; with TLS name its authority with --ca, and its name with --url",
        ),
    }
}

fn judge_health(url: &str, status: u16, text: &str) -> Vec<Finding> {
    let Ok(health) = serde_json::from_str::<Value>(text) else {
        return vec![not_read(&format!("{url}/health"), "the answer is not that of nyala")];
    };
    let checks = health["checks"].as_array().into_iter().flatten();
    let mut findings: Vec<Finding> = checks
        .map(|check| {
            let word = |name: &str| check[name].as_str().unwrap_or("?");
            let found = format!("the check {} says: {}", word("name"), word("message"));
            let advice = "docs/operations/monitoring.md#health says what to do for each check";
            match word("status") {
                "fail" => Finding::problem("health", found, "clients are refused, or will be", advice),
                _ => Finding::warning("health", found, "everything works, for now", advice),
            }
        })
        .collect();
    if findings.is_empty() {
        let message = health["message"].as_str().unwrap_or("?");
        findings.push(match status {
            200 => Finding::ok("health", format!("{url} is well: {message}")),
            _ => Finding::warning(
                "health",
                format!("{url}: {message}"),
                "clients are told to wait",
                "wait, and look again",
            ),
        });
    }
    findings
}

/// Metrics in Prometheus' text format.
struct Samples<'a>(&'a str);

impl Samples<'_> {
    /// The sum of the values of a metric whose labels hold this text.
    fn sum(&self, name: &str, labels: &str) -> f64 {
        let values = self.0.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let rest = series.strip_prefix(name)?;
            let fits = (rest.is_empty() || rest.starts_with('{')) && rest.contains(labels);
            fits.then(|| value.parse::<f64>().ok()).flatten()
        });
        values.sum()
    }

    fn all(&self, name: &str) -> f64 {
        self.sum(name, "")
    }
}

/// What has gone wrong since the start of the server, or is about to.
fn judge_metrics(samples: &Samples<'_>, config: &Config) -> Vec<Finding> {
    let all = |name: &str| samples.all(name);
    if all("nyala_connections_max") == 0.0 {
        // InfluxDB's /health has the same form.
        return vec![Finding::problem(
            "metrics",
            "the server at this address is another program, perhaps InfluxDB: it has no metrics of nyala",
            "nyala cannot listen there as long as it runs",
            "stop it, or say another --http-bind",
        )];
    }
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let syncs = all(&format!("{SYNCS}_count"));
    let sync_ms = 1000.0 * share(all(&format!("{SYNCS}_sum")), syncs);
    let index = share(
        samples.sum("nyala_memory_bytes", "component=\"series_index\""),
        all("nyala_memory_limit_bytes"),
    );
    let files = share(all("process_open_fds"), all("process_max_fds"));
    let postgres = share(all("nyala_postgres_connections"), all("nyala_postgres_connections_max"));
    let http = share(all("nyala_connections"), all("nyala_connections_max"));
    let in_file = config.certificates().ok().flatten().and_then(|own| own.not_after_s());
    let served = all("nyala_certificate_not_after_seconds");
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let judged = [
        (
            all("nyala_writes_refused_total") > 0.0,
            format!(
                "{} batches were refused since the start for want of memory",
                all("nyala_writes_refused_total")
            ),
            "clients had to send them again, or lost them",
            "raise memory-limit, or have fewer clients write at once",
        ),
        (
            all("nyala_connections_closed_for_others_total") > 0.0
                || all("nyala_postgres_connections_refused_total") > 0.0,
            "connections were closed for others, or refused, since the start".to_owned(),
            "all of them were in use",
            "docs/operations/memory.md#how-many-connections",
        ),
        (
            http > 0.8 || postgres > 0.8,
            format!(
                "{} of the connections are in use ({} of PostgreSQL's clients)",
                percent(http),
                percent(postgres)
            ),
            "the next clients are refused, or others are closed for them",
            "raise memory-limit, or have clients share connections",
        ),
        (
            files > 0.8,
            format!("{} of the open files that the system allows are in use", percent(files)),
            "without them neither connections nor files of data can be opened",
            "raise LimitNOFILE of the unit, or `ulimit -Hn`",
        ),
        (
            index > 0.4,
            format!("the series index takes {} of the memory", percent(index)),
            "new series are rejected at a half",
            "fewer tag values, shorter retention, or more memory: docs/operations/memory.md",
        ),
        (
            syncs >= 10.0 && sync_ms > 50.0,
            format!("a sync of the log takes {sync_ms:.0} ms on average"),
            "each acknowledged write waits for one",
            "a disk of its own, or a faster one; look with `iostat -x` who else uses it",
        ),
        (
            all("nyala_flush_failures_total") + all("nyala_compaction_failures_total") > 0.0,
            "flushes or compactions have failed since the start".to_owned(),
            "rows stay in memory, or queries become slower",
            "the server's log says why",
        ),
        (
            in_file.is_some_and(|in_file| served > 0.0 && in_file as f64 > served),
            "the server still uses a certificate that is older than the one in the file".to_owned(),
            "clients will refuse it when it expires",
            "send SIGHUP to the server",
        ),
    ];
    let wrong = judged.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    let mut findings: Vec<Finding> =
        wrong.map(|(_, found, why, advice)| Finding::warning("metrics", found, why, advice)).collect();
    if findings.is_empty() {
        findings.push(Finding::ok("metrics", "the server's metrics hint at nothing"));
    }
    findings
}

/// Compares the settings of the server with those that are looked at here.
fn judge_settings(text: &str, config: &Config) -> Option<Finding> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let reports = answer["results"][0]["series"].as_array()?;
    let report = reports.iter().find(|report| report["name"] == "config")?;
    let (names, values) = (report["columns"].as_array()?, report["values"][0].as_array()?);
    let own = toml::Table::try_from(config).ok()?;
    let mut other: Vec<&str> = names
        .iter()
        .zip(values)
        .filter_map(|(name, value)| {
            let (name, own) = (name.as_str()?, own.get(name.as_str()?)?);
            let is_same = match own {
                toml::Value::Integer(number) => value.as_i64() == Some(*number),
                toml::Value::Boolean(is) => value.as_bool() == Some(*is),
                toml::Value::String(text) => value.as_str() == Some(text),
                list => value.as_str() == Some(&list.to_string()),
            };
            // A path may be written in two ways.
            (!is_same && name != "data-dir").then_some(name)
        })
        .collect();
    other.sort_unstable();
    Some(match other.is_empty() {
        true => Finding::ok("settings", "the server runs with these settings"),
        false => Finding::warning(
            "settings",
            format!("the server runs with other values of {}", other.join(", ")),
            "what was looked at here is not what the server does",
            "give `nyala doctor` the same file, variables and flags, or restart the server",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;
    use crate::config::GivenConfig;

    #[test]
    fn metrics_are_read_by_name_and_label() {
        let samples = Samples("# TYPE a counter\na 1\na_total 7\na{x=\"1\"} 2\na{x=\"2\"} 4.5\n");
        assert_eq!((samples.all("a"), samples.sum("a", "x=\"2\""), samples.all("b")), (7.5, 4.5, 0.0));
    }

    #[test]
    fn a_server_is_judged_by_its_own_words() {
        let config = GivenConfig::default().resolve(None).unwrap();
        let judged = |text: &str| judge_metrics(&Samples(text), &config)[0].grade;
        assert_eq!(judged("go_goroutines 7"), Grade::Problem);
        let graded = |text: &str| judged(&format!("nyala_connections_max{{listener=\"other\"}} 1\n{text}"));
        assert_eq!(graded(""), Grade::Ok);
        for hint in [
            "nyala_writes_refused_total 1",
            "nyala_connections_closed_for_others_total{listener=\"http-bind\"} 1",
            "nyala_connections{listener=\"http-bind\"} 9\nnyala_connections_max{listener=\"http-bind\"} 10",
            "process_open_fds 9\nprocess_max_fds 10",
            "nyala_memory_bytes{component=\"series_index\"} 45\nnyala_memory_limit_bytes 100",
            "nyala_log_sync_duration_seconds_sum 1\nnyala_log_sync_duration_seconds_count 10",
            "nyala_compaction_failures_total 1",
        ] {
            assert_eq!(graded(hint), Grade::Warning, "{hint}");
        }
        let health = |status, checks: &str| {
            let text = format!("{{\"checks\":[{checks}],\"message\":\"m\"}}");
            judge_health("http://x", status, &text).remove(0).grade
        };
        assert_eq!((health(200, ""), health(503, "")), (Grade::Ok, Grade::Warning));
        assert_eq!(health(200, "{\"name\":\"disk\",\"status\":\"warn\",\"message\":\"m\"}"), Grade::Warning);
        assert_eq!(health(503, "{\"name\":\"log\",\"status\":\"fail\",\"message\":\"m\"}"), Grade::Problem);
        let open: GivenConfig =
            toml::from_str("http-bind = \"[::]:1\"\nallow-unauthenticated = true").unwrap();
        assert_eq!(own_url(&open.resolve(None).unwrap()), "http://[::1]:1");
    }
}
