//! Runs the two programs under test, each in its own directory and on a free loopback port.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::{self, Request, Response};

/// The longest wait for `/health`, and for the end; on an idle machine both take much less than a second.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A program under test.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// The binary of this package.
    Nyala,
    /// The same with its rows in the Kudu cluster of these masters; each server has tables of its own there.
    NyalaOnKudu(Vec<String>),
    /// InfluxDB's server at that path.
    Influx(PathBuf),
}

impl Program {
    pub(crate) fn is_nyala(&self) -> bool {
        !matches!(self, Program::Influx(_))
    }
}

/// A running server; it is killed and its data removed when dropped.
pub(crate) struct Server {
    program: Program,
    child: Child,
    address: SocketAddr,
    #[allow(dead_code, reason = "only some programs make backups")]
    backup_address: SocketAddr,
    directory: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

impl Server {
    pub(crate) fn start(program: &Program, settings: &[(String, String)]) -> Result<Server, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let (child, address, backup_address) = launch(program, directory.path(), settings)?;
        let (program, settings) = (program.clone(), settings.to_vec());
        Ok(Server { program, child, address, backup_address, directory, settings })
    }

    /// Stops the server, in order or by force, and starts it again on its data.
    pub(crate) fn restart(&mut self, by_force: bool) -> Result<(), String> {
        self.stop(by_force)?;
        (self.child, self.address, self.backup_address) =
            launch(&self.program, self.directory.path(), &self.settings)?;
        Ok(())
    }

    /// The same with other settings.
    #[allow(dead_code, reason = "only some programs change settings")]
    pub(crate) fn restart_with(&mut self, settings: &[(String, String)]) -> Result<(), String> {
        self.settings = settings.to_vec();
        self.restart(false)
    }

    /// Stops the server, in order or by force.
    pub(crate) fn stop(&mut self, by_force: bool) -> Result<(), String> {
        if by_force {
            self.child.kill().map_err(|e| e.to_string())?;
        } else {
            let id = self.child.id().to_string();
            let asked = Command::new("kill").args(["-TERM", &id]).status();
            asked.map_err(|e| e.to_string())?;
        }
        let deadline = Instant::now() + START_LIMIT;
        while self.child.try_wait().map_err(|e| e.to_string())?.is_none() {
            if Instant::now() > deadline {
                return Err(format!("the server did not stop in {START_LIMIT:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Sends a signal.
    #[allow(dead_code, reason = "only some programs freeze servers")]
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Where it listens for HTTP.
    #[allow(dead_code, reason = "only some programs name it to others")]
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where InfluxDB listens for `influxd backup`.
    #[allow(dead_code, reason = "only some programs make backups")]
    pub(crate) fn backup_address(&self) -> SocketAddr {
        self.backup_address
    }

    /// Where its data is.
    #[allow(dead_code, reason = "only some programs look there")]
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn send(&self, request: &Request) -> Result<Response, String> {
        let mut response = client::send(self.address, request)
            .map_err(|e| format!("{e}\n{}", log_tail(self.directory.path())))?;
        if let Program::Influx(_) = self.program {
            name_version(&mut response);
        }
        Ok(response)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is fine: a test may have killed it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The version that InfluxDB's own builds have; builds by `go install` have none.
fn name_version(response: &mut Response) {
    for (name, value) in &mut response.headers {
        if name == "X-Influxdb-Version" && value == "unknown" {
            *value = "1.8.10".into();
        }
    }
    let unnamed = "\"version\":\"unknown\"";
    if let Some(text) = std::str::from_utf8(&response.body).ok().filter(|text| text.contains(unnamed)) {
        response.body = text.replace(unnamed, "\"version\":\"1.8.10\"").into_bytes();
    }
}

fn launch(
    program: &Program,
    directory: &Path,
    settings: &[(String, String)],
) -> Result<(Child, SocketAddr, SocketAddr), String> {
    // Another process may take the port before it is used: then another port is tried.
    let mut last = String::new();
    for _ in 0..3 {
        match launch_once(program, directory, settings) {
            Ok(started) => return Ok(started),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sections of InfluxDB's settings, where those are that scripts may set.
const SECTIONS: [(&str, &str); 10] = [
    ("auth-enabled", "HTTP"),
    ("shared-secret", "HTTP"),
    ("max-row-limit", "HTTP"),
    ("max-select-point", "COORDINATOR"),
    ("max-select-series", "COORDINATOR"),
    ("max-select-buckets", "COORDINATOR"),
    ("max-concurrent-queries", "COORDINATOR"),
    ("query-timeout", "COORDINATOR"),
    ("cache-snapshot-write-cold-duration", "DATA"),
    ("compact-full-write-cold-duration", "DATA"),
];

/// A setting as the variable of a program.
fn variable(program: &Program, name: &str) -> Result<String, String> {
    let upper = name.replace('-', "_").to_ascii_uppercase();
    let section = SECTIONS.iter().find(|(known, _)| *known == name).map(|(_, section)| section);
    let section = section.ok_or_else(|| format!("no setting is called {name:?}"))?;
    Ok(match program {
        Program::Nyala | Program::NyalaOnKudu(_) => format!("NYALA_{upper}"),
        Program::Influx(_) => format!("INFLUXDB_{section}_{upper}"),
    })
}

fn launch_once(
    program: &Program,
    directory: &Path,
    settings: &[(String, String)],
) -> Result<(Child, SocketAddr, SocketAddr), String> {
    let (address, other) = (client::free_address(), client::free_address());
    let log = File::create(directory.join("log")).map_err(|e| e.to_string())?;
    let data = directory.join("data");
    let mut command = match program {
        Program::Nyala | Program::NyalaOnKudu(_) => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nyala"));
            command.arg("serve").arg("--data-dir").arg(&data);
            command.arg("--http-bind").arg(address.to_string());
            // InfluxDB always does this.
            command.args(["--allowed-origins", "*"]);
            if let Program::NyalaOnKudu(masters) = program {
                let name = directory.file_name().unwrap_or_default().to_string_lossy();
                let prefix = format!("test{}", name.trim_start_matches('.'));
                command.args(["--store", "kudu", "--kudu-masters", &masters.join(",")]);
                command.args(["--kudu-replicas", "1", "--kudu-buckets", "1", "--kudu-prefix", &prefix]);
            }
            command
        }
        Program::Influx(path) => {
            let mut command = Command::new(path);
            command
                .env("INFLUXDB_HTTP_BIND_ADDRESS", address.to_string())
                .env("INFLUXDB_BIND_ADDRESS", other.to_string())
                .env("INFLUXDB_DATA_DIR", data.join("data"))
                .env("INFLUXDB_DATA_WAL_DIR", data.join("wal"))
                .env("INFLUXDB_META_DIR", data.join("meta"))
                .env("INFLUXDB_REPORTING_DISABLED", "true")
                // InfluxDB distributes a query's series to this many workers; with equal times the answer depends on
                // the distribution.
                .env("GOMAXPROCS", "2")
                // Its own statistics would appear in SHOW DATABASES after some seconds.
                .env("INFLUXDB_MONITOR_STORE_ENABLED", "false");
            command
        }
    };
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NYALA_") {
            command.env_remove(name);
        }
    }
    for (name, value) in settings {
        command.env(variable(program, name)?, value);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(|e| e.to_string())?).stderr(log);
    let child = command.spawn().map_err(|e| format!("cannot start {program:?}: {e}"))?;
    wait_until_ready(child, address, directory).map(|(child, address)| (child, address, other))
}

fn wait_until_ready(
    mut child: Child,
    address: SocketAddr,
    directory: &Path,
) -> Result<(Child, SocketAddr), String> {
    let health =
        Request { method: "GET".into(), target: "/health".into(), headers: Vec::new(), body: Vec::new() };
    let deadline = Instant::now() + START_LIMIT;
    let problem = loop {
        if let Ok(Some(status)) = child.try_wait() {
            break format!("the server ended ({status}) before it was ready");
        }
        if client::send(address, &health).is_ok_and(|r| r.status == 200) {
            return Ok((child, address));
        }
        if Instant::now() > deadline {
            break format!("the server was not ready in {START_LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("{problem}\n{}", log_tail(directory)))
}

fn log_tail(directory: &Path) -> String {
    let log = std::fs::read(directory.join("log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    let lines: Vec<&str> = log.lines().collect();
    let tail = &lines[lines.len().saturating_sub(8)..];
    tail.iter().map(|l| format!("    log: {l}\n")).collect()
}
