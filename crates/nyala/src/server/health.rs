//! Health checks: problems of the server, for `/health`, `/metrics` and the log.
//!
//! A check has one of two grades. One that *fails* means that something does not work that clients rely on: writes are
//! rejected, or a flush cannot be written. Then `/health` answers `fail` with 503. A *warning* means that everything
//! still works, for now (the disk is nearly full, a compaction failed) or for good (log records were lost at the
//! start): `/health` answers `pass` with 200 and names the warning. Queries are answered in both cases, so `/ready`
//! answers 200. A load balancer should ask `/ready`, and an alert should ask `/health`.

use super::INFLUXDB_VERSION;
use super::format::push_string;
use super::metric::Metric;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// One of [`NAMES`].
    pub name: &'static str,
    /// Whether it fails; otherwise it is a warning.
    pub fails: bool,
    /// What is wrong, for a person.
    pub message: String,
}

impl Check {
    fn status(&self) -> &'static str {
        if self.fails { "fail" } else { "warn" }
    }
}

/// Lists all problems that exist now.
pub type Checks = Arc<dyn Fn() -> Vec<Check> + Send + Sync>;

/// Whether `/health` passes, and its body in InfluxDB's form. `message` describes the state of the server,
/// `is_answering` says whether it answers queries and writes.
pub fn body(message: &str, is_answering: bool, checks: &[Check]) -> (bool, Vec<u8>) {
    let passes = is_answering && !checks.iter().any(|check| check.fails);
    let failing = checks.iter().filter(|check| check.fails != passes).map(|check| check.message.as_str());
    // A check that fails matters more than that the server is ready.
    let state = Some(message).filter(|_| passes || !is_answering);
    let message = state.into_iter().chain(failing).collect::<Vec<_>>().join("; ");
    let mut body = b"{\"checks\":[".to_vec();
    for (number, check) in checks.iter().enumerate() {
        body.extend_from_slice(if number == 0 { b"{\"message\":" } else { b",{\"message\":" });
        push_string(&mut body, &check.message);
        let rest = format!(",\"name\":\"{}\",\"status\":\"{}\"}}", check.name, check.status());
        body.extend_from_slice(rest.as_bytes());
    }
    body.extend_from_slice(b"],\"message\":");
    push_string(&mut body, &message);
    let word = if passes { "pass" } else { "fail" };
    let rest = format!(",\"name\":\"influxdb\",\"status\":\"{word}\",\"version\":\"{INFLUXDB_VERSION}\"}}");
    body.extend_from_slice(rest.as_bytes());
    (passes, body)
}

/// The same for `/metrics`.
pub fn metric(checks: &[Check]) -> Metric {
    let help = "What is not as it should be: 2 fails, 1 is a warning; the others are 0.";
    debug_assert!(checks.iter().all(|check| NAMES.contains(&check.name)));
    Metric::gauge("nyala_health", help, 0).by_labels(NAMES.map(|name| {
        let of_name = checks.iter().filter(|check| check.name == name);
        let grade = of_name.map(|check| if check.fails { 2 } else { 1 }).max().unwrap_or(0);
        (format!("check=\"{name}\""), grade)
    }))
}

/// The names of all checks.
pub const NAMES: [&str; 9] =
    ["writes", "log", "flush", "catalog", "compaction", "disk", "recovery", "audit", "kudu"];

/// Logs when a problem appears, changes its grade, or is over.
#[derive(Debug, Default)]
pub struct HealthLog {
    known: Mutex<BTreeMap<&'static str, bool>>,
}

impl HealthLog {
    /// Compares the problems with those of the last call.
    pub fn update(&self, checks: &[Check]) {
        // No code under this lock can panic and leave a change unfinished.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeMap<&'static str, bool> =
            checks.iter().map(|check| (check.name, check.fails)).collect();
        for Check { name, fails, message } in
            checks.iter().filter(|check| known.get(check.name) != Some(&check.fails))
        {
            match fails {
                true => tracing::error!(check = name, why = message, "health: fails"),
                false => tracing::warn!(check = name, why = message, "health: a warning"),
            }
        }
        for name in known.keys().filter(|name| !now.contains_key(*name)) {
            tracing::info!(check = name, "health: is well again");
        }
        *known = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, fails: bool, message: &str) -> Check {
        Check { name, fails, message: message.into() }
    }

    #[test]
    fn the_answer_has_influxdbs_form_and_names_the_problems() {
        let shown = |answering, checks: &[Check]| {
            let (passes, body) = body("ready", answering, checks);
            (passes, String::from_utf8(body).expect("UTF-8"))
        };
        let end = "\"name\":\"influxdb\",\"status\":\"pass\",\"version\":\"1.8.10\"}";
        assert_eq!(shown(true, &[]), (true, format!("{{\"checks\":[],\"message\":\"ready\",{end}")));
        let warning = check("disk", false, "the \"disk\" is nearly full");
        let (passes, text) = shown(true, std::slice::from_ref(&warning));
        assert!(
            passes
                && text.ends_with(&format!("\"message\":\"ready; the \\\"disk\\\" is nearly full\",{end}")),
            "{text}"
        );
        assert!(text.contains("\"name\":\"disk\",\"status\":\"warn\""), "{text}");
        let (passes, text) = shown(true, &[warning, check("log", true, "no room")]);
        assert!(
            !passes && text.contains("\"message\":\"no room\",\"name\":\"influxdb\",\"status\":\"fail\""),
            "{text}"
        );
        let (passes, text) = shown(false, &[]);
        assert!(!passes && text.contains("\"message\":\"ready\""), "{text}");
    }
}
