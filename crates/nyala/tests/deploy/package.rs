//! The Debian package, installed into a clean system of its own. It takes minutes and needs root and the archive of Debian,
//! so it runs with `NYALA_TEST_PACKAGE=1` only; `NYALA_PACKAGED` names the program that is packaged, else it is that of
//! the tests.

use crate::booted::Booted;
use crate::client::{self, Request};
use crate::{peers, root, succeed};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn build(program: &Path, into: &Path) -> PathBuf {
    let built = succeed(
        Command::new(root().join("deploy/deb/build.sh"))
            .arg(program)
            .arg(into)
            .env("NYALA_DEB_COMPRESSION", "none"),
    );
    PathBuf::from(built.trim().lines().last().expect("it says where"))
}

/// Ends a server that runs in the other system.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[test]
fn the_package_is_installed_upgraded_and_removed() {
    if std::env::var_os("NYALA_TEST_PACKAGE").is_none_or(|value| value != "1") {
        // It makes a whole system, so that nobody is required to have it.
        return peers::pass_over("system for the package", "set NYALA_TEST_PACKAGE=1");
    }
    let found = peers::works("mmdebstrap", &["--version"]).then_some(());
    if peers::require("mmdebstrap", "install mmdebstrap", found).is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let own = env!("CARGO_BIN_EXE_nyala").to_owned();
    let program = root().join(std::env::var("NYALA_PACKAGED").unwrap_or(own));
    let package = build(&program, directory.path());
    let again = directory.path().join("again");
    std::fs::create_dir(&again).expect("a directory");
    let bytes = |path: &Path| std::fs::read(path).expect("a package");
    assert!(bytes(&package) == bytes(&build(&program, &again)), "the same program gives another package");
    let system = directory.path().join("system");
    succeed(
        Command::new("mmdebstrap").args(["--variant=minbase", "--include=systemd", "bookworm"]).arg(&system),
    );
    std::fs::copy(&package, system.join("nyala.deb")).expect("copied");
    let run = |words: &str| {
        let mut command = Command::new("chroot");
        command.arg(&system).args(["sh", "-ec", words]).env("DEBIAN_FRONTEND", "noninteractive");
        succeed(&mut command)
    };
    run("apt-get install --yes --no-install-recommends ./nyala.deb");
    assert!(run("nyala --version").starts_with("nyala "));
    assert_eq!(run("stat -c '%U %G %a' /var/lib/nyala").trim(), "nyala nyala 700");
    assert_eq!(run("stat -c '%U %G %a' /etc/nyala/nyala.toml").trim(), "root nyala 640");
    assert_eq!(run("systemctl is-enabled nyala").trim(), "enabled");
    assert!(run("dpkg --verify nyala").is_empty());
    let lost = lost_links(&system.join("usr/share/doc/nyala"));
    assert!(lost.is_empty(), "{lost:?}");

    // The service, as systemd starts it with all that guards it.
    let booted = Booted::start(&system);
    assert_eq!(booted.run("systemctl is-active nyala").trim(), "active");
    booted.run("nyala shell -c 'CREATE DATABASE booted'");
    booted.run(
        r#"sed -i 's/^#log-level.*/log-level = "debug"/' /etc/nyala/nyala.toml && systemctl reload nyala"#,
    );
    booted.run("install -d -o nyala -g nyala -m 700 /backup && runuser -u nyala -- nyala backup /backup");
    booted.run("systemctl restart nyala");
    assert!(booted.run("nyala shell -c 'SHOW DATABASES'").contains("booted"));
    booted.run("systemctl stop nyala");
    assert_eq!(booted.run("systemctl show --property Result --value nyala").trim(), "success");
    let log = booted.run("journalctl --unit nyala --no-pager");
    assert!(log.contains("the level of the log was read again log_level=debug"), "{log}");
    drop(booted);

    // As the unit would start it, on another port: the other system has the same network.
    let address = client::free_address();
    let serve =
        format!("exec nyala serve --config /etc/nyala/nyala.toml --http-bind {address} --postgres-bind none");
    let start = || {
        let started = Command::new("chroot")
            .args(["--userspec=nyala:nyala".as_ref(), system.as_os_str()])
            .args(["sh", "-c", &serve])
            .spawn()
            .expect("it starts");
        wait_until_ready(address);
        Ended(started)
    };
    let server = start();
    assert_eq!(send(address, "POST", "/query?q=CREATE+DATABASE+d", ""), 200);
    assert_eq!(send(address, "POST", "/write?db=d", "m v=1"), 204);
    drop(server);

    // Settings that were changed stay, and so do data.
    run("sed -i 's/512MiB/300MiB/' /etc/nyala/nyala.toml && apt-get install --yes --reinstall ./nyala.deb");
    assert!(run("nyala config --config /etc/nyala/nyala.toml").contains("memory-limit = \"300MiB\""));
    let server = start();
    assert_eq!(send(address, "GET", "/query?db=d&q=SELECT+v+FROM+m", ""), 200);
    drop(server);
    run("apt-get remove --yes nyala && test -e /etc/nyala/nyala.toml && ! test -e /usr/bin/nyala");
    assert!(run("apt-get purge --yes nyala").contains("the data stay in /var/lib/nyala"));
    run("! test -e /etc/nyala/nyala.toml && test -e /var/lib/nyala/LOCK");
}

/// Links of pages to other files, which are not there.
fn lost_links(directory: &Path) -> Vec<String> {
    let mut lost = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("readable").path();
        if path.is_dir() && !path.is_symlink() {
            lost.extend(lost_links(&path));
        }
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let of_files = links.filter(|link| !link.is_empty() && !link.contains([':', ' ']));
        let missing = of_files.filter(|link| !directory.join(link).exists());
        lost.extend(missing.map(|link| format!("{}: {link}", path.display())));
    }
    lost
}

fn send(address: SocketAddr, method: &str, target: &str, body: &str) -> u16 {
    let request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
    };
    client::send(address, &request).map_or(0, |answer| answer.status)
}

fn wait_until_ready(address: SocketAddr) {
    let begun = Instant::now();
    while send(address, "GET", "/ready", "") != 200 {
        assert!(begun.elapsed() < Duration::from_secs(120), "it does not become ready");
        std::thread::sleep(Duration::from_millis(50));
    }
}
