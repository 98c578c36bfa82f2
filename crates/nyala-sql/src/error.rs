//! Errors of statements, with PostgreSQL's codes.

mod reworded;

use crate::missing_functions;
use crate::type_name;
use arrow_schema::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use nyala_core::{Error, ErrorKind};
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
    pub position: Option<usize>,
    /// Where else: in which line of what is copied.
    pub context: Option<Box<str>>,
    /// Which of the rows that were to be written it is about.
    pub(crate) row: Option<u32>,
    /// How long to wait before the statement may succeed.
    pub retry_after_seconds: Option<u32>,
}

/// Result with a [`SqlError`].
pub type SqlResult<T> = std::result::Result<T, SqlError>;

/// A code of five letters and digits, from PostgreSQL's list (appendix A of its manual).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// feature_not_supported
    pub const UNSUPPORTED: Self = Self("0A000");
    /// cardinality_violation
    pub const CARDINALITY_VIOLATION: Self = Self("21000");
    /// data_exception
    pub const DATA_EXCEPTION: Self = Self("22000");
    /// string_data_right_truncation
    pub const TEXT_TOO_LONG: Self = Self("22001");
    /// numeric_value_out_of_range
    pub const OUT_OF_RANGE: Self = Self("22003");
    /// invalid_datetime_format
    pub const INVALID_DATETIME: Self = Self("22007");
    /// datetime_field_overflow
    pub const DATETIME_OUT_OF_RANGE: Self = Self("22008");
    /// division_by_zero
    pub const DIVISION_BY_ZERO: Self = Self("22012");
    /// null_value_not_allowed
    pub const NULL_NOT_ALLOWED: Self = Self("22004");
    /// invalid_parameter_value
    pub const INVALID_PARAMETER: Self = Self("22023");
    /// invalid_regular_expression
    pub const INVALID_REGULAR_EXPRESSION: Self = Self("2201B");
    /// character_not_in_repertoire
    pub const INVALID_ENCODING: Self = Self("22021");
    /// invalid_text_representation
    pub const INVALID_TEXT: Self = Self("22P02");
    /// bad_copy_file_format
    pub const BAD_COPY: Self = Self("22P04");
    /// not_null_violation
    pub const NOT_NULL_VIOLATION: Self = Self("23502");
    /// unique_violation
    pub const UNIQUE_VIOLATION: Self = Self("23505");
    /// check_violation
    pub const CHECK_VIOLATION: Self = Self("23514");
    /// dependent_objects_still_exist
    pub const DEPENDENT_OBJECTS: Self = Self("2BP01");
    /// active_sql_transaction
    pub const ACTIVE_TRANSACTION: Self = Self("25001");
    /// read_only_sql_transaction
    pub const READ_ONLY_TRANSACTION: Self = Self("25006");
    /// no_active_sql_transaction
    pub const NO_TRANSACTION: Self = Self("25P01");
    /// in_failed_sql_transaction
    pub const FAILED_TRANSACTION: Self = Self("25P02");
    /// object_not_in_prerequisite_state
    pub const WRONG_STATE: Self = Self("55000");
    /// invalid_sql_statement_name
    pub const UNKNOWN_STATEMENT: Self = Self("26000");
    /// There is no such cursor.
    pub const UNKNOWN_CURSOR: Self = Self("34000");
    /// There is a cursor of that name.
    pub const DUPLICATE_CURSOR: Self = Self("42P03");
    /// A prepared statement of the name is there already.
    pub const DUPLICATE_STATEMENT: Self = Self("42P05");
    /// A cursor does not stand on a row, or on none that can be changed.
    pub const INVALID_CURSOR_STATE: Self = Self("24000");
    /// A cursor cannot be all that its declaration asks for.
    pub const INVALID_CURSOR_DEFINITION: Self = Self("42P11");
    /// invalid_authorization_specification
    pub const UNKNOWN_USER: Self = Self("28000");
    /// invalid_savepoint_specification
    pub const UNKNOWN_SAVEPOINT: Self = Self("3B001");
    /// serialization_failure
    pub const SERIALIZATION_FAILURE: Self = Self("40001");
    /// insufficient_privilege
    pub const INSUFFICIENT_PRIVILEGE: Self = Self("42501");
    /// syntax_error
    pub const SYNTAX_ERROR: Self = Self("42601");
    /// name_too_long
    pub const NAME_TOO_LONG: Self = Self("42622");
    /// duplicate_column
    pub const DUPLICATE_COLUMN: Self = Self("42701");
    /// ambiguous_column
    pub const AMBIGUOUS_COLUMN: Self = Self("42702");
    /// undefined_column
    pub const UNKNOWN_COLUMN: Self = Self("42703");
    /// undefined_object
    pub const UNKNOWN_OBJECT: Self = Self("42704");
    /// duplicate_object
    pub const DUPLICATE_OBJECT: Self = Self("42710");
    /// grouping_error
    pub const GROUPING_ERROR: Self = Self("42803");
    /// substring_error
    pub const SUBSTRING_ERROR: Self = Self("22011");
    /// windowing_error
    pub const WINDOWING_ERROR: Self = Self("42P20");
    /// datatype_mismatch
    pub const TYPE_MISMATCH: Self = Self("42804");
    /// wrong_object_type
    pub const WRONG_OBJECT: Self = Self("42809");
    /// undefined_function
    pub const UNKNOWN_FUNCTION: Self = Self("42883");
    /// ambiguous_function
    pub const AMBIGUOUS_FUNCTION: Self = Self("42725");
    /// undefined_table
    pub const UNKNOWN_TABLE: Self = Self("42P01");
    /// undefined_parameter
    pub const UNKNOWN_PARAMETER: Self = Self("42P02");
    /// duplicate_table
    pub const DUPLICATE_TABLE: Self = Self("42P07");
    /// invalid_column_reference
    pub const INVALID_COLUMN_REFERENCE: Self = Self("42P10");
    /// invalid_table_definition
    pub const INVALID_TABLE_DEFINITION: Self = Self("42P16");
    /// indeterminate_datatype
    pub const UNKNOWN_TYPE: Self = Self("42P18");
    /// invalid_schema_name
    pub const UNKNOWN_SCHEMA: Self = Self("3F000");
    /// invalid_catalog_name
    pub const UNKNOWN_DATABASE: Self = Self("3D000");
    /// invalid_argument_for_logarithm
    pub const INVALID_LOGARITHM_ARGUMENT: Self = Self("2201E");
    /// invalid_argument_for_power_function
    pub const INVALID_POWER_ARGUMENT: Self = Self("2201F");
    /// invalid_argument_for_width_bucket_function
    pub const INVALID_BUCKET_ARGUMENT: Self = Self("2201G");
    /// insufficient_resources
    pub const TOO_FEW_RESOURCES: Self = Self("53000");
    /// disk_full
    pub const DISK_FULL: Self = Self("53100");
    /// out_of_memory
    pub const OUT_OF_MEMORY: Self = Self("53200");
    /// configuration_limit_exceeded
    pub const CONFIGURATION_LIMIT_EXCEEDED: Self = Self("53400");
    /// program_limit_exceeded
    pub const LIMIT_EXCEEDED: Self = Self("54000");
    /// statement_too_complex
    pub const STATEMENT_TOO_COMPLEX: Self = Self("54001");
    /// too_many_columns
    pub const TOO_MANY_COLUMNS: Self = Self("54011");
    /// query_canceled
    pub const CANCELLED: Self = Self("57014");
    /// cannot_connect_now
    pub const NOT_NOW: Self = Self("57P03");
    /// undefined_file
    pub const UNDEFINED_FILE: Self = Self("58P01");
    /// duplicate_file
    pub const DUPLICATE_FILE: Self = Self("58P02");
    /// io_error
    pub const IO_ERROR: Self = Self("58030");
    /// internal_error
    pub const INTERNAL: Self = Self("XX000");
    /// data_corrupted
    pub const DATA_CORRUPTED: Self = Self("XX001");
}

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
fn position_of(text: &str, line: usize, column: usize) -> Option<usize> {
    let before: usize =
        text.split('\n').take(line.checked_sub(1)?).map(|line| line.chars().count() + 1).sum();
    Some(before + column)
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
        Self { retry_after_seconds, ..Self::new(code, error.to_string()) }
    }
}

impl From<ParserError> for SqlError {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::TokenizerError(words) | ParserError::ParserError(words) => {
                Self::new(SqlState::SYNTAX_ERROR, words)
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
        return SqlError::new(SqlState::GROUPING_ERROR, words);
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
