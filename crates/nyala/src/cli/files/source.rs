//! The server that rows come from or go to: one that runs, or this process, for a data directory.

use crate::assemble::Running;
use crate::cli::{log, shell};
use clap::Args;
use nyala_shell::{Client, ServerArgs};
use std::path::PathBuf;

/// Which server or data, and who asks.
#[derive(Debug, Args)]
pub(in crate::cli) struct ServerOrDataArgs {
    /// Open the data of a server that is stopped, instead of asking a server
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["host", "port", "url", "tls", "ca", "insecure"])]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// The same, and the database there.
#[derive(Debug, Args)]
pub(in crate::cli) struct SourceArgs {
    #[command(flatten)]
    pub(super) from: ServerOrDataArgs,
    /// The database
    #[arg(short, long, value_name = "DATABASE")]
    pub(super) database: String,
}

impl ServerOrDataArgs {
    /// Does something with a client of the server, which is stopped afterwards if this process is it. The text says whose data it is,
    /// also in journals: the URL, or the directory, whose server has another port each time.
    pub(super) fn with_client<T>(
        &self,
        work: impl FnOnce(&Client, &str) -> Result<T, String>,
    ) -> Result<T, String> {
        let Some(data_dir) = &self.data_dir else {
            let client = Client::of(&self.server, None)?;
            return work(&client, &client.url());
        };
        log::to_standard_error("error");
        let running: Running = shell::serve(data_dir)?;
        let address = format!("http://{}", running.server.address);
        let place = std::fs::canonicalize(data_dir);
        let place = place.map_err(|error| format!("{}: {error}", data_dir.display()));
        let done = place
            .and_then(|place| work(&Client::of(&self.server, Some(&address))?, &place.display().to_string()));
        let stopped = running.stop().map_err(|error| format!("closing {}: {error}", data_dir.display()));
        done.and_then(|done| stopped.map(|()| done))
    }
}
