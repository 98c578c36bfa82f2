//! What went wrong, as PostgreSQL's clients are told: a code (SQLSTATE), words, and where in the statement.

use nyala_sql::BrokenRule;

/// An error for the client. What it does to the connection is decided where it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// SQLSTATE: five letters that clients decide by.
    pub code: &'static str,
    /// What happened, in one line.
    pub message: String,
    /// More about it.
    pub detail: Option<Box<str>>,
    /// What to do about it.
    pub hint: Option<Box<str>>,
    /// The letter of the statement, counted from 1.
    pub position: Option<u32>,
    /// Where else: in which line of what is copied.
    pub context: Option<Box<str>>,
    /// Which rule of a table rows break.
    pub broken_rule: Option<Box<BrokenRule>>,
}

impl Failure {
    /// An error with a code and words.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            broken_rule: None,
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into());
        self
    }

    /// The same about a place in what is copied.
    #[must_use]
    pub fn in_context(mut self, context: String) -> Self {
        self.context = Some(context.into());
        self
    }

    /// The client does not speak the protocol.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new("08P01", message)
    }

    /// A text that is no value of a type.
    pub fn malformed(type_name: &str, text: &str) -> Self {
        let code = match type_name {
            "date" | "time" | "timestamp" | "timestamp with time zone" | "interval" => "22007",
            _ => "22P02",
        };
        // Values may be long.
        let shown: String = text.chars().take(128).collect();
        Self::new(code, format!("invalid input syntax for type {type_name}: \"{shown}\""))
    }

    /// Bytes that are no value of a type.
    pub fn invalid_binary(type_name: &str) -> Self {
        Self::new("22P03", format!("incorrect binary data format of type {type_name}"))
    }

    /// The server stops.
    pub fn shutdown() -> Self {
        Self::new("57P01", "terminating connection due to administrator command")
    }

    /// Something that exists in PostgreSQL and not here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }
}

impl From<nyala_core::Error> for Failure {
    fn from(error: nyala_core::Error) -> Self {
        use nyala_core::ErrorKind;
        let code = match error.kind() {
            ErrorKind::Retry => "53200",
            ErrorKind::Limit => "54000",
            ErrorKind::Throttled => "53400",
            ErrorKind::Cancelled => "57014",
            ErrorKind::Unsupported => "0A000",
            ErrorKind::Invalid => "22023",
            ErrorKind::Missing => "42704",
            ErrorKind::Conflict => "55000",
            _ => "XX000",
        };
        Self::new(code, error.to_string())
    }
}

impl From<nyala_sql::SqlError> for Failure {
    fn from(error: nyala_sql::SqlError) -> Self {
        let nyala_sql::SqlError { code, message, detail, hint, position, context, broken_rule, .. } = error;
        Self { code: code.0, message, detail, hint, position, context, broken_rule }
    }
}
