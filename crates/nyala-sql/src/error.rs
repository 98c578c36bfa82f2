//! Errors of statements, with PostgreSQL's codes.

mod broken_rule;
mod reworded;
mod state;

pub use broken_rule::BrokenRule;
use reworded::LONG_BATCH;
pub use state::SqlState;

use crate::missing_functions;
use crate::type_name;
use crate::unknown_statements;
use arrow_schema::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use nyala_core::{Error, ErrorKind};
use nyala_exec::running::{INTERRUPTED, STATEMENT_TIMEOUT};
use std::fmt;
use std::io;

/// Why a statement failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// What kind of error it is.
    pub code: SqlState,
    /// What is wrong.
    pub message: String,
    /// More about it.
    pub detail: Option<Box<str>>,
    /// What to do about it.
    pub hint: Option<Box<str>>,
    /// Where in the text of the statement, in characters, beginning with 1.
    pub position: Option<u32>,
    /// Where else: in which line of what is copied.
    pub context: Option<Box<str>>,
    /// Which rule of a table rows break.
    pub broken_rule: Option<Box<BrokenRule>>,
    /// Which of the rows that were to be written it is about.
    pub(crate) row: Option<u32>,
    /// How long to wait before the statement may succeed.
    pub retry_after_seconds: Option<u32>,
}

/// Result with a [`SqlError`].
pub type SqlResult<T> = std::result::Result<T, SqlError>;

impl SqlError {
    /// An error without further words.
    pub fn new(code: SqlState, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            detail: None,
            hint: None,
            position: None,
            context: None,
            broken_rule: None,
            row: None,
            retry_after_seconds: None,
        }
    }

    /// Something that is not supported, by its name.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(SqlState::UNSUPPORTED, format!("{what} is not supported"))
    }

    /// The same error with more about it.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into().into()), ..self }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into().into()), ..self }
    }

    /// The same error with the rule of a table that rows break.
    #[must_use]
    pub(crate) fn with_rule(self, rule: BrokenRule) -> Self {
        Self { broken_rule: Some(Box::new(rule)), ..self }
    }

    /// The same error about one of the rows that were to be written.
    #[must_use]
    pub(crate) fn of_row(self, row: usize) -> Self {
        Self { row: u32::try_from(row).ok(), ..self }
    }

    /// The same error about a place in what is copied.
    #[must_use]
    pub fn in_context(self, context: String) -> Self {
        Self { context: Some(context.into()), ..self }
    }

    /// The same error without a position, which is one of another text.
    #[must_use]
    pub(crate) fn without_place(self) -> Self {
        Self { position: None, ..self.placed_in("") }
    }

    /// The same error with its position in the text of the statement, where the message or the planner names one.
    #[must_use]
    pub(crate) fn placed_in(mut self, text: &str) -> Self {
        const LINE: &str = " at Line: ";
        let Some(at) = self.message.rfind(LINE) else { return self };
        let place = self.message[at + LINE.len()..].split_once(", Column: ");
        let place = place.and_then(|(line, column)| Some((line.parse().ok()?, column.trim().parse().ok()?)));
        if let Some((line, column)) = place {
            self.position = position_of(text, line, column);
            self.message.truncate(at);
        }
        self
    }
}

/// The position of a line and column, both beginning with 1, in a text.
fn position_of(text: &str, line: usize, column: usize) -> Option<u32> {
    let before: usize =
        text.split('\n').take(line.checked_sub(1)?).map(|line| line.chars().count() + 1).sum();
    u32::try_from(before + column).ok()
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}

/// An error of the database, on its way through DataFusion.
pub(crate) fn outside(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<Error> for SqlError {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Invalid => SqlState::INVALID_PARAMETER,
            ErrorKind::Missing => SqlState::UNKNOWN_OBJECT,
            ErrorKind::Conflict => SqlState::SERIALIZATION_FAILURE,
            ErrorKind::Unsupported => SqlState::UNSUPPORTED,
            ErrorKind::Retry => SqlState::TOO_FEW_RESOURCES,
            ErrorKind::Limit => SqlState::OUT_OF_MEMORY,
            ErrorKind::Throttled => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            ErrorKind::Cancelled => SqlState::CANCELLED,
            ErrorKind::Unknown | ErrorKind::Io => SqlState::IO_ERROR,
            ErrorKind::Corrupt => SqlState::DATA_CORRUPTED,
        };
        let retry_after_seconds = error.retry_after_seconds();
        // As clients know it.
        let message = match error.message() {
            _ if error.kind() != ErrorKind::Cancelled => error.to_string(),
            INTERRUPTED => "canceling statement due to user request".to_owned(),
            limit if limit.starts_with(STATEMENT_TIMEOUT) => {
                "canceling statement due to statement timeout".to_owned()
            }
            other => other.to_owned(),
        };
        Self { retry_after_seconds, ..Self::new(code, message) }
    }
}

impl From<ParserError> for SqlError {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::TokenizerError(words) | ParserError::ParserError(words) => {
                match unknown_statements::name_of(&words) {
                    Some(name) => Self::unsupported(name),
                    None => Self::new(SqlState::SYNTAX_ERROR, words),
                }
            }
            ParserError::RecursionLimitExceeded => {
                Self::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement is nested too deeply")
            }
        }
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        let span = diagnosed(&error);
        let found = match unwrapped(error) {
            DataFusionError::External(cause) => match cause.downcast::<SqlError>() {
                Ok(own) => *own,
                Err(cause) => match cause.downcast::<Error>() {
                    Ok(own) => (*own).into(),
                    Err(cause) => Self::new(SqlState::INTERNAL, cause.to_string()),
                },
            },
            DataFusionError::SQL(cause, _) => (*cause).into(),
            DataFusionError::ArrowError(cause, _) => of_arrow(*cause),
            DataFusionError::SchemaError(cause, _) => of_schema(&cause),
            DataFusionError::Plan(words) => of_plan(words),
            DataFusionError::NotImplemented(words) => Self::new(SqlState::UNSUPPORTED, words),
            DataFusionError::ResourcesExhausted(words) => of_exhausted(&words),
            DataFusionError::Execution(words) => of_execution(words),
            DataFusionError::IoError(cause) => Error::from(cause).into(),
            DataFusionError::Configuration(words) => Self::new(SqlState::INVALID_PARAMETER, words),
            other => Self::new(SqlState::INTERNAL, other.strip_backtrace()),
        };
        let found = match reworded::of(found) {
            Ok(reworded) => return reworded,
            Err(found) => found,
        };
        if found.message.contains(SPILL_LIMIT) {
            return of_exhausted(&found.message);
        }
        match span {
            Some((line, column)) => {
                let message = format!("{} at Line: {line}, Column: {column}", found.message);
                Self { message, ..found }
            }
            None => found,
        }
    }
}

/// The error that others only add words to.
fn unwrapped(error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => unwrapped(*inner),
        DataFusionError::Collection(mut all) if !all.is_empty() => unwrapped(all.swap_remove(0)),
        DataFusionError::ArrowError(cause, words) => match *cause {
            ArrowError::ExternalError(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => unwrapped(*inner),
                Err(inner) => DataFusionError::External(inner),
            },
            cause => DataFusionError::ArrowError(Box::new(cause), words),
        },
        DataFusionError::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
            Ok(inner) => unwrapped(inner),
            Err(shared) => match shared.find_root() {
                DataFusionError::External(cause) => {
                    match (cause.downcast_ref::<SqlError>(), cause.downcast_ref()) {
                        (Some(own), _) => own.clone().into(),
                        (_, Some(own)) => outside(Error::clone(own)),
                        _ => DataFusionError::Execution(cause.to_string()),
                    }
                }
                DataFusionError::ResourcesExhausted(words) => {
                    DataFusionError::ResourcesExhausted(words.clone())
                }
                DataFusionError::ArrowError(cause, _) => copied(cause).into(),
                root => DataFusionError::Execution(root.strip_backtrace()),
            },
        },
        other => other,
    }
}

/// The same error of Arrow.
fn copied(error: &ArrowError) -> ArrowError {
    match error {
        ArrowError::DivideByZero => ArrowError::DivideByZero,
        ArrowError::CastError(words) => ArrowError::CastError(words.clone()),
        ArrowError::ParseError(words) => ArrowError::ParseError(words.clone()),
        ArrowError::ArithmeticOverflow(words) => ArrowError::ArithmeticOverflow(words.clone()),
        ArrowError::InvalidArgumentError(words) => ArrowError::InvalidArgumentError(words.clone()),
        other => ArrowError::ComputeError(other.to_string()),
    }
}

/// Line and column that the planner found an error at.
fn diagnosed(error: &DataFusionError) -> Option<(u64, u64)> {
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => match diagnostic.span {
            Some(span) => Some((span.start.line, span.start.column)),
            None => diagnosed(inner),
        },
        DataFusionError::Context(_, inner) => diagnosed(inner),
        DataFusionError::Collection(all) => all.first().and_then(diagnosed),
        _ => None,
    }
}

fn of_arrow(error: ArrowError) -> SqlError {
    let code = match &error {
        ArrowError::OffsetOverflowError(_) => {
            return SqlError::new(SqlState::LIMIT_EXCEEDED, LONG_BATCH);
        }
        ArrowError::DivideByZero => return SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::CastError(words) if let Some(error) = of_cast(words) => return error,
        ArrowError::CastError(words) | ArrowError::ComputeError(words)
            if words.starts_with("Cannot cast to Interval") =>
        {
            return SqlError::new(SqlState::DATETIME_OUT_OF_RANGE, "date out of range");
        }
        // Of the absolute value of the least whole number.
        ArrowError::ComputeError(words) if words.contains("verflow") => SqlState::OUT_OF_RANGE,
        ArrowError::ArithmeticOverflow(_) => SqlState::OUT_OF_RANGE,
        ArrowError::InvalidArgumentError(words) if words.contains(" is too large to store in a Decimal") => {
            return SqlError::new(SqlState::OUT_OF_RANGE, "numeric field overflow");
        }
        ArrowError::ParseError(words) if words.contains("Error parsing timestamp") => {
            SqlState::INVALID_DATETIME
        }
        ArrowError::CastError(_) | ArrowError::ParseError(_) => SqlState::INVALID_TEXT,
        ArrowError::InvalidArgumentError(_) => SqlState::DATA_EXCEPTION,
        ArrowError::NotYetImplemented(_) => SqlState::UNSUPPORTED,
        ArrowError::MemoryError(_) => SqlState::OUT_OF_MEMORY,
        ArrowError::IoError(_, cause) if cause.kind() == io::ErrorKind::StorageFull => SqlState::DISK_FULL,
        ArrowError::IoError(..) => SqlState::IO_ERROR,
        _ => SqlState::INTERNAL,
    };
    let words = error.to_string();
    SqlError::new(code, words.split_once(": ").map_or(&*words, |(_, rest)| rest))
}

/// The error of a value that does not fit, or of a text that is none of a type, in PostgreSQL's words.
fn of_cast(words: &str) -> Option<SqlError> {
    let text =
        ["Cannot cast string '", "Cannot cast value '"].into_iter().find_map(|own| words.strip_prefix(own));
    if let Some(rest) = text {
        let (text, wanted) = rest.rsplit_once("' to value of ")?;
        let name = type_name::of_shown(wanted.strip_suffix(" type")?)?;
        let is_number = text.trim().parse::<i128>().is_ok();
        return Some(match is_number && matches!(name, "smallint" | "integer" | "bigint") {
            true => {
                let message = format!("value \"{text}\" is out of range for type {name}");
                SqlError::new(SqlState::OUT_OF_RANGE, message)
            }
            false => {
                let message = format!("invalid input syntax for type {name}: \"{text}\"");
                let is_time = matches!(name, "date" | "interval");
                SqlError::new(
                    if is_time { SqlState::INVALID_DATETIME } else { SqlState::INVALID_TEXT },
                    message,
                )
            }
        });
    }
    let numbers = [("Can't cast value ", " to type "), ("value of ", " is out of range ")];
    let (_, wanted) = numbers
        .iter()
        .find_map(|(begin, middle)| words.strip_prefix(begin).and_then(|rest| rest.rsplit_once(middle)))?;
    let name = type_name::of_shown(wanted)?;
    Some(SqlError::new(SqlState::OUT_OF_RANGE, format!("{name} out of range")))
}

/// What DataFusion calls the limit of disk space.
const SPILL_LIMIT: &str = "max_temp_directory_size";

/// The error of a statement that needs more memory than it may have, or more of the disk.
fn of_exhausted(words: &str) -> SqlError {
    if words.contains(SPILL_LIMIT) {
        let message = "sorting and grouping need more of the disk than statements may have";
        let hint = "The setting spill-limit says how much, and half of what is free on the disk stays free. Sort or group fewer \
                    rows, or raise it.";
        return SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message).with_hint(hint);
    }
    if words.contains("DiskManager is disabled") {
        let message = "the statement needs more memory than it may have, and may not use the disk";
        let hint = "Sort or group fewer rows, or raise the setting memory-limit or spill-limit.";
        return SqlError::new(SqlState::OUT_OF_MEMORY, message).with_hint(hint);
    }
    SqlError::new(SqlState::OUT_OF_MEMORY, words)
}

fn of_schema(error: &SchemaError) -> SqlError {
    match error {
        // The planner's own name for a subquery: it has not found what that depends on.
        SchemaError::FieldNotFound { field, .. }
            if field.relation.as_ref().is_some_and(|own| own.table().starts_with("__correlated_sq_")) =>
        {
            SqlError::unsupported("a query of this kind that depends on the row around it")
        }
        SchemaError::FieldNotFound { field, valid_fields } => {
            let message = format!("column {} does not exist", quoted_where_needed(&field.flat_name()));
            let error = SqlError::new(SqlState::UNKNOWN_COLUMN, message);
            let folded = field.name.to_lowercase();
            let alike = valid_fields.iter().find(|valid| valid.name.to_lowercase() == folded);
            match alike {
                Some(valid) => {
                    error.with_hint(format!("Perhaps you meant \"{}\", in double quotes.", valid.name))
                }
                None => error,
            }
        }
        SchemaError::AmbiguousReference { field } => {
            let message = format!("column reference \"{}\" is ambiguous", field.name);
            SqlError::new(SqlState::AMBIGUOUS_COLUMN, message)
        }
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
        }
    }
}

/// PostgreSQL quotes a name without a table, and writes one with a table as it is.
fn quoted_where_needed(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("\"{name}\"") }
}

/// The error of a function that refuses the types of its arguments, in its own words.
fn of_arguments(words: &str) -> Option<SqlError> {
    let (_, own) = words.split_once(" user-defined coercion failed with: ")?;
    let own = own.strip_prefix("External error: ").unwrap_or(own);
    Some(SqlError::new(SqlState::UNKNOWN_FUNCTION, own))
}

fn of_plan(words: String) -> SqlError {
    if let Some(error) = of_arguments(&words) {
        return error;
    }
    if let Some(rest) = words.strip_prefix("table '") {
        let name = rest.split('\'').next().unwrap_or(rest);
        // A name that was searched for has a schema that nobody wrote. It begins with a zero byte.
        let name =
            name.split_once('\0').and_then(|(_, rest)| rest.split_once('.')).map_or(name, |(_, name)| name);
        return SqlError::new(SqlState::UNKNOWN_TABLE, format!("relation \"{name}\" does not exist"));
    }
    if words.starts_with("Correlated scalar subquery must be aggregated") {
        return SqlError::unsupported("a subquery that depends on the row around it and is no aggregate")
            .with_hint("Write max(…) or another aggregate in it, or a join.");
    }
    if words.contains("table function 'influxql' not found") {
        let words = "influxql() of anything but a text";
        return SqlError::unsupported(words)
            .with_hint("Its columns must be known when the statement is planned.");
    }
    if words.starts_with("Invalid function") {
        if let Some(name) = missing_functions::named_in(&words) {
            return SqlError::unsupported(format!("function {name}"));
        }
        return SqlError::new(SqlState::UNKNOWN_FUNCTION, words);
    }
    if words.contains("must be in the GROUP BY clause")
        || words.contains("must appear in the GROUP BY clause")
    {
        let column = words.split_once(" column \"").and_then(|(_, rest)| rest.split_once('"'));
        let message = match column {
            Some((column, _)) => format!(
                "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
            ),
            None => words,
        };
        return SqlError::new(SqlState::GROUPING_ERROR, message);
    }
    if words.starts_with("Cannot create filter with non-boolean predicate") {
        return SqlError::new(SqlState::TYPE_MISMATCH, "argument of WHERE must be type boolean");
    }
    if words.starts_with("Cannot infer common argument type") || words.contains("coerc") {
        return SqlError::new(SqlState::TYPE_MISMATCH, words);
    }
    SqlError::new(SqlState::SYNTAX_ERROR, words)
}

fn of_execution(words: String) -> SqlError {
    if let Some(error) = of_arguments(&words) {
        return error;
    }
    let code = match &*words {
        words if words.contains("verflow") => SqlState::OUT_OF_RANGE,
        words if words.contains("more than one row") => SqlState::CARDINALITY_VIOLATION,
        words if words.contains(" value '") && words.contains("out of range") => {
            SqlState::DATETIME_OUT_OF_RANGE
        }
        words if words.contains("negative count not allowed") => SqlState::SUBSTRING_ERROR,
        words if words.starts_with("Unable to create date") => SqlState::DATETIME_OUT_OF_RANGE,
        _ => SqlState::DATA_EXCEPTION,
    };
    SqlError::new(code, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_counted_in_characters() {
        let text = "SELECT 'ä',\n  x FORM m";
        let error =
            SqlError::new(SqlState::SYNTAX_ERROR, "Expected: FROM, found: FORM at Line: 2, Column: 5");
        let placed = error.placed_in(text);
        assert_eq!((placed.position, &*placed.message), (Some(17), "Expected: FROM, found: FORM"));
        assert_eq!(text.chars().nth(16), Some('F'));
    }
}
