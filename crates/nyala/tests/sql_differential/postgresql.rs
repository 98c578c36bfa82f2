//! A real PostgreSQL 15 with an empty directory.
//!
//! It does not run as root: whoever is root has the user `postgres` run it, whom Debian's package creates.

use super::client;
use super::peers;
use super::session::Session;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const REMEDY: &str = "Debian: postgresql-15; NYALA_POSTGRESQL names the directory of initdb and postgres";
/// The user whom the server knows.
pub(crate) const USER: &str = "me";

/// A server; stopped when dropped.
pub(crate) struct Postgresql {
    child: Child,
    pub(crate) address: SocketAddr,
    _directory: TempDir,
}

impl Postgresql {
    /// Starts a server, or says that there is none.
    pub(crate) fn start() -> Option<Postgresql> {
        let programs = std::env::var_os("NYALA_POSTGRESQL").map(PathBuf::from);
        let programs = programs.unwrap_or_else(|| PathBuf::from("/usr/lib/postgresql/15/bin"));
        let found = programs.join("initdb").is_file().then_some(programs);
        let programs = peers::require("PostgreSQL 15", REMEDY, found)?;
        let directory = tempfile::tempdir().expect("a directory");
        let owner = owner();
        if let Some((user, group)) = owner {
            chown(directory.path(), Some(user), Some(group)).expect("it gets another owner");
        }
        let program = |name: &str| {
            let mut command = Command::new(programs.join(name));
            if let Some((user, group)) = owner {
                command.uid(user).gid(group);
            }
            command.arg("-D").arg(directory.path().join("data"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.current_dir("/");
            command
        };
        let mut initdb = program("initdb");
        initdb.args(["--username", USER, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"]);
        assert!(initdb.status().expect("initdb runs").success(), "initdb failed");
        let address = client::free_address();
        let mut command = program("postgres");
        command.args(["-p", &address.port().to_string(), "-h", &address.ip().to_string(), "-k", ""]);
        command.args(["-c", "fsync=off", "-c", "timezone=UTC"]);
        let child = command.spawn().expect("it starts");
        let server = Postgresql { child, address, _directory: directory };
        server.wait_until_ready();
        Some(server)
    }

    fn wait_until_ready(&self) {
        let begun = Instant::now();
        while Session::open(self.address, USER, "postgres").is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        // At once; its other processes end with it.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &pid]).status();
        let _ = self.child.wait();
    }
}

/// User and group that run the server, unless it is who runs the test.
fn owner() -> Option<(u32, u32)> {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let is_root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    is_root.then(|| user_of(Path::new("/etc/passwd")).expect("root needs the user postgres"))
}

fn user_of(users: &Path) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string(users).ok()?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}
