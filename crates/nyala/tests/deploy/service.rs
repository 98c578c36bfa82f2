//! The service: what it tells systemd, and that systemd understands its files.

use crate::process::Process;
use crate::{file, peers, root, succeed, text};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn the_service_manager_is_told_of_start_and_stop() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let told = || {
        let mut state = [0; 256];
        let length = socket.recv(&mut state).expect("it is told");
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    let name = path.to_str().expect("UTF-8");
    let server = Process::spawn_in(&directory.path().join("data"), &[], &[("NOTIFY_SOCKET", name)]);
    assert!(told().starts_with("READY=1\n"));
    assert_eq!(server.status("/ready"), 200);
    server.signal("TERM");
    assert!(told().starts_with("STOPPING=1\n"));
    drop(server);
    // Nobody listens any more: a server runs without.
    drop(socket);
    let server = Process::spawn_in(&directory.path().join("data"), &[], &[("NOTIFY_SOCKET", name)]);
    server.wait_until_ready(Duration::from_secs(120));
    // It is told to others that it is ready before that.
    let begun = Instant::now();
    while !server.log().contains("NOTIFY_SOCKET") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn systemd_understands_the_unit_and_finds_it_guarded() {
    let found = peers::works("systemd-analyze", &["--version"]).then_some(());
    if peers::require("systemd", "install systemd", found).is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let unit = directory.path().join("nyala.service");
    // The program and its user are here under other names.
    let text_of_unit = file("deploy/systemd/nyala.service")
        .replace("/usr/bin/nyala", env!("CARGO_BIN_EXE_nyala"))
        .replace("User=nyala\nGroup=nyala", "User=daemon\nGroup=daemon");
    std::fs::write(&unit, text_of_unit).expect("written");
    let verified = succeed(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit));
    assert_eq!(verified, "", "systemd has remarks");
    let security = ["security", "--offline=true", "--threshold=20", "--no-pager"];
    let judged = Command::new("systemd-analyze").args(security).arg(&unit).output().expect("it runs");
    assert!(judged.status.success(), "more exposed than 2.0: {}", text(&judged));
    for (program, name) in [("systemd-sysusers", "sysusers.conf"), ("systemd-tmpfiles", "tmpfiles.conf")] {
        let into = directory.path().join(name);
        std::fs::create_dir_all(into.join("etc/nyala")).expect("a directory");
        // Users of another root, which sysusers makes first.
        let files = [("systemd-sysusers", "sysusers.conf"), (program, name)];
        for (program, name) in files.iter().take(if program == files[0].0 { 1 } else { 2 }) {
            let mut command = Command::new(program);
            command
                .arg(format!("--root={}", into.display()))
                .arg(root().join("deploy/systemd").join(name).canonicalize().expect("is there"));
            if *program == "systemd-tmpfiles" {
                command.arg("--create");
            }
            // As somebody who is not root it cannot give files away.
            let output = command.output().expect("it runs");
            assert!(output.status.success() || !is_root(), "{program}: {}", text(&output));
        }
    }
}

fn is_root() -> bool {
    text(&Command::new("id").arg("-u").output().expect("it runs")).trim() == "0"
}

#[test]
fn the_settings_of_the_service_are_valid() {
    let path = root().join("deploy/nyala.toml");
    succeed(Command::new(env!("CARGO_BIN_EXE_nyala")).arg("config").arg("--config").arg(&path));
    // Also what is there to be uncommented, all at once.
    let all: String = file("deploy/nyala.toml")
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .filter(|line| !line.starts_with("http-bind = \"127") && !line.starts_with("https-"))
        .map(|line| format!("{line}\n"))
        .collect();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("all.toml");
    std::fs::write(&path, &all).expect("written");
    let printed = succeed(Command::new(env!("CARGO_BIN_EXE_nyala")).arg("config").arg("--config").arg(&path));
    assert!(
        printed.contains("auth-enabled = true") && printed.contains("slow-query-threshold = \"5s\""),
        "{printed}"
    );
}
