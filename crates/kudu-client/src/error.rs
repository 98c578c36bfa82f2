//! Errors, classified by what the caller should do next.
//!
//! A Kudu answer can fail on three levels: the transport (no answer), the RPC layer (`ErrorStatusPB`: the
//! server would not run the call) and the application (`MasterErrorPB` or `TabletServerErrorPB` inside a
//! normal response). All three become one [`Error`]: its [`ErrorKind`] says what to do, [`Error::code`] keeps
//! the number Kudu sent, and the server and tablet are named where they are known.

use std::fmt;

use crate::pb;
use crate::pb::codes::{master, rpc, status, tserver};

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure, which tells what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server could not be reached, or the connection broke before an answer.
    Network,
    /// The deadline passed. The outcome of a write is unknown.
    TimedOut,
    /// The server is overloaded, or throttles this client: slow down.
    Busy,
    /// The server cannot serve this just now (starting, stopping, no leader yet).
    Unavailable,
    /// The replica is not the leader.
    NotLeader,
    /// The server does not hold this tablet (any more).
    TabletNotFound,
    /// The server forgot the scanner (idle too long, or restarted).
    ScannerExpired,
    /// The table, row or partition does not exist.
    NotFound,
    /// The table or row already exists.
    AlreadyPresent,
    /// The request is invalid: the server refused it, or this client did before sending.
    InvalidArgument,
    /// The table's schema changed since it was opened.
    SchemaMismatch,
    /// The user may not do this.
    NotAuthorized,
    /// The server rejected the credentials, and new ones of the same kind will not help.
    NotAuthenticated,
    /// The authentication token was refused or has expired.
    InvalidAuthenticationToken,
    /// The authorization token of the table was refused or has expired.
    InvalidAuthorizationToken,
    /// The server or this client does not support it.
    NotSupported,
    /// The server no longer knows the outcome of an earlier attempt of this write.
    OutcomeUnknown,
    /// The requested snapshot is too old or too far in the future.
    InvalidSnapshot,
    /// A configured bound was reached (buffer space, message size).
    Limit,
    /// The server's bytes do not follow the protocol.
    Protocol,
    /// Anything else the server reported.
    Server,
}

/// The code that Kudu sent, and the enum that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// `ErrorStatusPB.RpcErrorCodePB`.
    Rpc(i32),
    /// `MasterErrorPB.Code`, and the code of the `AppStatusPB` beside it.
    Master(i32, i32),
    /// `TabletServerErrorPB.Code`, and the code of the `AppStatusPB` beside it.
    TabletServer(i32, i32),
    /// `AppStatusPB.ErrorCode` of a single row.
    Row(i32),
}

/// A failure: its kind, message, server and tablet.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Details>);

#[derive(Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    code: Option<Code>,
    message: String,
    server: Option<String>,
    tablet: Option<String>,
}

impl Error {
    /// A failure of this kind, not (yet) tied to a server.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Details { kind, code: None, message: message.into(), server: None, tablet: None }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    pub(crate) fn timed_out(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TimedOut, message)
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The code Kudu sent, if the failure came from a server.
    pub fn code(&self) -> Option<Code> {
        self.0.code
    }

    /// The message of the server or of this client.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// `host:port` of the server that failed or refused, where known.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// The id of the tablet concerned, where known.
    pub fn tablet(&self) -> Option<&str> {
        self.0.tablet.as_deref()
    }

    /// Whether the same request can succeed when it is tried again later. After `TimedOut` a write may have been
    /// applied. The client has already retried until the operation's deadline when such an error reaches the caller.
    pub fn can_retry(&self) -> bool {
        use ErrorKind::*;
        matches!(
            self.0.kind,
            Network
                | TimedOut
                | Busy
                | Unavailable
                | NotLeader
                | TabletNotFound
                | ScannerExpired
                | InvalidAuthenticationToken
                | InvalidAuthorizationToken
        )
    }

    pub(crate) fn at_server(mut self, server: &str) -> Self {
        self.0.server.get_or_insert_with(|| server.to_owned());
        self
    }

    pub(crate) fn at_tablet(mut self, tablet: &str) -> Self {
        self.0.tablet.get_or_insert_with(|| tablet.to_owned());
        self
    }

    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    pub(crate) fn context(mut self, what: &str) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// An error of the RPC layer.
    pub(crate) fn from_rpc(status: &pb::rpc::ErrorStatus) -> Self {
        use ErrorKind::*;
        use rpc::*;
        let code = status.code.unwrap_or(0);
        let kind = match code {
            ERROR_NO_SUCH_METHOD | ERROR_NO_SUCH_SERVICE | FATAL_VERSION_MISMATCH => NotSupported,
            ERROR_SERVER_TOO_BUSY => Busy,
            ERROR_INVALID_REQUEST if !status.unsupported_feature_flags.is_empty() => NotSupported,
            ERROR_INVALID_REQUEST | FATAL_INVALID_RPC_HEADER | FATAL_DESERIALIZING_REQUEST => InvalidArgument,
            ERROR_REQUEST_STALE => OutcomeUnknown,
            ERROR_UNAVAILABLE | FATAL_SERVER_SHUTTING_DOWN => Unavailable,
            FATAL_UNKNOWN => Network,
            FATAL_UNAUTHORIZED => NotAuthorized,
            FATAL_INVALID_AUTHENTICATION_TOKEN => InvalidAuthenticationToken,
            ERROR_INVALID_AUTHORIZATION_TOKEN => InvalidAuthorizationToken,
            FATAL_INVALID_JWT => NotAuthenticated,
            _ => Server,
        };
        let error = Self::with_code(kind, status.message.clone(), Code::Rpc(code));
        if status.unsupported_feature_flags.is_empty() {
            return error;
        }
        error.context(&format!(
            "the server is too old for feature flags {:?}",
            status.unsupported_feature_flags
        ))
    }

    /// An error inside a master's answer.
    pub(crate) fn from_master(error: &pb::ServiceError) -> Self {
        use ErrorKind::*;
        use master::*;
        let (status, message) = status_of(error);
        let kind = match error.code {
            // The column to be added exists.
            INVALID_SCHEMA if status == status::ALREADY_PRESENT => AlreadyPresent,
            INVALID_SCHEMA | EVEN_REPLICATION_FACTOR | ILLEGAL_REPLICATION_FACTOR => InvalidArgument,
            TABLE_NOT_FOUND => NotFound,
            TABLE_ALREADY_PRESENT => AlreadyPresent,
            CATALOG_MANAGER_NOT_INITIALIZED | NOT_THE_LEADER => NotLeader,
            TABLET_NOT_RUNNING => Unavailable,
            NOT_AUTHORIZED => NotAuthorized,
            _ => kind_of_status(status),
        };
        Self::with_code(kind, message, Code::Master(error.code, status))
    }

    /// An error inside a tablet server's answer.
    pub(crate) fn from_tablet_server(error: &pb::ServiceError) -> Self {
        use ErrorKind::*;
        use tserver::*;
        let (status, message) = status_of(error);
        let kind = match error.code {
            MISMATCHED_SCHEMA | TABLET_HAS_A_NEWER_SCHEMA => SchemaMismatch,
            TABLET_NOT_FOUND | WRONG_SERVER_UUID | TABLET_FAILED => TabletNotFound,
            SCANNER_EXPIRED => ScannerExpired,
            TABLET_NOT_RUNNING => Unavailable,
            INVALID_SNAPSHOT => InvalidSnapshot,
            NOT_THE_LEADER => NotLeader,
            THROTTLED | TXN_LOCKED_RETRY_OP => Busy,
            NOT_AUTHORIZED => NotAuthorized,
            // A follower refuses a write in this way.
            UNKNOWN_ERROR if matches!(status, status::ILLEGAL_STATE | status::ABORTED) => NotLeader,
            _ => kind_of_status(status),
        };
        Self::with_code(kind, message, Code::TabletServer(error.code, status))
    }

    /// The error of one row of a write.
    pub(crate) fn from_row(status: &pb::AppStatus) -> Self {
        let message = status.message.clone().unwrap_or_default();
        Self::with_code(kind_of_status(status.code), message, Code::Row(status.code))
    }

    fn with_code(kind: ErrorKind, message: String, code: Code) -> Self {
        let mut error = Self::new(kind, message);
        error.0.code = Some(code);
        error
    }
}

fn status_of(error: &pb::ServiceError) -> (i32, String) {
    match &error.status {
        Some(status) => (status.code, status.message.clone().unwrap_or_default()),
        None => (0, String::new()),
    }
}

fn kind_of_status(code: i32) -> ErrorKind {
    use ErrorKind::*;
    use status::*;
    match code {
        NOT_FOUND => NotFound,
        NOT_SUPPORTED => NotSupported,
        INVALID_ARGUMENT => InvalidArgument,
        ALREADY_PRESENT => AlreadyPresent,
        NETWORK_ERROR => Network,
        NOT_AUTHORIZED => NotAuthorized,
        SERVICE_UNAVAILABLE | UNINITIALIZED => Unavailable,
        TIMED_OUT => TimedOut,
        _ => Server,
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Network, error.to_string())
    }
}

impl From<prost::DecodeError> for Error {
    fn from(error: prost::DecodeError) -> Self {
        Self::protocol(error.to_string())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {}", self.0.kind, self.0.message)?;
        if let Some(code) = self.0.code {
            write!(formatter, " [{code:?}]")?;
        }
        if let Some(tablet) = &self.0.tablet {
            write!(formatter, " (tablet {tablet})")?;
        }
        if let Some(server) = &self.0.server {
            write!(formatter, " (server {server})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn service_error(code: i32, status: i32) -> pb::ServiceError {
        pb::ServiceError { code, status: Some(pb::AppStatus { code: status, message: Some("x".into()) }) }
    }

    #[test]
    fn a_follower_is_recognised_by_its_status() {
        const INVALID_SCHEMA: i32 = 2;
        let kind = |code, status| Error::from_tablet_server(&service_error(code, status)).kind();
        assert_eq!(kind(tserver::UNKNOWN_ERROR, status::ILLEGAL_STATE), ErrorKind::NotLeader);
        assert_eq!(kind(tserver::UNKNOWN_ERROR, status::SERVICE_UNAVAILABLE), ErrorKind::Unavailable);
        assert_eq!(kind(INVALID_SCHEMA, status::ILLEGAL_STATE), ErrorKind::Server);
    }

    #[test]
    fn codes_unknown_to_this_client_are_kept_and_not_retried() {
        let error = Error::from_tablet_server(&service_error(4711, 999));
        assert_eq!(error.code(), Some(Code::TabletServer(4711, 999)));
        assert!(!error.can_retry());
    }

    #[test]
    fn the_innermost_server_is_the_one_named() {
        let error = Error::protocol("bad").at_server("a:1").at_server("b:2").at_tablet("t");
        assert_eq!(error.server(), Some("a:1"));
        assert_eq!(error.to_string(), "Protocol: bad (tablet t) (server a:1)");
    }
}
