//! Real clusters for tests and manual trials, which start in about a second.
//!
//! Kudu's command line tool has a control shell for small clusters (`kudu test mini_cluster`), which reads one JSON
//! object per line and answers with one. Every daemon gets its own address in 127.0.0.0/8. When the shell's input is
//! closed, the shell and the daemons end, so nothing outlives the process that started the cluster.

mod artifact;
mod kerberos;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use artifact::kudu_home;
pub use kerberos::have_kerberos;

/// What to start.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Number of masters (odd).
    pub masters: usize,
    /// Number of tablet servers.
    pub tablet_servers: usize,
    /// Flags for every master.
    pub master_flags: Vec<String>,
    /// Flags for every tablet server.
    pub tablet_server_flags: Vec<String>,
    /// Accept JSON web tokens of the account `acct`.
    pub jwt: bool,
    /// Require Kerberos, with the cluster's own key distribution centre. Needs the programs of MIT Kerberos on this
    /// machine ([`have_kerberos`]).
    pub kerberos: bool,
}

impl ClusterOptions {
    /// A cluster of this size with Kudu's defaults.
    pub fn new(masters: usize, tablet_servers: usize) -> Self {
        Self {
            masters,
            tablet_servers,
            master_flags: Vec::new(),
            tablet_server_flags: Vec::new(),
            jwt: false,
            kerberos: false,
        }
    }

    /// Adds a flag for all daemons.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.master_flags.push(flag.into());
        self.tablet_server_flags.push(flag.into());
        self
    }

    /// Adds a flag for the masters.
    #[must_use]
    pub fn master_flag(mut self, flag: &str) -> Self {
        self.master_flags.push(flag.into());
        self
    }

    /// Adds a flag for the tablet servers.
    #[must_use]
    pub fn tablet_server_flag(mut self, flag: &str) -> Self {
        self.tablet_server_flags.push(flag.into());
        self
    }
}

/// One daemon of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// The master with this index.
    Master(usize),
    /// The tablet server with this index.
    TabletServer(usize),
}

/// A running cluster. Dropping it ends the daemons and removes their data.
#[derive(Debug)]
pub struct TestCluster {
    home: PathBuf,
    root: PathBuf,
    shell: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    masters: Vec<String>,
    master_web: Vec<String>,
    tablet_servers: Vec<String>,
    tablet_server_web: Vec<String>,
}

impl TestCluster {
    /// Starts a cluster and waits until its daemons serve.
    ///
    /// # Errors
    /// A message: the binaries are not available, or a daemon did not start.
    pub fn start(options: &ClusterOptions) -> Result<Self, String> {
        let home = kudu_home()?;
        if options.kerberos {
            have_kerberos()?;
        }
        remove_leftovers();
        attempt(|| Self::start_once(&home, options))
    }

    fn start_once(home: &Path, options: &ClusterOptions) -> Result<Self, String> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("{DIRECTORY_PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let home = match options.kerberos {
            true => kerberos::home_for_kerberos(home, &root)?,
            false => home.to_owned(),
        };
        let log = std::fs::File::create(root.join("shell.log")).map_err(|error| error.to_string())?;
        let mut shell = tool(&home)
            .args(["test", "mini_cluster", "--serialization=json"])
            .env("TEST_TMPDIR", &root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("the cluster shell: {error}"))?;
        let input = shell.stdin.take();
        let output = shell.stdout.take().ok_or("the cluster shell has no output")?;
        let mut cluster = Self {
            home,
            root,
            shell,
            input,
            output: BufReader::new(output),
            masters: Vec::new(),
            master_web: Vec::new(),
            tablet_servers: Vec::new(),
            tablet_server_web: Vec::new(),
        };
        let of_masters = [&DAEMON_FLAGS[..], &["--ipki_ca_key_size=2048"]].concat();
        let mut create = json!({
            "numMasters": options.masters,
            "numTservers": options.tablet_servers,
            "clusterRoot": cluster.root.join("cluster"),
            "extraMasterFlags": with_defaults(&of_masters, &options.master_flags),
            "extraTserverFlags": with_defaults(&DAEMON_FLAGS, &options.tablet_server_flags),
        });
        if options.kerberos {
            create["enableKerberos"] = json!(true);
        }
        if options.jwt {
            create["miniOidcOptions"] = json!({
                "expirationTime": "3600000",
                "jwksOptions": [{"accountId": "acct", "isValidKey": true}],
            });
        }
        cluster.request(json!({ "createCluster": create }))?;
        cluster.start_daemons()?;
        let masters = cluster.request(json!({ "getMasters": {} }))?;
        cluster.masters = addresses(&masters["getMasters"]["masters"], "boundRpcAddress");
        cluster.master_web = addresses(&masters["getMasters"]["masters"], "boundHttpAddress");
        let servers = cluster.request(json!({ "getTservers": {} }))?;
        cluster.tablet_servers = addresses(&servers["getTservers"]["tservers"], "boundRpcAddress");
        cluster.tablet_server_web = addresses(&servers["getTservers"]["tservers"], "boundHttpAddress");
        if cluster.masters.len() != options.masters || cluster.tablet_servers.len() != options.tablet_servers
        {
            return Err(format!("the shell started {masters} and {servers}"));
        }
        Ok(cluster)
    }

    fn start_daemons(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            match self.request(json!({ "startCluster": {} })) {
                // The shell waits 15 s until the masters know the tablet servers. Asked again, it waits for those that run.
                Err(error) if error.contains("to register with") && begun.elapsed() < REGISTERED_WITHIN => {}
                started => return started.map(drop),
            }
        }
    }

    /// `host:port` of every master.
    pub fn masters(&self) -> &[String] {
        &self.masters
    }

    /// `host:port` of every master's web pages.
    pub fn master_web(&self) -> &[String] {
        &self.master_web
    }

    /// `host:port` of every tablet server.
    pub fn tablet_servers(&self) -> &[String] {
        &self.tablet_servers
    }

    /// `host:port` of every tablet server's web pages.
    pub fn tablet_server_web(&self) -> &[String] {
        &self.tablet_server_web
    }

    /// Kills a daemon (SIGKILL).
    ///
    /// # Errors
    /// The shell's message, here and in the following methods.
    pub fn kill(&mut self, daemon: Daemon) -> Result<(), String> {
        self.request(json!({ "stopDaemon": { "id": id(daemon) } })).map(drop)
    }

    /// Starts a killed daemon again, at its old address with its old data.
    pub fn restart(&mut self, daemon: Daemon) -> Result<(), String> {
        attempt(|| self.request(json!({ "startDaemon": { "id": id(daemon) } }))).map(drop)
    }

    /// Freezes a daemon (SIGSTOP): its connections stay open but it does not answer.
    pub fn pause(&mut self, daemon: Daemon) -> Result<(), String> {
        self.request(json!({ "pauseDaemon": { "id": id(daemon) } })).map(drop)
    }

    /// Resumes a frozen daemon (SIGCONT).
    pub fn resume(&mut self, daemon: Daemon) -> Result<(), String> {
        self.request(json!({ "resumeDaemon": { "id": id(daemon) } })).map(drop)
    }

    /// Changes a flag of a running daemon.
    pub fn set_flag(&mut self, daemon: Daemon, flag: &str, value: &str) -> Result<(), String> {
        self.request(json!({ "setDaemonFlag": { "id": id(daemon), "flag": flag, "value": value } })).map(drop)
    }

    /// A JSON web token for the user. `valid` says whether it is signed by a key that the cluster knows.
    pub fn create_jwt(&mut self, user: &str, valid: bool) -> Result<String, String> {
        let request = json!({ "createJwt": { "accountId": "acct", "subject": user, "isValidKey": valid } });
        let answer = self.request(request)?;
        answer["createJwt"]["jwt"].as_str().map(str::to_owned).ok_or_else(|| format!("no token in {answer}"))
    }

    /// Gets a ticket for this user of a cluster with Kerberos: `test-user`, who may work with tables, or
    /// `test-admin`, who may do everything.
    pub fn kinit(&mut self, user: &str) -> Result<(), String> {
        self.request(json!({ "kinit": { "username": user } })).map(drop)
    }

    /// The environment in which a program finds the tickets of [`Self::kinit`].
    pub fn kerberos_environment(&mut self) -> Result<Vec<(String, String)>, String> {
        let answer = self.request(json!({ "getKdcEnvVars": {} }))?;
        let variables = answer["getKdcEnvVars"]["envVars"].as_object().ok_or("no Kerberos here")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(variables.iter().map(|(name, value)| (name.clone(), text(value))).collect())
    }

    /// Kudu's command line tool, ready for arguments (see [`Self::masters`] for the first of them).
    pub fn kudu(&self) -> Command {
        tool(&self.home)
    }

    /// Where the daemons keep data and logs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The process ids of the daemons that run now.
    pub fn daemon_pids(&self) -> Vec<u32> {
        let shell = self.shell.id().to_string();
        let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == shell))
        })
        .collect()
    }

    fn request(&mut self, command: Value) -> Result<Value, String> {
        let input = self.input.as_mut().ok_or("the cluster shell was closed")?;
        writeln!(input, "{command}")
            .and_then(|()| input.flush())
            .map_err(|error| self.shell_ended(&error.to_string()))?;
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        if read == 0 {
            return Err(self.shell_ended("its output ended"));
        }
        let answer: Value = serde_json::from_str(&line).map_err(|error| format!("{error} in {line}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{command}: {error}")),
            None => Ok(answer),
        }
    }

    fn shell_ended(&self, why: &str) -> String {
        let log = std::fs::read_to_string(self.root.join("shell.log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(5).collect();
        format!("the cluster shell failed ({why}): {tail:?}")
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        // Closing the input ends the shell and with it the daemons.
        drop(self.input.take());
        let _ = self.shell.wait();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

const DIRECTORY_PREFIX: &str = "kudu-client-cluster-";

/// By default the shell makes keys of 768 bits, which TLS libraries no longer accept, and lets daemons log all their metrics
/// every second. Kudu reserves 8 MiB for the log of each tablet.
const DAEMON_FLAGS: [&str; 3] =
    ["--ipki_server_key_size=2048", "--metrics_log_interval_ms=60000", "--log_preallocate_segments=false"];

/// How often something is started. The shell gives a master 5 s to lead, the key distribution centre one, and every daemon
/// 70 s to begin. A slow and busy machine may need more, not always.
const ATTEMPTS: usize = 5;
/// How long tablet servers that run may take to register with the masters.
const REGISTERED_WITHIN: Duration = Duration::from_secs(180);

/// Starts something, and tries it again if it fails.
fn attempt<T>(mut start: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for _ in 1..ATTEMPTS {
        if let Ok(started) = start() {
            return Ok(started);
        }
    }
    start()
}

/// Removes directories of processes that were killed before they could remove them.
fn remove_leftovers() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn tool(home: &Path) -> Command {
    let mut command = Command::new(home.join("bin/kudu"));
    // Only for Kudu's processes: the directory contains an old OpenSSL and Kerberos.
    command.env("LD_LIBRARY_PATH", home.join("lib")).env("SASL_PATH", home.join("lib/sasl2"));
    command
}

fn with_defaults(defaults: &[&str], flags: &[String]) -> Vec<String> {
    defaults.iter().map(|flag| (*flag).to_owned()).chain(flags.iter().cloned()).collect()
}

fn id(daemon: Daemon) -> Value {
    match daemon {
        Daemon::Master(index) => json!({ "type": "MASTER", "index": index }),
        Daemon::TabletServer(index) => json!({ "type": "TSERVER", "index": index }),
    }
}

fn addresses(daemons: &Value, kind: &str) -> Vec<String> {
    let daemons = daemons.as_array().map(Vec::as_slice).unwrap_or_default();
    let address = |daemon: &Value| {
        let address = &daemon[kind];
        Some(format!("{}:{}", address["host"].as_str()?, address["port"].as_u64()?))
    };
    daemons.iter().filter_map(address).collect()
}
