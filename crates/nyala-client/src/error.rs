//! Errors of a request, classified by what the user can do about them.

use std::fmt;
use std::io;

/// The result of functions that can fail.
pub type Result<T> = std::result::Result<T, ClientError>;

/// Why there is no answer.
#[derive(Debug)]
pub enum ClientError {
    /// The address is invalid, or certificates cannot be used.
    Invalid(String),
    /// The server cannot be reached, or the connection broke.
    Io {
        /// What was being done.
        context: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server's answer is not HTTP, or longer than what was asked for.
    Protocol(String),
    /// The server refused a request.
    Server {
        /// HTTP status.
        status: u16,
        /// The first part of the answer's body.
        message: String,
    },
}

impl ClientError {
    /// Adds to an I/O error what was being done.
    pub fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> ClientError {
        let context = context.into();
        move |source| ClientError::Io { context, source }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Invalid(message) => out.write_str(message),
            ClientError::Io { context, source } => write!(out, "{context}: {source}"),
            ClientError::Protocol(message) => write!(out, "unexpected answer from the server: {message}"),
            ClientError::Server { status, message } => {
                write!(out, "the server answered {status}: {}", message.trim_end())
            }
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
