//! The Debian package, installed into a clean system of its own. It takes minutes and needs root and the archive of Debian,
//! so it runs with `NYALA_TEST_PACKAGE=1` only; `NYALA_PACKAGED` names the program that is packaged, else it is that of
//! the tests.

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
        return;
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
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not become ready");
        std::thread::sleep(Duration::from_millis(50));
    }
}
