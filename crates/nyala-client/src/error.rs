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
            ClientError::Io { context, source } => {
                let words = source.to_string();
                write!(out, "{context}: {words}")?;
                hint(&words).map_or(Ok(()), |hint| write!(out, " ({hint})"))
            }
            ClientError::Protocol(message) => write!(out, "unexpected answer from the server: {message}"),
            ClientError::Server { status, message } => {
                write!(out, "the server answered {status}: {}", message.trim_end())
            }
        }
    }
}

/// What is wrong with a certificate, where rustls says it with the names of its types.
fn hint(words: &str) -> Option<&'static str> {
    let hints = [
        ("CaUsedAsEndEntity", "it is one of an authority; one of a server has basicConstraints CA:FALSE"),
        (
            "UnknownIssuer",
            "who has signed it is not trusted: name a file of that authority, by --ca or SSL_CERT_FILE",
        ),
    ];
    hints.iter().find(|(name, _)| words.contains(name)).map(|(_, hint)| *hint)
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_in_words() {
        let refused = |error| {
            let error = rustls::Error::InvalidCertificate(error);
            ClientError::io("asking")(io::Error::new(io::ErrorKind::InvalidData, error)).to_string()
        };
        let unknown = refused(rustls::CertificateError::UnknownIssuer);
        assert!(
            unknown.starts_with("asking: ") && unknown.contains("(who has signed it is not trusted"),
            "{unknown}"
        );
        assert!(!refused(rustls::CertificateError::Expired).contains("signed"));
        assert!(hint("Other(OtherError(CaUsedAsEndEntity))").is_some());
    }
}
