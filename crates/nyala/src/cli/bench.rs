//! `nyala bench`: starts a server as a separate process, unless a target is given.

use nyala_bench::{BenchCommand, ServerUnderTest};
use nyala_client::{Body, Connection, Target};
use std::error::Error;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(command: &BenchCommand) -> Result<(), String> {
    nyala_bench::run(command, &mut launch).map_err(|error| error.to_string())
}

/// A server process. Dropping it stops the server and removes its data.
struct Process {
    child: Child,
    /// Removed with this.
    _directory: tempfile::TempDir,
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nowhere to report an error, and the directory is removed anyway.
        drop(stop(&mut self.child));
    }
}

/// How a server is started.
#[derive(Clone)]
struct Start {
    directory: PathBuf,
    data_dir: PathBuf,
    http: SocketAddr,
    postgres: SocketAddr,
    flight: SocketAddr,
    /// Flags of `nyala serve`, besides those for what is above.
    settings: Vec<(String, String)>,
}

fn launch(settings: &[(String, String)]) -> Result<ServerUnderTest, Box<dyn Error>> {
    let directory = tempfile::Builder::new().prefix("nyala-bench-").tempdir_in(".")?;
    let files_dir = directory.path().join("files");
    std::fs::create_dir(&files_dir)?;
    let start = Start {
        directory: directory.path().to_owned(),
        data_dir: directory.path().join("data"),
        http: free_address()?,
        postgres: free_address()?,
        flight: free_address()?,
        settings: settings.to_vec(),
    };
    let Start { http, postgres, flight, data_dir, .. } = start.clone();
    let child = start.run()?;
    let pid = child.id();
    let process = Arc::new(Mutex::new(Process { child, _directory: directory }));
    let restarted = process.clone();
    let restart = move || {
        let mut process = restarted.lock().unwrap_or_else(PoisonError::into_inner);
        stop(&mut process.child)?;
        process.child = start.run()?;
        Ok(process.child.id())
    };
    Ok(ServerUnderTest {
        url: format!("http://{http}"),
        postgres: Some(postgres.to_string()),
        flight: Some(flight.to_string()),
        files_dir: Some(files_dir),
        pid: Some(pid),
        data_dir: Some(data_dir),
        restart: Some(Box::new(restart)),
        guard: Box::new(process),
    })
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}

impl Start {
    /// Starts the server and waits until it answers.
    fn run(&self) -> Result<Child, Box<dyn Error>> {
        let log_path = self.directory.join("log");
        let log = File::options().create(true).append(true).open(&log_path)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(&self.data_dir)
            .args(["--http-bind", &self.http.to_string()])
            .args(["--postgres-bind", &self.postgres.to_string()])
            .args(["--flight-bind", &self.flight.to_string()])
            .arg("--files-dir")
            .arg(self.directory.join("files"));
        for (name, value) in &self.settings {
            command.arg(format!("--{name}={value}"));
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_ready(self.http) {
            if let Some(status) = child.try_wait()? {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                return Err(format!("the server ended with {status}:\n{log}").into());
            }
            if Instant::now() > deadline {
                drop(stop(&mut child));
                return Err(format!("the server was not ready within {START_TIMEOUT:?}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(child)
    }
}

/// Whether a server answers queries and writes.
fn is_ready(address: SocketAddr) -> bool {
    let target = Target::parse(&format!("http://{address}"));
    target.is_ok_and(|target| {
        let mut connection = Connection::new(&target, HEALTH_TIMEOUT);
        let response = connection.request("GET", "/health", "", b"", Body::Drop);
        response.is_ok_and(|response| response.status == 200)
    })
}

/// Asks a server to stop and waits for it; kills it when it does not stop.
fn stop(child: &mut Child) -> Result<(), Box<dyn Error>> {
    if child.try_wait()?.is_some() {
        return Ok(());
    }
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    let deadline = Instant::now() + STOP_TIMEOUT;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(format!("the server did not stop within {STOP_TIMEOUT:?} and was killed").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
