//! The command line of the shell.

use crate::output::Format;
use clap::Args;
use std::path::PathBuf;

/// Which server, and who asks.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// The server's host [default: 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The server's port [default: 8086]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The server's address, instead of host and port
    #[arg(long, value_name = "URL", conflicts_with_all = ["host", "port", "tls"])]
    url: Option<String>,
    /// Use HTTPS
    #[arg(long)]
    tls: bool,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
}

/// Whom to trust, and who asks.
#[derive(Args, Debug, Default)]
pub struct AccessArgs {
    /// Trust the certificates in this PEM file, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, conflicts_with = "ca")]
    pub(crate) insecure: bool,
    /// Log in as this user; the password comes from NYALA_PASSWORD, INFLUX_PASSWORD or a prompt
    #[arg(short, long, value_name = "NAME", env = "INFLUX_USERNAME")]
    pub(crate) username: Option<String>,
    /// Log in with a token, of nyala or a JSON web token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "NYALA_TOKEN",
        hide_env_values = true,
        conflicts_with = "username"
    )]
    pub(crate) token: Option<String>,
}

/// Which server, who asks, and what is executed.
#[derive(Args, Debug)]
pub struct ShellArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Begin in this database, or DATABASE.POLICY
    #[arg(short, long, value_name = "DATABASE")]
    pub(crate) database: Option<String>,
    /// Begin with SQL
    #[arg(long, conflicts_with = "influxql")]
    pub(crate) sql: bool,
    /// Begin with InfluxQL, the default
    #[arg(long)]
    pub(crate) influxql: bool,
    /// Execute a statement or a command of the shell, and leave; may be repeated
    #[arg(short = 'c', long, value_name = "STATEMENT")]
    pub(crate) execute: Vec<String>,
    /// Execute the statements of a file, and leave; - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "execute")]
    pub(crate) file: Vec<PathBuf>,
    /// How rows are printed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// How InfluxQL shows times: rfc3339, ns, u, ms, s, m or h
    #[arg(long, value_name = "PRECISION", default_value = "ns")]
    pub(crate) precision: String,
    /// Show each row as a block of lines
    #[arg(short = 'x', long)]
    pub(crate) expanded: bool,
    /// Show how long each statement takes
    #[arg(long)]
    pub(crate) timing: bool,
    /// Neither read nor write the file of earlier statements
    #[arg(long)]
    pub(crate) no_history: bool,
}

impl ServerArgs {
    /// Whether a server is named.
    pub fn names_a_server(&self) -> bool {
        self.url.is_some() || self.host.is_some() || self.port.is_some() || self.tls
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> String {
        if let Some(url) = &self.url {
            return url.clone();
        }
        let scheme = if self.tls { "https" } else { "http" };
        let host = self.host.as_deref().unwrap_or("127.0.0.1");
        let port = self.port.unwrap_or(8086);
        match host.contains(':') && !host.starts_with('[') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        }
    }
}
