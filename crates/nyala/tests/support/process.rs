//! The real program as a process: started with any settings, used over HTTP, stopped or killed.

use super::client::{self, Request, Response, percent_encode};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for a start or an end, both of which take less than a second on an idle machine.
const WAIT: Duration = Duration::from_secs(120);

/// A server process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

impl Process {
    /// Starts a server without waiting for it. Its log is written beside its data.
    pub(crate) fn spawn(data_dir: &Path, arguments: &[&str]) -> Process {
        Self::spawn_in(data_dir, arguments, &[])
    }

    /// The same with environment variables.
    pub(crate) fn spawn_in(data_dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        let address = client::free_address();
        let number = address.port();
        let log = std::env::temp_dir().join(format!("nyala-test-{}-{number}.log", std::process::id()));
        Self::spawn_logging(data_dir, address, arguments, variables, log)
    }

    /// The same with another file for the log, which is removed at the end unless it is a device.
    pub(crate) fn spawn_logging(
        data_dir: &Path,
        address: SocketAddr,
        arguments: &[&str],
        variables: &[(&str, &str)],
        log: PathBuf,
    ) -> Process {
        let child = Command::new(env!("CARGO_BIN_EXE_nyala"))
            .args(["serve", "--http-bind", &address.to_string(), "--data-dir"])
            .arg(data_dir)
            .args(arguments)
            // Only one of the servers of parallel tests would get the usual port.
            .env("NYALA_POSTGRES_BIND", "none")
            .env("NYALA_FLIGHT_BIND", "none")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stderr(File::options().create(true).write(true).truncate(true).open(&log).expect("a log"))
            .spawn()
            .expect("the server starts");
        Process { child, address, log }
    }

    /// Starts a server and waits until it answers queries.
    pub(crate) fn start(data_dir: &Path, arguments: &[&str]) -> Process {
        let process = Self::spawn(data_dir, arguments);
        process.wait_until_ready(WAIT);
        process
    }

    pub(crate) fn wait_until_ready(&self, limit: Duration) {
        let begun = Instant::now();
        while self.status("/health") != 200 {
            assert!(begun.elapsed() < limit, "not ready {limit:?} after it was started: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What the server logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The status of a GET; 0 when there is no answer.
    pub(crate) fn status(&self, target: &str) -> u16 {
        self.send("GET", target, b"").map_or(0, |response| response.status)
    }

    pub(crate) fn send(&self, method: &str, target: &str, body: &[u8]) -> Result<Response, String> {
        let request = Request {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: body.to_vec(),
        };
        client::send(self.address, &request)
    }

    /// Writes lines to the database `d`.
    pub(crate) fn write(&self, lines: &str) -> Response {
        self.send("POST", "/write?db=d", lines.as_bytes()).expect("an answer")
    }

    /// Asks the database `d`; the whole answer.
    pub(crate) fn query(&self, text: &str) -> serde_json::Value {
        let target = format!("/query?db=d&epoch=ns&q={}", percent_encode(text));
        let response = self.send("POST", &target, b"").unwrap_or_else(|error| panic!("{text}: {error}"));
        serde_json::from_slice(&response.body).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The number in the first row of a query, beside the time; 0 without rows.
    pub(crate) fn number(&self, text: &str) -> i64 {
        let answer = self.query(text);
        let result = &answer["results"][0];
        assert!(result.get("error").is_none(), "{text}: {answer}");
        result["series"][0]["values"][0][1].as_i64().unwrap_or(0)
    }

    /// A metric without labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.send("GET", "/metrics", b"").expect("metrics").body;
        let text = String::from_utf8_lossy(&text).into_owned();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// The names of its threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.map(|name| name.trim().to_owned()).collect()
    }

    /// The peak of resident memory, corrected to that of an optimised build: unoptimised code takes 11 MiB more.
    pub(crate) fn peak_resident_bytes(&self) -> u64 {
        const OPTIMISED_CODE_KIB: u64 = 14 << 10;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("readable");
        let kib = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("is there");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
        };
        (kib("VmHWM:") - kib("RssFile:").saturating_sub(OPTIMISED_CODE_KIB)) << 10
    }

    /// What the README promises: resident memory stays within 1.1 times the limit.
    pub(crate) fn assert_within_memory_limit(&self, limit_mib: u64) {
        let peak_mib = self.peak_resident_bytes() >> 20;
        assert!(
            peak_mib * 10 <= limit_mib * 11,
            "{peak_mib} MiB were resident with a limit of {limit_mib} MiB"
        );
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Kills the process as `kill -9` does, while others still use it.
    pub(crate) fn kill_9(&self) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-KILL", &pid]).status().expect("kill runs");
        assert!(killed.success());
    }

    /// Kills the process as `kill -9` does, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        self.child.wait().expect("gone");
    }

    /// Asks it to stop, and waits for it.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(asked.success());
        self.wait()
    }

    /// Waits until the process ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("can be waited for") {
                return status;
            }
            assert!(begun.elapsed() < WAIT, "does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if !self.log.starts_with("/dev") {
            let _ = std::fs::remove_file(&self.log);
        }
    }
}
