//! `nyala demo`.

#[cfg(feature = "sql")]
mod dashboard;

use super::log;
use super::signals::Signals;
use crate::assemble::Running;
use crate::config::{BindAddress, GivenConfig};
use crate::storage::Past;
use clap::Args;
use nyala_bench::demo::DemoSettings;
use std::io::Write;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  nyala demo                                  on port 8086, data in a directory that is removed at the end
  nyala demo --data-dir ./sample --hosts 1000 a larger sample, kept";

/// What the demonstration shows.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Where the sample is kept [default: a directory that is removed at the end]
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: Option<PathBuf>,
    /// Address and port of the HTTP interface
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8086")]
    http_bind: BindAddress,
    /// Hosts whose CPU metrics are written
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    hosts: u64,
    /// Hours of data
    #[arg(long, default_value_t = 13, value_parser = clap::value_parser!(i64).range(13..=720))]
    hours: i64,
    /// Stop after the queries instead of serving until Ctrl-C
    #[arg(long)]
    exit: bool,
}

pub(super) fn run(args: &DemoArgs) -> Result<(), String> {
    log::to_standard_error("warn");
    let temporary = match &args.data_dir {
        Some(_) => None,
        None => {
            Some(tempfile::tempdir().map_err(|error| format!("making a directory for the sample: {error}"))?)
        }
    };
    let data_dir = args.data_dir.clone().or_else(|| Some(temporary.as_ref()?.path().to_owned()));
    let given = GivenConfig { data_dir, http_bind: Some(args.http_bind), ..GivenConfig::default() };
    let config = given.resolve(None)?;
    let running = Running::start(&config, Past::Left).map_err(|error| match error.kind() {
        nyala_core::ErrorKind::Io => {
            format!("{error} (is something else on {}? try --http-bind)", args.http_bind)
        }
        _ => error.to_string(),
    })?;
    running.ready();
    let url = format!("http://{}", running.server.address);
    let settings = DemoSettings { hosts: args.hosts, hours: args.hours, ..DemoSettings::default() };
    let mut out = std::io::stdout();
    nyala_bench::demo::run(&url, &settings, &mut out).map_err(|error| error.to_string())?;
    #[cfg(feature = "sql")]
    let page = dashboard::save(&url, &settings).map_err(|error| error.to_string())?;
    #[cfg(not(feature = "sql"))]
    let page = format!("{url}/");
    if !args.exit {
        let invitation = format!(
            "\nServing on {url} until you press Ctrl-C. Try:\n  curl -G '{url}/query' --data-urlencode 'db={}' --data-urlencode 'q=SHOW MEASUREMENTS'\n\nOr look at it in a browser:\n  {page}\n",
            settings.database
        );
        out.write_all(invitation.as_bytes()).map_err(|error| error.to_string())?;
        Signals::listen(|| {})?.wait_for_stop();
    }
    running.stop().map_err(|error| error.to_string())
}
