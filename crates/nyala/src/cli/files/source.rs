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
    /// Does something with a client of the server, which is stopped afterwards if this process is it.
    pub(super) fn with_client<T>(
        &self,
        work: impl FnOnce(&Client) -> Result<T, String>,
    ) -> Result<T, String> {
        let Some(data_dir) = &self.data_dir else { return work(&Client::of(&self.server, None)?) };
        log::to_standard_error("error");
        let running: Running = shell::serve(data_dir)?;
        let address = format!("http://{}", running.server.address);
        let done = Client::of(&self.server, Some(&address)).and_then(|client| work(&client));
        let stopped = running.stop().map_err(|error| format!("closing {}: {error}", data_dir.display()));
        done.and_then(|done| stopped.map(|()| done))
    }
}
