//! What is not as it should be: for `/health`, for metrics and for the log.
//!
//! Two grades. What *fails* keeps clients from something they may expect at any time: writes are not taken, or what was
//! written cannot leave memory. Then `/health` says `fail` with 503. What is a *warning* lets everything work for now (the
//! disk is nearly full, a compaction failed) or for good (records of the log were lost at the start): `/health` says
//! `pass` with 200 and names it. Queries are answered in either case, and `/ready` says so with 200: whoever must know
//! whether to send requests here asks that, and whoever wants to be woken asks `/health`.

use super::format::push_string;
use super::http::INFLUXDB_VERSION;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What: a word.
    pub name: &'static str,
    /// Whether it keeps clients from something.
    pub fails: bool,
    /// What is the matter, for a person.
    pub message: String,
}

impl Check {
    fn status(&self) -> &'static str {
        if self.fails { "fail" } else { "warn" }
    }
}

/// What tells all that is not as it should be, now.
pub type Checks = Arc<dyn Fn() -> Vec<Check> + Send + Sync>;

/// InfluxDB's answer to `/health`. `message` says what the server is at, and `is_answering` whether that is to answer.
pub fn body(message: &str, is_answering: bool, checks: &[Check]) -> (bool, Vec<u8>) {
    let passes = is_answering && !checks.iter().any(|check| check.fails);
    let failing = checks.iter().filter(|check| check.fails != passes).map(|check| check.message.as_str());
    // What fails is more to know than that the server is ready.
    let stage = Some(message).filter(|_| passes || !is_answering);
    let message = stage.into_iter().chain(failing).collect::<Vec<_>>().join("; ");
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

/// In Prometheus' text format.
pub fn metrics(checks: &[Check], text: &mut String) {
    text.push_str(
        "# HELP nyala_health What is not as it should be: 2 fails, 1 is a warning; the others are 0.\n",
    );
    text.push_str("# TYPE nyala_health gauge\n");
    for name in NAMES {
        let of_name = checks.iter().filter(|check| check.name == name);
        let grade = of_name.map(|check| if check.fails { 2 } else { 1 }).max().unwrap_or(0);
        writeln!(text, "nyala_health{{check=\"{name}\"}} {grade}").expect("writing to memory does not fail");
    }
}

/// The words for what may not be as it should be.
pub const NAMES: [&str; 7] = ["writes", "log", "flush", "catalog", "compaction", "disk", "recovery"];

/// Logs what begins not to be as it should be, and what is again.
#[derive(Debug, Default)]
pub struct HealthLog {
    known: Mutex<BTreeMap<&'static str, bool>>,
}

impl HealthLog {
    /// Compares what is with what was.
    pub fn look(&self, checks: &[Check]) {
        // Nothing under this lock can panic half-way.
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
    fn the_answer_has_influxdbs_form_and_names_what_is_the_matter() {
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
