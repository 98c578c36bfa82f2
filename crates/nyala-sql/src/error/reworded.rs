//! What libraries say in words of their own.

use super::{SqlError, SqlState};

/// What errors of libraries get that are not known better.
const GENERAL: [SqlState; 5] = [
    SqlState::DATA_EXCEPTION,
    SqlState::INTERNAL,
    SqlState::OUT_OF_RANGE,
    SqlState::SYNTAX_ERROR,
    SqlState::UNSUPPORTED,
];

/// What is said of texts that one column cannot hold.
pub(super) const LONG_BATCH: &str = "the texts of a batch of rows are longer than 2 GiB together";

/// What is said of a query that changes rows where only others can stand.
const CHANGED_INSIDE: &str = "WITH clause containing a data-modifying statement must be at the top level";

/// What libraries say, with the code that it has in PostgreSQL, and the words: theirs if there are none, and what follows in
/// theirs behind a colon.
const REWORDED: &[(&str, SqlState, &str)] = &[
    ("zero raised to a negative power", SqlState::INVALID_POWER_ARGUMENT, ""),
    (
        "cannot take square root of a negative number",
        SqlState::INVALID_POWER_ARGUMENT,
        "cannot take square root of a negative number",
    ),
    (
        "Regular expression did not compile: ",
        SqlState::INVALID_REGULAR_EXPRESSION,
        "invalid regular expression: ",
    ),
    ("regex parse error:", SqlState::INVALID_REGULAR_EXPRESSION, "invalid regular expression: "),
    ("LIMIT must be >=", SqlState::INVALID_LIMIT, "LIMIT must not be negative"),
    ("OFFSET must be >=", SqlState::INVALID_OFFSET, "OFFSET must not be negative"),
    ("requires start to be 1", SqlState::INVALID_PARAMETER, ""),
    ("Timestamp out of range", SqlState::DATETIME_OUT_OF_RANGE, "timestamp out of range"),
    ("Cannot cast to Interval", SqlState::DATETIME_OUT_OF_RANGE, "date out of range"),
    (" does not support: Interval", SqlState::UNSUPPORTED, ""),
    (" does not support: Time", SqlState::UNSUPPORTED, ""),
    ("offset overflow", SqlState::LIMIT_EXCEEDED, LONG_BATCH),
    ("Unnest should be rewritten", SqlState::UNSUPPORTED, "set-returning functions are not allowed here"),
    ("Query DELETE", SqlState::UNSUPPORTED, CHANGED_INSIDE),
    ("Query INSERT", SqlState::UNSUPPORTED, CHANGED_INSIDE),
    ("Query MERGE", SqlState::UNSUPPORTED, CHANGED_INSIDE),
    ("Query UPDATE", SqlState::UNSUPPORTED, CHANGED_INSIDE),
    (
        "OuterReferenceColumn",
        SqlState::UNSUPPORTED,
        "a query that depends on the row around it is not supported here",
    ),
];

/// The error with its code and its words.
///
/// # Errors
/// The error as it is, if it is none of these.
pub(super) fn of(found: SqlError) -> Result<SqlError, SqlError> {
    // Errors of a certain kind may quote what somebody wrote.
    if !GENERAL.contains(&found.code) {
        return Err(found);
    }
    let Some((own, code, words)) = REWORDED.iter().find(|own| found.message.contains(own.0)) else {
        return Err(found);
    };
    let message = match found.message.split_once(own) {
        Some((_, rest)) if words.ends_with(": ") => format!("{words}{rest}"),
        _ if words.is_empty() => found.message,
        _ => (*words).to_owned(),
    };
    Ok(SqlError { code: *code, message, ..found })
}

impl SqlError {
    /// Whether the texts of too many rows were put together.
    pub(crate) fn is_of_long_batch(&self) -> bool {
        self.message == LONG_BATCH
    }
}
