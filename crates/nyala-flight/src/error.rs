//! Errors as clients of gRPC are told them: a code that programs decide by, and words that end in PostgreSQL's code.

use nyala_core::ErrorKind;
use nyala_sql::{SqlError, SqlState};
use tonic::{Code, Status};

/// The longest text of an error: it travels in a header, which clients bound.
const WORDS_MAX: usize = 4096;

/// An error of SQL.
pub(crate) fn status_of(error: &SqlError) -> Status {
    let mut words = error.message.clone();
    for more in [&error.detail, &error.hint, &error.context].into_iter().flatten() {
        words.push('\n');
        words.push_str(more);
    }
    if let Some(position) = error.position {
        words.push_str(&format!("\nat letter {position}"));
    }
    if words.len() > WORDS_MAX {
        words.truncate(words.floor_char_boundary(WORDS_MAX));
        words.push('…');
    }
    words.push_str(&format!(" (SQLSTATE {})", error.code.0));
    Status::new(code_of(error.code), words)
}

fn code_of(code: SqlState) -> Code {
    match code {
        SqlState::INSUFFICIENT_PRIVILEGE => Code::PermissionDenied,
        SqlState::UNKNOWN_USER => Code::Unauthenticated,
        SqlState::UNSUPPORTED => Code::Unimplemented,
        SqlState::UNKNOWN_DATABASE | SqlState::UNKNOWN_TABLE => Code::NotFound,
        SqlState::UNIQUE_VIOLATION | SqlState::DUPLICATE_TABLE => Code::AlreadyExists,
        SqlState::SERIALIZATION_FAILURE => Code::Aborted,
        SqlState::FAILED_TRANSACTION | SqlState::NO_TRANSACTION => Code::FailedPrecondition,
        SqlState::CANCELLED => Code::Cancelled,
        SqlState::NOT_NOW => Code::Unavailable,
        SqlState(code) if matches!(&code[..2], "53" | "54") => Code::ResourceExhausted,
        SqlState(code) if matches!(&code[..2], "57" | "58" | "XX") => Code::Internal,
        _ => Code::InvalidArgument,
    }
}

/// An error of what lies below SQL.
pub(crate) fn status_of_core(error: &nyala_core::Error) -> Status {
    let code = match error.kind() {
        ErrorKind::Retry | ErrorKind::Limit | ErrorKind::Throttled => Code::ResourceExhausted,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::Missing => Code::NotFound,
        ErrorKind::Conflict => Code::Aborted,
        _ => Code::Internal,
    };
    Status::new(code, error.to_string())
}

/// What the client sent cannot be read.
pub(crate) fn malformed(what: &str, error: impl std::fmt::Display) -> Status {
    let mut words = format!("{what}: {error}");
    words.truncate(words.floor_char_boundary(WORDS_MAX));
    Status::invalid_argument(words)
}

/// Something of Arrow failed that should not.
pub(crate) fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// What the client of a query is told that somebody has cancelled.
pub(crate) fn cancelled() -> Status {
    status_of(&SqlError::new(SqlState::CANCELLED, "canceling statement due to user request"))
}

/// The store is not open yet.
pub(crate) fn starting() -> Status {
    Status::unavailable("the server is starting up")
}

/// The work on a call panicked.
pub(crate) fn panicked() -> Status {
    Status::internal("the call failed; the server's log says why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_what_a_client_can_do() {
        let error = SqlError::new(SqlState::UNKNOWN_TABLE, "no table").with_hint("make one");
        let status = status_of(&error);
        assert_eq!(
            (status.code(), status.message()),
            (Code::NotFound, "no table\nmake one (SQLSTATE 42P01)")
        );
        assert_eq!(status_of(&SqlError::new(SqlState("53100"), "full")).code(), Code::ResourceExhausted);
        assert_eq!(status_of(&SqlError::new(SqlState("XX000"), "no")).code(), Code::Internal);
        let long = status_of(&SqlError::new(SqlState::SYNTAX_ERROR, "ä".repeat(WORDS_MAX)));
        assert!(long.message().len() < WORDS_MAX + 64 && long.message().ends_with("(SQLSTATE 42601)"));
    }
}
