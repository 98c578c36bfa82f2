//! `nyala serve` and `nyala config`.

use super::log;
use super::notify;
use super::signals::Signals;
use crate::allocator;
use crate::assemble::Running;
use crate::config::{Config, GivenConfig, markdown};
use crate::log_filter;
use crate::storage::Past;
use crate::traces;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  nyala serve --data-dir /var/lib/nyala --memory-limit 4GiB
  NYALA_HTTP_BIND=127.0.0.1:9999 nyala serve
  nyala serve --config /etc/nyala.toml
  nyala serve --http-bind :8086 --auth-enabled --keep-alive-timeout 10m --shutdown-timeout 20s
  nyala serve --allowed-origins http://grafana.example.com:3000   # its pages ask from the browser
  nyala serve --allowed-hosts influxdb.example.com                # a proxy passes that name on";

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  nyala config > nyala.toml                 a file to start from
  nyala config --config nyala.toml          check a file
  nyala config --markdown                   what each setting means";

/// Below this limit, memory that the allocator keeps would be a large part of it.
const SMALL_MEMORY_BYTES: usize = 256 << 20;

/// Settings of the server.
#[derive(Debug, Clone, Args)]
pub(super) struct ServeArgs {
    /// A TOML file with settings of the same names
    #[arg(long, env = "NYALA_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    given: GivenConfig,
}

impl ServeArgs {
    /// The file with settings, if one was named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The data directory, if a flag or a variable says it.
    pub(super) fn data_dir(&self) -> Option<&Path> {
        self.given.data_dir.as_deref()
    }

    pub(super) fn resolve(self) -> Result<Config, String> {
        self.given.resolve(self.config.as_deref())
    }
}

/// What `nyala config` prints.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Print a page that explains all settings instead, in Markdown
    #[arg(long)]
    markdown: bool,
}

pub(super) fn print_config(args: ConfigArgs) -> Result<(), String> {
    let text = match args.markdown {
        true => markdown(),
        false => toml::to_string(&args.serve.resolve()?).map_err(|error| error.to_string())?,
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

pub(super) fn run(args: ServeArgs) -> Result<(), String> {
    let config = args.clone().resolve()?;
    allocator::keep_freed_memory(freed_memory_kept_ms(&config));
    let huge_pages_refused = allocator::refuse_huge_pages();
    let recorder = traces::start(config.traces_endpoint.as_deref(), config.traces_ratio.0)?;
    log::start(&config.log_level.0, config.log_format, recorder);
    if let Err(error) = huge_pages_refused {
        tracing::warn!(%error, "cannot switch huge pages off: they may take memory beyond the limit");
    }
    let served = serve(args, &config);
    traces::finish();
    served?;
    tracing::info!("stopped");
    Ok(())
}

/// Serves until a signal says that it is enough.
fn serve(args: ServeArgs, config: &Config) -> Result<(), String> {
    let signals = Signals::listen(move || read_log_level_again(args.clone()))?;
    log_settings(config);
    let running = Running::start(config, Past::Kept).map_err(|error| error.to_string())?;
    #[cfg(feature = "sql")]
    if let Some(postgres) = &running.postgres {
        tracing::info!(address = %postgres.address(), "PostgreSQL's clients are served");
    }
    #[cfg(feature = "sql")]
    if let Some(flight) = &running.flight {
        tracing::info!(address = %flight.address(), "clients of Arrow Flight SQL are served");
    }
    let address = running.server.address;
    let scheme = if config.https_certificate.is_some() { "https" } else { "http" };
    tracing::info!(%address, console = %format_args!("{scheme}://{address}/"), "ready");
    // Who hears that it is ready may read its addresses in the log, and may stop it in order.
    signals.stop_in_order();
    running.ready();
    notify::ready();
    signals.wait_for_stop();
    notify::stopping();
    running.stop().map_err(|error| format!("stopping: {error}"))
}

/// Reads the level of the log again, after a SIGHUP.
fn read_log_level_again(args: ServeArgs) {
    if let Some(chosen) = log::chosen() {
        tracing::info!(log_level = chosen, "the level of the log stays: NYALA_LOG overrides log-level");
        return;
    }
    let again = args.resolve().and_then(|config| {
        log_filter::set(&config.log_level.0)?;
        Ok(config.log_level)
    });
    match again {
        Ok(level) => tracing::info!(log_level = %level, "the level of the log was read again"),
        Err(error) => tracing::error!(%error, "cannot read the level of the log again: it stays"),
    }
}

/// Logs version, limits and access settings: what a reader of the log needs to know first.
fn log_settings(config: &Config) {
    let Config { memory_limit, wal_sync, wal_limit, max_body_size, query_timeout, .. } = config;
    let sites =
        |given: &Option<Vec<String>>| given.as_ref().map_or("by default".to_owned(), |all| all.join(","));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("NYALA_COMMIT"),
        data_dir = %config.data_dir.display(),
        http_bind = %config.http_bind,
        bind_socket = config.bind_socket.as_ref().map(|path| path.display().to_string()),
        %memory_limit,
        %wal_sync,
        %wal_limit,
        %max_body_size,
        %query_timeout,
        max_concurrent_queries = config.max_concurrent_queries,
        max_row_limit = config.max_row_limit,
        max_select_series = config.max_select_series,
        max_select_buckets = config.max_select_buckets,
        max_select_point = config.max_select_point,
        authentication = if config.auth_enabled { "on" } else { "off" },
        tls = if config.https_certificate.is_some() { "on" } else { "off" },
        allowed_hosts = sites(&config.allowed_hosts),
        allowed_origins = sites(&config.allowed_origins),
        "nyala starts"
    );
}

/// How long the allocator keeps freed memory, which is resident but not charged. A tenth of a second costs nothing
/// measurable and keeps a server under full load near its limit: 533 to 551 MB at 512 MiB, instead of 565 to 593 with
/// mimalloc's own second. With a small limit nothing is kept. That costs a fifth of the CPU of writes, but keeps
/// resident memory near the charged memory (measured: 85 instead of 110 MB at a limit of 92 MiB).
fn freed_memory_kept_ms(config: &Config) -> u16 {
    if config.memory_limit.0 < SMALL_MEMORY_BYTES { 0 } else { 100 }
}
