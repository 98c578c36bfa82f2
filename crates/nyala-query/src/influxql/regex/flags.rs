//! Flags of a pattern, and errors in one.

/// The translation of a part of a pattern, or the message for the client.
pub(super) type Result<T> = std::result::Result<T, String>;

/// Go's message about a part of a pattern.
pub(super) fn error<T>(message: &str, part: &str) -> Result<T> {
    Err(format!("{message}: `{part}`"))
}

/// The flags in force at a position of a pattern.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) ignore_case: bool,
    pub(super) multi_line: bool,
    pub(super) dot_matches_line_break: bool,
    pub(super) lazy: bool,
}
