//! Errors of the cluster as errors of the contract.

use kudu_client::{Error as KuduError, ErrorKind as KuduKind};
use nyala_core::{Error, ErrorKind};

/// An error of a call that changes nothing, or that can be repeated.
pub(crate) fn of_read(error: KuduError) -> Error {
    Error::new(kind(error.kind(), ErrorKind::Retry), format!("Kudu: {error}"))
}

/// An error of a call that changes something.
pub(crate) fn of_write(error: KuduError) -> Error {
    Error::new(kind(error.kind(), ErrorKind::Unknown), format!("Kudu: {error}"))
}

fn kind(kind: KuduKind, undecided: ErrorKind) -> ErrorKind {
    match kind {
        KuduKind::NotFound => ErrorKind::Missing,
        KuduKind::AlreadyPresent => ErrorKind::Conflict,
        KuduKind::InvalidArgument | KuduKind::SchemaMismatch => ErrorKind::Invalid,
        KuduKind::NotSupported => ErrorKind::Unsupported,
        KuduKind::Limit => ErrorKind::Limit,
        KuduKind::Network
        | KuduKind::TimedOut
        | KuduKind::Busy
        | KuduKind::Unavailable
        | KuduKind::NotLeader
        | KuduKind::TabletNotFound
        | KuduKind::ScannerExpired
        // The next snapshot is another.
        | KuduKind::InvalidSnapshot
        | KuduKind::OutcomeUnknown => undecided,
        _ => ErrorKind::Io,
    }
}
