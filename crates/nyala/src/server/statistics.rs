//! `SHOW STATS` and `SHOW DIAGNOSTICS` of the server. Values have InfluxDB's names where they mean the same. Values of
//! InfluxDB that have no counterpart here are left out.

use super::INFLUXDB_VERSION;
use super::format::push_rfc3339;
use super::request_metrics::RequestMetrics;
use nyala_core::env::ClockRef;
use nyala_query::report::{Datum, Report};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of continuous queries.
#[derive(Debug, Default)]
pub struct ContinuousCounts {
    /// Windows that were computed and written.
    pub done: AtomicU64,
    /// Windows that failed.
    pub failed: AtomicU64,
}

impl ContinuousCounts {
    /// The report `cq`.
    pub fn report(&self) -> Report {
        let count = |counter: &AtomicU64| Datum::count(counter.load(Ordering::Relaxed));
        Report::new("cq", [("queryFail", count(&self.failed)), ("queryOk", count(&self.done))])
    }
}

/// Requests: the report `httpd`, tagged with the address they were sent to.
pub fn requests(requests: &RequestMetrics, address: String) -> Report {
    let requests = requests.counts();
    let sum = |counted: &dyn Fn(&str, u16) -> bool| {
        let counted = requests.iter().filter(|(path, status, _)| counted(path, *status));
        Datum::count(counted.map(|(_, _, count)| count).sum())
    };
    let of_path = |wanted: &[&str]| sum(&|path, _| wanted.contains(&path));
    let values = [
        ("authFail", sum(&|_, status| status == 401)),
        ("clientError", sum(&|_, status| status / 100 == 4)),
        ("pingReq", of_path(&["/ping"])),
        ("promReadReq", of_path(&["/api/v1/prom/read"])),
        ("promWriteReq", of_path(&["/api/v1/prom/write"])),
        ("queryReq", of_path(&["/query"])),
        ("req", sum(&|_, _| true)),
        ("serverError", sum(&|_, status| status / 100 == 5)),
        ("statusReq", of_path(&["/status"])),
        ("writeReq", of_path(&["/write", "/api/v2/write"])),
    ];
    Report::new("httpd", values).with_tags(vec![("bind", address)])
}

/// Memory: the report `runtime`.
pub fn memory(used_bytes: u64, limit_bytes: u64) -> Report {
    let used = Datum::count(used_bytes);
    Report::new("runtime", [("Alloc", used.clone()), ("HeapAlloc", used), ("Sys", Datum::count(limit_bytes))])
}

/// What runs, since when, on which system.
pub fn facts(clock: &ClockRef, started_ns: i64) -> Vec<Report> {
    let text = |text: &str| Datum::Text(text.to_owned());
    let now_ns = clock.now_ns();
    // InfluxDB shows Go's names for architectures.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let uptime = std::time::Duration::from_nanos((now_ns - started_ns).max(0) as u64);
    vec![
        Report::new(
            "build",
            [
                ("Branch", text("")),
                ("Build Time", text("")),
                ("Commit", text(env!("NYALA_COMMIT"))),
                // The version whose behaviour clients get, and nyala's own.
                ("Version", text(INFLUXDB_VERSION)),
                ("nyala", text(env!("CARGO_PKG_VERSION"))),
            ],
        ),
        Report::new("network", [("hostname", text(&hostname()))]),
        Report::new(
            "runtime",
            [
                ("GOARCH", text(architecture)),
                ("GOMAXPROCS", Datum::count(cores as u64)),
                ("GOOS", text(std::env::consts::OS)),
            ],
        ),
        Report::new(
            "system",
            [
                ("PID", Datum::Integer(std::process::id().into())),
                ("currentTime", text(&shown(now_ns))),
                ("started", text(&shown(started_ns))),
                ("uptime", text(&format!("{}.{:09}s", uptime.as_secs(), uptime.subsec_nanos()))),
            ],
        ),
    ]
}

/// The name of this machine.
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Settings by name as `nyala config` prints them, so without secrets.
pub fn settings(config: &toml::Table) -> Report {
    let value = |value: &toml::Value| match value {
        toml::Value::Integer(number) => Datum::Integer(*number),
        toml::Value::Boolean(is) => Datum::Boolean(*is),
        toml::Value::String(text) => Datum::Text(text.clone()),
        other => Datum::Text(other.to_string()),
    };
    Report::new("config", config.iter().map(|(name, own)| (name.as_str(), value(own))))
}

/// A time of day in RFC 3339.
pub fn shown(time_ns: i64) -> String {
    let mut text = Vec::new();
    push_rfc3339(&mut text, time_ns, None);
    String::from_utf8_lossy(&text).into_owned()
}
