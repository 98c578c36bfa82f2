//! `nyala doctor` finds what is wrong, and says so in both forms and by its exit code.

use crate::client::percent_encode;
use crate::process::Process;
use crate::{certificate, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What it says of a data directory, and its exit code. Other arguments follow.
fn ask(data_dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (Value, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["doctor", "--json", "--data-dir"])
        .arg(data_dir)
        .args(arguments)
        .env("NYALA_POSTGRES_BIND", "none")
        .envs(variables.iter().copied())
        .output()
        .expect("it runs");
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    let code = output.status.code().expect("a code");
    let count = |name: &str| report[name].as_u64().expect("a number");
    let expected = if count("problems") > 0 { 2 } else { i32::from(count("warnings") > 0) };
    assert_eq!(code, expected, "{report}");
    (report, code)
}

/// The grade of a check and what was found, one line each.
fn found(report: &Value, check: &str) -> String {
    let all = report["findings"].as_array().expect("findings").iter();
    let of_check = all.filter(|finding| finding["check"] == check);
    let lines = of_check.map(|finding| {
        let part = |name: &str| finding[name].as_str().expect("text").to_owned();
        assert!(
            part("grade") == "ok" || (!part("why").is_empty() && !part("advice").is_empty()),
            "{finding}"
        );
        format!("{}: {}\n", part("grade"), part("found"))
    });
    lines.collect()
}

/// What it says of a server that runs. It gives the server a few seconds to answer, which a busy machine may not have.
fn ask_running(data_dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Value {
    let begun = std::time::Instant::now();
    loop {
        let (report, _) = ask(data_dir, arguments, variables);
        if found(&report, "server").is_empty() && !found(&report, "metrics").is_empty() {
            return report;
        }
        assert!(begun.elapsed().as_secs() < 120, "{report}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Whether the server's metrics hint at nothing, apart from the disk of the machine that the tests run on.
fn hint_at_nothing(report: &Value) -> bool {
    let metrics = found(report, "metrics");
    metrics == "ok: the server's metrics hint at nothing\n"
        || (metrics.starts_with("warning: a sync of the log takes ") && metrics.lines().count() == 1)
}

/// Whether the server says that it is well, apart from the disk of the machine that the tests run on.
fn is_well(report: &Value, scheme: &str) -> bool {
    let health = found(report, "health");
    health.starts_with(&format!("ok: {scheme}")) || health.starts_with("warning: the check disk says")
}

#[test]
fn a_running_server_is_recognised_and_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let data_dir = directory.path().join("data");
    let server = Process::start(&data_dir, &["--auth-enabled"]);
    let create = percent_encode("CREATE USER ann WITH PASSWORD 'secret' WITH ALL PRIVILEGES");
    assert_eq!(server.send("POST", &format!("/query?q={create}"), b"").expect("an answer").status, 200);
    let bind = server.address.to_string();
    let settings = ["--auth-enabled", "--http-bind", &bind];
    let report = ask_running(&data_dir, &settings, &[]);
    assert!(is_well(&report, "http://"), "{report}");
    assert!(found(&report, "metrics").starts_with("ok: metrics were not looked at (401)"), "{report}");
    assert!(found(&report, "data-directory").contains("mode 700"), "{report}");
    assert!(found(&report, "wal-sync").starts_with("ok"), "{report}");
    assert!(!found(&report, "swap").is_empty(), "the process is known by its lock: {report}");
    for check in ["open-files", "memory", "disk", "file-system", "clock", "access"] {
        assert!(!found(&report, check).is_empty(), "{check} in {report}");
    }
    let log_in = [&settings[..], &["-u", "ann"]].concat();
    let secret = [("NYALA_PASSWORD", "secret")];
    let report = ask_running(&data_dir, &log_in, &secret);
    assert!(hint_at_nothing(&report), "{report}");
    assert_eq!(found(&report, "settings"), "ok: the server runs with these settings\n");
    let others = [&log_in[..], &["--wal-limit", "64MiB", "--history", "1m"]].concat();
    let report = ask_running(&data_dir, &others, &secret);
    assert_eq!(
        found(&report, "settings"),
        "warning: the server runs with other values of history, wal-limit\n"
    );
    // For people, each finding that is not well has its reason and its remedy.
    let output = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["doctor", "--wal-sync", "never", "--data-dir"])
        .arg(&data_dir)
        .args(settings)
        .output();
    let output = output.expect("it runs");
    let said = text(&output);
    let part =
        said.split("warning  wal-sync: wal-sync is never\n").nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(
        part.starts_with("         why: a power cut loses") && part.contains("\n         do:  --wal-sync"),
        "{said}"
    );
    assert!(said.trim_end().ends_with("should be changed"), "{said}");
}

#[test]
fn what_is_wrong_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let data_dir = path("data");
    let bind = crate::client::free_address().to_string();
    let looked = |check: &str, arguments: &[&str]| {
        let (report, code) = ask(&data_dir, &[&["--http-bind", &bind][..], arguments].concat(), &[]);
        (found(&report, check), code)
    };
    let is = |check: &str, arguments: &[&str], start: &str| {
        let (found, _) = looked(check, arguments);
        assert!(found.starts_with(start), "{check} with {arguments:?}: {found}");
    };
    is("data-directory", &[], "ok: ");
    is("server", &[], "ok: no server answers at ");
    is("server", &["--url", &format!("http://{bind}")], "problem: no server answers at ");
    is("memory", &["--memory-limit", "1000000GiB"], "problem: memory-limit is 1000000.0 GiB");
    is("wal-sync", &["--wal-sync", "interval:1s"], "warning: ");
    is("disk", &["--wal-limit", "1000000GiB"], "problem: ");
    is("access", &[], "ok: clients reach the server from this machine only");
    let flight = looked("access", &["--flight-bind", ":8087", "--allow-unauthenticated"]).0;
    assert!(flight.starts_with("problem: other machines reach flight-bind"), "{flight}");
    let inputs = ["--udp-bind", ":8089", "--graphite-bind", "127.0.0.1:2003", "--allow-unauthenticated"];
    let (inputs, _) = looked("inputs", &inputs);
    assert!(inputs.starts_with("warning: other machines reach udp-bind 0.0.0.0:8089, whose"), "{inputs}");
    let everybody = ["--http-bind", ":8086"];
    let (found, code) = looked("settings", &[]);
    assert!(found.is_empty(), "{found} {code}");
    let (report, code) = ask(&data_dir, &everybody, &[]);
    assert!(
        code == 2 && crate::doctor::found(&report, "settings").contains("reachable from other machines"),
        "{report}"
    );
    let (report, code) = ask(&data_dir, &[&everybody[..], &["--allow-unauthenticated"]].concat(), &[]);
    assert!(code == 2 && crate::doctor::found(&report, "access").contains("without a log-in"), "{report}");
    let (report, _) = ask(&data_dir, &[&everybody[..], &["--auth-enabled"]].concat(), &[]);
    assert!(crate::doctor::found(&report, "access").contains("without TLS"), "{report}");

    std::fs::create_dir(&data_dir).expect("a directory");
    std::fs::set_permissions(&data_dir, PermissionsExt::from_mode(0o755)).expect("changed");
    is("data-directory", &[], "warning: ");
    std::fs::remove_dir(&data_dir).expect("removed");
    std::fs::write(&data_dir, "").expect("a file");
    is("data-directory", &[], "problem: ");

    let settings = path("nyala.toml");
    std::fs::write(&settings, "auth-enabled = true\nshared-secret = \"0123456789abcdef0123456789abcdef\"\n")
        .expect("written");
    std::fs::set_permissions(&settings, PermissionsExt::from_mode(0o644)).expect("changed");
    let config = ["--config", settings.to_str().expect("UTF-8")];
    is("secrets", &config, "warning: ");
    std::fs::set_permissions(&settings, PermissionsExt::from_mode(0o640)).expect("changed");
    is("secrets", &config, "");
    assert_eq!(looked("secrets", &config).0, "");
}

#[test]
fn certificates_are_looked_at() {
    if !certificate::has_openssl() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    certificate::make(Path::new(&path("cert.pem")), Path::new(&path("key.pem")));
    let bind = crate::client::free_address().to_string();
    let settings = [
        "--http-bind",
        &bind,
        "--https-certificate",
        &path("cert.pem"),
        "--https-private-key",
        &path("key.pem"),
    ];
    let (current, old) = (path("cert.pem"), path("old.pem"));
    let data_dir = directory.path().join("data");
    let (report, _) = ask(&data_dir, &settings, &[]);
    assert!(found(&report, "certificate").starts_with("warning: the certificate expires in "), "{report}");
    std::fs::set_permissions(path("key.pem"), PermissionsExt::from_mode(0o644)).expect("changed");
    let (report, _) = ask(&data_dir, &settings, &[]);
    assert!(found(&report, "secrets").contains("holds the private key, and has mode 644"), "{report}");

    // A server that was not told of a renewed certificate.
    let served = Process::spawn(&data_dir, &settings[2..]);
    let url = format!("https://{}", served.address);
    let with_url = [&settings[..], &["--url", &url, "--ca", &current]].concat();
    let asked = || ask_running(&data_dir, &with_url, &[]);
    let begun = std::time::Instant::now();
    while !is_well(&asked(), "https://") {
        assert!(begun.elapsed().as_secs() < 120, "{}", asked());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let report = asked();
    assert!(hint_at_nothing(&report), "{report}");
    std::fs::copy(path("cert.pem"), path("old.pem")).expect("copied");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    certificate::make(Path::new(&path("cert.pem")), Path::new(&path("key.pem")));
    let trusting_both = [&settings[..], &["--url", &url, "--ca", &old]].concat();
    let report = ask_running(&data_dir, &trusting_both, &[]);
    assert!(found(&report, "metrics").contains("still uses a certificate that is older"), "{report}");

    std::fs::write(path("cert.pem"), "broken").expect("written");
    let (report, code) = ask(&data_dir, &settings, &[]);
    assert!(code == 2 && found(&report, "certificate").contains("cert.pem"), "{report}");
}
