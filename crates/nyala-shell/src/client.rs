//! A server as other commands ask it: with the options of the shell, and rows as Arrow IPC.

use crate::answer::{InfluxqlAnswer, Lines};
use crate::error::{RefusedPoints, ShellError};
use crate::interrupt::Interrupt;
use crate::options::{AccessArgs, ServerArgs};
use crate::password;
use crate::server::{Place, Server, SqlForm};
use nyala_client::{Canceller, Target};
use std::time::Duration;

/// Rows of each document of an answer that nobody looks at.
const ROWS_OF_NO_INTEREST: usize = 1000;

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

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The same server; what it is asked belongs to an attempt to load something. It waits for what earlier attempts have sent,
    /// and is refused when a later one has begun.
    #[must_use]
    pub fn of_attempt(&self, load: &str, attempt: u64) -> Self {
        Self(self.0.of_attempt(load, attempt))
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

    /// Executes statements of InfluxQL whose rows are of no interest.
    ///
    /// # Errors
    /// Why the first one was refused that was.
    pub fn execute_influxql(&self, statements: &str, database: &str) -> Result<(), String> {
        let place = Place { database: database.to_owned(), policy: String::new() };
        let (mut lines, mut answer) = (Lines::default(), InfluxqlAnswer::default());
        let mut document = |line: &[u8]| answer.document(line, None, &mut std::io::sink());
        let mut take = |piece: &[u8]| lines.push(piece, &mut document);
        let answered = self.0.influxql(statements, &place, "ns", ROWS_OF_NO_INTEREST, &mut take);
        let answered = answered.and_then(|()| lines.finish(&mut document));
        answered.and_then(|()| answer.finish(None, &mut std::io::sink())).map_err(words)
    }

    /// Writes line protocol. `precision` is the unit of its times, as `/write` names it. Points that the server refuses keep the others
    /// from nothing: what it says of them is returned.
    ///
    /// # Errors
    /// Why nothing was written, or why that is not known.
    pub fn write(
        &self,
        lines: &[u8],
        database: &str,
        policy: &str,
        precision: &str,
    ) -> Result<Option<RefusedPoints>, String> {
        let place = Place { database: database.to_owned(), policy: policy.to_owned() };
        match self.0.write(lines, &place, precision) {
            Ok(()) => Ok(None),
            Err(ShellError::RefusedPoints(refused)) => Ok(Some(*refused)),
            Err(error) => Err(words(error)),
        }
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

/// The header line of a user whose password is in an environment variable, or typed. For commands that log in to several
/// servers, so that each has a variable of its own.
///
/// # Errors
/// There is no password.
pub fn log_in(username: &str, variable: &str) -> Result<String, String> {
    password_of(username, variable).and_then(|password| basic(username, &password))
}

/// The header line of a name and a password.
///
/// # Errors
/// They have characters that no header may have.
pub fn basic(username: &str, password: &str) -> Result<String, String> {
    crate::server::basic(username, password).map_err(words)
}

/// The password of a user: that of an environment variable, or typed.
///
/// # Errors
/// There is neither the variable nor a terminal.
pub fn password_of(username: &str, variable: &str) -> Result<String, String> {
    password::of(username, &[variable]).map_err(words)
}

/// Ctrl-C as other commands see it: it ends the request under way, and the command ends in order.
#[derive(Clone, Default)]
pub struct CtrlC(Interrupt);

impl CtrlC {
    /// Handles Ctrl-C from now on. Without it, Ctrl-C ends the program.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub fn listen(&self) -> Result<(), String> {
        self.0.listen().map_err(words)
    }

    /// Ends this request when Ctrl-C is pressed.
    pub fn watch(&self, request: Canceller) {
        self.0.watch(request);
    }

    /// Whether it was pressed.
    pub fn is_pressed(&self) -> bool {
        self.0.is_pressed()
    }

    /// Waits so long, or until it is pressed: then it is true.
    pub fn is_pressed_within(&self, time: Duration) -> bool {
        self.0.is_pressed_within(time)
    }
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
