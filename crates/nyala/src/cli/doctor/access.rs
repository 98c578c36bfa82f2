//! Who can reach the server, what protects them, and which files hold secrets.

use crate::cli::findings::Finding;
use crate::config::{BindAddress, Config};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: i64 = 86_400;
/// Time enough to renew a certificate.
const RENEWED_BEFORE_S: i64 = 14 * DAY_S;

pub(super) fn look(config: &Config, settings_file: Option<&Path>) -> Vec<Finding> {
    let with_log_ins = public([
        ("http-bind", Some(config.http_bind)),
        ("postgres-bind", config.postgres_address().map(|(address, _)| address)),
        ("flight-bind", config.flight_address().map(|(address, _)| address)),
    ]);
    // Packets of collectd say who has sent them, if they are asked to.
    let collectd = config.collectd_bind.filter(|_| config.collectd_security_level == "none");
    let without_log_ins = public([
        ("udp-bind", config.udp_bind),
        ("graphite-bind", config.graphite_bind),
        ("opentsdb-bind", config.opentsdb_bind),
        ("collectd-bind", collectd),
    ]);
    let has_tls = config.https_certificate.is_some();
    let mut findings = vec![judge_reach(&with_log_ins, config.auth_enabled, has_tls)];
    findings.extend(judge_inputs(&without_log_ins));
    match config.certificates() {
        Err(message) => findings.push(Finding::problem(
            "certificate",
            message,
            "the server does not start with it, and a running one does not renew it",
            "name the right files in https-certificate and https-private-key",
        )),
        Ok(None) => {}
        Ok(Some(certificates)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let now_s = i64::try_from(now).unwrap_or(i64::MAX);
            findings.push(judge_certificate(certificates.not_after_s(), now_s));
        }
    }
    let key = config.https_private_key.as_deref().or(config.https_certificate.as_deref());
    let secrets = [
        (key, "the private key"),
        (settings_file.filter(|_| config.shared_secret.is_some()), "the shared secret"),
        (config.kudu_token_file.as_deref(), "the token for Kudu"),
    ];
    findings.extend(secrets.into_iter().filter_map(|(file, what)| judge_secret(file?, what)));
    findings
}

/// The addresses that other machines reach, with their settings.
fn public<const N: usize>(binds: [(&str, Option<BindAddress>); N]) -> Vec<String> {
    let binds = binds.into_iter().filter_map(|(name, address)| Some((name, address?)));
    binds
        .filter(|(_, address)| !address.0.ip().to_canonical().is_loopback())
        .map(|(name, address)| format!("{name} {address}"))
        .collect()
}

fn judge_reach(public: &[String], has_log_ins: bool, has_tls: bool) -> Finding {
    if public.is_empty() {
        return Finding::ok("access", "clients reach the server from this machine only");
    }
    let found = format!("other machines reach {}", public.join(" and "));
    match (has_log_ins, has_tls) {
        (true, true) => Finding::ok("access", format!("{found}, with log-ins and TLS")),
        (true, false) => Finding::warning(
            "access",
            format!("{found} without TLS"),
            "passwords and data can be read on the way",
            "--https-certificate and --https-private-key, or a proxy with TLS before it",
        ),
        (false, _) => Finding::problem(
            "access",
            format!("{found} without a log-in"),
            "whoever reaches the port can read, write and drop everything, and have the server send requests",
            "--auth-enabled, or bind to 127.0.0.1",
        ),
    }
}

fn judge_inputs(public: &[String]) -> Option<Finding> {
    (!public.is_empty()).then(|| {
        Finding::warning(
            "inputs",
            format!("other machines reach {}, whose senders do not log in", public.join(" and ")),
            "whoever reaches the port can write points, and its data can be read on the way",
            "bind to 127.0.0.1, or let a firewall admit the senders only",
        )
    })
}

fn judge_certificate(not_after_s: Option<i64>, now_s: i64) -> Finding {
    let Some(not_after_s) = not_after_s else {
        return Finding::warning(
            "certificate",
            "the dates of the certificate cannot be read",
            "nobody will notice when it expires",
            "look with `openssl x509 -noout -dates`",
        );
    };
    let left_s = not_after_s - now_s;
    let days = left_s.abs() / DAY_S;
    let advice = "renew it, then send SIGHUP to the server";
    match left_s {
        ..=0 => {
            let found = format!("the certificate expired {days} days ago");
            Finding::problem("certificate", found, "clients refuse the server", advice)
        }
        1..RENEWED_BEFORE_S => {
            let found = format!("the certificate expires in {days} days");
            Finding::warning("certificate", found, "clients will refuse the server then", advice)
        }
        _ => Finding::ok("certificate", format!("the certificate expires in {days} days")),
    }
}

/// Complains about a file with a secret that everybody can read.
fn judge_secret(file: &Path, what: &str) -> Option<Finding> {
    let mode = std::fs::metadata(file).ok()?.mode() & 0o777;
    (mode & 0o007 != 0).then(|| {
        Finding::warning(
            "secrets",
            format!("{} holds {what}, and has mode {mode:03o}", file.display()),
            "every user of this machine can read it",
            format!("chmod 640 {}, with a group that the server belongs to, or 600", file.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::findings::Grade;

    #[test]
    fn reach_and_certificates_are_judged() {
        let public = ["http-bind 0.0.0.0:8086".to_owned()];
        assert_eq!(judge_reach(&[], false, false).grade, Grade::Ok);
        assert_eq!(judge_reach(&public, false, true).grade, Grade::Problem);
        assert_eq!(judge_reach(&public, true, false).grade, Grade::Warning);
        assert_eq!(judge_reach(&public, true, true).grade, Grade::Ok);
        assert!(judge_inputs(&[]).is_none());
        assert_eq!(judge_inputs(&public).map(|finding| finding.grade), Some(Grade::Warning));
        let now_s = 1_800_000_000;
        assert_eq!(judge_certificate(None, now_s).grade, Grade::Warning);
        assert_eq!(judge_certificate(Some(now_s), now_s).grade, Grade::Problem);
        assert_eq!(judge_certificate(Some(now_s + RENEWED_BEFORE_S - 1), now_s).grade, Grade::Warning);
        let fresh = judge_certificate(Some(now_s + 90 * DAY_S), now_s);
        assert_eq!((fresh.grade, &*fresh.found), (Grade::Ok, "the certificate expires in 90 days"));
    }
}
