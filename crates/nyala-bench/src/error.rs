//! Errors of a benchmark, classified by what the user can do about them.

use nyala_client::ClientError;
use std::fmt;
use std::io;

/// The result of functions that can fail.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a benchmark stopped.
#[derive(Debug)]
pub enum BenchError {
    /// The command is invalid.
    Invalid(String),
    /// The server cannot be reached, the connection broke, or a file cannot be read or written.
    Io {
        /// What was being done.
        context: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server's answer is not HTTP, or not what was requested.
    Protocol(String),
    /// The server refused a request.
    Server {
        /// HTTP status.
        status: u16,
        /// The first part of the answer's body.
        message: String,
    },
    /// The server refused a statement of SQL.
    Sql {
        /// SQLSTATE.
        code: String,
        /// Its message.
        message: String,
    },
    /// The server to measure could not be started.
    Launch(String),
    /// `--verify` found answers that differ from the computed ones.
    WrongAnswers {
        /// How many answers differ.
        wrong: usize,
        /// How many were compared.
        compared: usize,
    },
}

impl BenchError {
    /// Adds to an I/O error what was being done.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> BenchError {
        let context = context.into();
        move |source| BenchError::Io { context, source }
    }
}

impl From<ClientError> for BenchError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Invalid(message) => BenchError::Invalid(message),
            ClientError::Io { context, source } => BenchError::Io { context, source },
            ClientError::Protocol(message) => BenchError::Protocol(message),
            ClientError::Server { status, message } => BenchError::Server { status, message },
        }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Invalid(message) => out.write_str(message),
            BenchError::Io { context, source } => write!(out, "{context}: {source}"),
            BenchError::Protocol(message) => write!(out, "unexpected answer from the server: {message}"),
            BenchError::Server { status, message } => {
                write!(out, "the server answered {status}: {}", message.trim_end())
            }
            BenchError::Sql { code, message } => write!(out, "the server answered {code}: {message}"),
            BenchError::Launch(message) => write!(out, "starting a server to measure: {message}"),
            BenchError::WrongAnswers { wrong, compared } => {
                write!(out, "{wrong} of {compared} answers differ from the computed ones")
            }
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BenchError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
