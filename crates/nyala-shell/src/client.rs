//! A server as other commands ask it: with the options of the shell, and rows as Arrow IPC.

use crate::error::ShellError;
use crate::interrupt::Interrupt;
use crate::options::{AccessArgs, ServerArgs};
use crate::server::{Place, Server, SqlForm};
use nyala_client::Target;

/// A server, and who asks it. Errors are what a person reads.
pub struct Client(Server);

impl Client {
    /// The server that the options name, or the one at an address. Nothing is sent yet.
    ///
    /// # Errors
    /// The options are none of a server, or there is no password.
    pub fn of(args: &ServerArgs, address: Option<&str>) -> Result<Self, String> {
        let address = address.map_or_else(|| args.address(), str::to_owned);
        Server::of(&args.access, &address, Interrupt::default()).map(Self).map_err(words)
    }

    /// The rows of a statement, as pieces of a stream of Arrow IPC.
    ///
    /// # Errors
    /// Why there is no whole answer, or what the taker says.
    pub fn arrow(
        &self,
        statement: &str,
        database: &str,
        take: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut take = |piece: &[u8]| take(piece).map_err(ShellError::Command);
        self.0.sql(statement, database, SqlForm::Arrow, &mut take).map_err(words)
    }

    /// Executes a statement whose rows are of no interest.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn execute(&self, statement: &str, database: &str) -> Result<(), String> {
        self.0.sql(statement, database, SqlForm::Json, &mut |_| Ok(())).map_err(words)
    }

    /// Executes a COPY whose rows are the body. All of them are written, or none.
    ///
    /// # Errors
    /// Why they were refused.
    pub fn copy(&self, statement: &str, database: &str, media_type: &str, rows: &[u8]) -> Result<(), String> {
        self.0.copy(statement, database, media_type, rows).map_err(words)
    }

    /// Writes line protocol with times in nanoseconds.
    ///
    /// # Errors
    /// Why it was refused.
    pub fn write(&self, lines: &str, database: &str, policy: &str) -> Result<(), String> {
        let place = Place { database: database.to_owned(), policy: policy.to_owned() };
        self.0.write(lines, &place, "ns").map_err(words)
    }
}

/// A server, and the header line that says who asks it, for commands with requests of their own.
///
/// # Errors
/// The options are none of a server, or there is no password.
pub fn access(args: &AccessArgs, address: &str) -> Result<(Target, String), String> {
    let found = args.target(address).and_then(|target| Ok((target, args.credentials()?)));
    found.map_err(words)
}

/// An error as other commands print it, after their own "error: ".
fn words(error: ShellError) -> String {
    let text = error.text("");
    text.strip_prefix("ERROR: ")
        .or_else(|| text.strip_prefix("ERROR "))
        .unwrap_or(&text)
        .trim_end()
        .to_owned()
}
