//! `nyala serve` and `nyala config`.

use crate::assemble::Running;
use crate::config::{Config, GivenConfig};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

pub(super) const EXAMPLES: &str = "\
Examples:
  nyala serve --data-dir /var/lib/nyala --memory-limit 4GiB
  NYALA_HTTP_BIND=127.0.0.1:9999 nyala serve
  nyala serve --config /etc/nyala.toml";

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  nyala config > nyala.toml                 a file to start from
  nyala config --config nyala.toml          check a file";

/// Limits below this are small: an allocator's slack would be much of them.
const SMALL_MEMORY_BYTES: usize = 256 << 20;
/// What the allocator reads how long it keeps freed memory from, in milliseconds.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Settings of the server.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// A TOML file with settings of the same names
    #[arg(long, env = "NYALA_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: GivenConfig,
}

impl ServeArgs {
    fn resolve(self) -> Result<Config, String> {
        self.given.resolve(self.config.as_deref())
    }
}

pub(super) fn print_config(args: ServeArgs) -> Result<(), String> {
    let text = toml::to_string(&args.resolve()?).map_err(|error| error.to_string())?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

pub(super) fn run(args: ServeArgs) -> Result<(), String> {
    let config = args.resolve()?;
    give_memory_back_soon(&config);
    log_to_standard_error("info");
    allow_open_files();
    let running = Running::start(&config).map_err(|error| error.to_string())?;
    tracing::info!(address = %running.address(), data_dir = %config.data_dir.display(), "ready");
    wait_for_stop()?;
    tracing::info!("stopping: letting requests end");
    running.stop().map_err(|error| format!("stopping: {error}"))?;
    tracing::info!("stopped");
    Ok(())
}

/// Starts anew with an allocator that gives freed memory back sooner than after its second: what it keeps is resident
/// beyond what is accounted. A tenth of one costs nothing that could be measured and holds a server under full load
/// near its limit (533 to 551 instead of 565 to 593 MB at 512 MiB). Where the limit is small, nothing is kept: that
/// costs a fifth of the CPU of writes, and is what keeps resident memory near what is accounted (measured: 85 instead
/// of 110 MB at a limit of 92 MiB). The allocator reads this setting before `main`, so only a new program image can
/// have it.
fn give_memory_back_soon(config: &Config) {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let delay_ms = if config.memory_limit.0 < SMALL_MEMORY_BYTES { "0" } else { "100" };
    let Ok(program) = std::env::current_exe() else { return };
    let mut again = std::process::Command::new(program);
    let error = again.args(std::env::args_os().skip(1)).env(PURGE_DELAY, delay_ms).exec();
    // Going on as this image costs memory, not correctness.
    tracing::warn!(%error, "the allocator keeps freed memory for a while");
}

/// Takes as many open files as the system lets this process have: one for each rowset and connection. The usual
/// default of 1024 is meant for programs that still call `select`.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the number of open files stays limited to {current:?}");
    }
}

/// Logs to standard error: what `NYALA_LOG` names, else `level` and above.
pub(super) fn log_to_standard_error(level: &str) {
    let filter = EnvFilter::try_from_env("NYALA_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Returns on SIGTERM or Ctrl-C.
pub(super) fn wait_for_stop() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("waiting for signals: {error}"))?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}
