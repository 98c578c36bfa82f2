//! A nyala of a chore's own: built as a user would build it, started as a process, asked over HTTP.
//!
//! A server that is dropped is killed, so that a chore that fails leaves no process behind.

use crate::workspace::root;
use nyala_client::{Body, Connection, Target};
use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Many times what it takes on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(300);

pub(crate) type Outcome<T> = Result<T, String>;

/// Builds as a user would, so that a program built for another purpose is not built again.
pub(crate) fn build() -> Outcome<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build = Command::new(cargo);
    // What cargo says of this program would make others build again that ask for it.
    std::env::vars_os().map(|(name, _)| name).filter(is_of_package).for_each(|name| {
        build.env_remove(name);
    });
    let built = build
        .args(["build", "--release", "--locked", "--bin", "nyala"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo build: {error}"))?;
    let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<serde_json::Value>();
    let executables =
        messages.filter_map(|message| Some(PathBuf::from(message.ok()?["executable"].as_str()?)));
    executables.last().filter(|_| built.status.success()).ok_or_else(|| "the build failed".to_owned())
}

fn is_of_package(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// A running server.
pub(crate) struct Server {
    process: Child,
    connection: Connection,
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// An address of this machine on which nothing listens. Its port is below those from 32 768 on that the system assigns to
    /// connections, one of which could take it before the server does, or while it is started again.
    pub(crate) fn free_address() -> Outcome<SocketAddr> {
        let own = (std::process::id() % 20_000) as u16;
        let mut ports = (0..20_000).map(|number| 10_000 + (own + number) % 20_000);
        let free =
            ports.find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?.local_addr().ok());
        free.ok_or_else(|| "no free port".to_owned())
    }

    /// Runs `program serve` with these settings on a data directory. What it says is in `log`.
    pub(crate) fn start(
        mut program: Command,
        settings: &[&str],
        data: &Path,
        address: SocketAddr,
        log: &Path,
    ) -> Outcome<Self> {
        let url = format!("http://{address}");
        let target = Target::parse(&url).map_err(|error| error.to_string())?;
        let said = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let process = program
            .arg("serve")
            .args(settings)
            .arg("--data-dir")
            .arg(data)
            .args(["--http-bind", &address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .map_err(|error| format!("starting the server: {error}"))?;
        let connection = Connection::new(&target, READY_WITHIN);
        Ok(Self { process, connection, url, address, log: log.to_owned() })
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self) -> Outcome<()> {
        let started = Instant::now();
        while started.elapsed() < READY_WITHIN {
            std::thread::sleep(Duration::from_millis(100));
            if self.ask("GET", "/health", b"").is_ok() {
                return Ok(());
            }
            if let Ok(Some(_)) = self.process.try_wait() {
                return Err(format!("the server ended:\n{}", self.said()));
            }
        }
        Err(format!("the server is not ready:\n{}", self.said()))
    }

    /// Sends a request, and gives the answer; anything but success is an error.
    pub(crate) fn ask(&mut self, method: &str, target: &str, body: &[u8]) -> Outcome<String> {
        let refused = |words: &dyn std::fmt::Display| format!("{method} {target}: {words}");
        let mut answer = Vec::new();
        let collect = Body::Collect { into: &mut answer, limit_bytes: ANSWER_BYTES_MAX };
        let asked = self.connection.expect_success(method, target, body, collect);
        asked.map_err(|error| refused(&error))?;
        let beginning = String::from_utf8_lossy(&answer[..answer.len().min(300)]);
        if beginning.contains("\"error\"") {
            return Err(refused(&beginning));
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Stops the server, and gives what it said on standard error.
    pub(crate) fn stop(mut self) -> Outcome<String> {
        let pid = self.pid().to_string();
        let killed = Command::new("kill").arg(&pid).status().map_err(|error| format!("kill: {error}"))?;
        let ended = self.process.wait().map_err(|error| error.to_string())?;
        match killed.success() && ended.success() {
            true => Ok(self.said()),
            false => Err(format!("the server did not end well:\n{}", self.said())),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A directory that goes with its owner.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("nyala-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
