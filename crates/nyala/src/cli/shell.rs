//! `nyala shell`: a client of a server, or of a data directory, which this process serves as long as the shell runs.

use super::log;
use crate::assemble::Running;
use crate::config::GivenConfig;
use crate::storage::Past;
use clap::Args;
use nyala_shell::ShellArgs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Which server or data, who asks, and what is executed.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Open the data of a server that is stopped, instead of asking a server
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["host", "port", "url", "tls", "ca", "insecure"])]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    shell: ShellArgs,
}

pub(super) fn run(args: &Arguments) -> ExitCode {
    let Some(data_dir) = &args.data_dir else { return nyala_shell::run(&args.shell, None) };
    log::to_standard_error("error");
    let running = match serve(data_dir) {
        Ok(running) => running,
        Err(message) => {
            log::print_error(&message);
            return ExitCode::FAILURE;
        }
    };
    let code = nyala_shell::run(&args.shell, Some(&format!("http://{}", running.server.address)));
    match running.stop() {
        Ok(()) => code,
        Err(error) => {
            log::print_error(&format!("closing {}: {error}", data_dir.display()));
            ExitCode::FAILURE
        }
    }
}

/// Serves the directory on a port of the system's choice, which only this machine can reach.
pub(super) fn serve(data_dir: &Path) -> Result<Running, String> {
    let given = GivenConfig {
        data_dir: Some(data_dir.to_owned()),
        http_bind: Some("127.0.0.1:0".parse().expect("it is an address")),
        postgres_bind: Some("none".parse().expect("it is a word for no address")),
        flight_bind: Some("none".parse().expect("it is a word for no address")),
        ..GivenConfig::default()
    };
    let config = given.resolve(None)?;
    let running = Running::start(&config, Past::Left)
        .map_err(|error| format!("opening {}: {error}", data_dir.display()))?;
    running.ready();
    Ok(running)
}
