//! The server that a benchmark runs against: a new one that the caller starts, or one at a URL.

use crate::cli::ServerArgs;
use crate::error::{BenchError, Result};
use crate::measure::server::{ServerProbe, evict_cached_files, listening_process};
use nyala_client::Target;
use std::any::Any;
use std::path::PathBuf;

/// A server that was started for the benchmark. Dropping `guard` stops it.
pub struct ServerUnderTest {
    /// `http://127.0.0.1:port`.
    pub url: String,
    /// `host:port` of its PostgreSQL's protocol, if it has that.
    pub postgres: Option<String>,
    /// `host:port` of its Flight SQL, if it has that.
    pub flight: Option<String>,
    /// Where it reads and writes files of COPY, if it may.
    pub files_dir: Option<PathBuf>,
    /// Its process.
    pub pid: Option<u32>,
    /// Where it keeps its data.
    pub data_dir: Option<PathBuf>,
    /// Restarts the server on the same data and port and returns its new process. Without it, nothing is measured with
    /// cold caches.
    pub restart: Option<Restart>,
    /// Kept until the benchmark is over; its `Drop` stops the server and removes what it leaves.
    pub guard: Box<dyn Any>,
}

/// Restarts a server and returns its new process.
pub type Restart = Box<dyn FnMut() -> std::result::Result<u32, Box<dyn std::error::Error>>>;

/// Starts a new server with settings (names and values, as flags of `nyala serve` have them), when no `--target` was given.
pub type Launch<'a> = &'a mut dyn FnMut(
    &[(String, String)],
) -> std::result::Result<ServerUnderTest, Box<dyn std::error::Error>>;

/// The server of a run: its address, and its process.
pub struct Server {
    /// Where it is.
    pub target: Target,
    /// `host:port` of its PostgreSQL's protocol, if that is known.
    pub postgres: Option<String>,
    /// `host:port` of its Flight SQL, if that is known.
    pub flight: Option<String>,
    /// Where it reads and writes files of COPY, if that is here.
    pub files_dir: Option<PathBuf>,
    /// Measures its process.
    pub probe: ServerProbe,
    /// Whether it was started for this run, so that its data may be dropped.
    pub fresh: bool,
    restart: Option<Restart>,
    _guard: Option<Box<dyn Any>>,
}

impl Server {
    /// The server that the options name, or a new one.
    pub fn find(args: &ServerArgs, launch: Launch<'_>) -> Result<Server> {
        Self::with_settings(args, &[], launch)
    }

    /// The server that the options name, or a new one with these settings.
    pub fn with_settings(
        args: &ServerArgs,
        settings: &[(String, String)],
        launch: Launch<'_>,
    ) -> Result<Server> {
        if let Some(url) = &args.target {
            let target = Target::parse(url)?;
            let pid = args.server_pid.or_else(|| listening_process(target.local_port()?));
            let data_dir = args.server_data_dir.clone();
            return Ok(Server {
                target,
                postgres: args.postgres.clone(),
                flight: None,
                files_dir: None,
                probe: ServerProbe { pid, data_dir },
                fresh: false,
                restart: None,
                _guard: None,
            });
        }
        let started = launch(settings).map_err(|error| BenchError::Launch(error.to_string()))?;
        Ok(Server {
            target: Target::parse(&started.url)?,
            postgres: started.postgres,
            flight: started.flight,
            files_dir: started.files_dir,
            probe: ServerProbe { pid: started.pid, data_dir: started.data_dir },
            fresh: true,
            restart: started.restart,
            _guard: Some(started.guard),
        })
    }

    /// Its name in reports if the options give none.
    pub fn default_label(&self) -> String {
        if self.fresh { "nyala".to_owned() } else { self.target.url() }
    }

    /// Empties the server's caches by a restart, and the system's cache of its files. Returns false if that is not
    /// possible.
    pub fn drop_caches(&mut self) -> Result<bool> {
        let (Some(restart), Some(data_dir)) = (&mut self.restart, &self.probe.data_dir) else {
            return Ok(false);
        };
        let pid = restart().map_err(|error| BenchError::Launch(error.to_string()))?;
        self.probe.pid = Some(pid);
        evict_cached_files(data_dir);
        Ok(true)
    }
}
