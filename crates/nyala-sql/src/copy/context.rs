//! Where in the rows of a COPY an error is, as PostgreSQL says it.

/// Longer texts are cut off.
pub const DISPLAYED_BYTES: usize = 100;

/// A place in the rows of a COPY.
#[derive(Debug, Clone, Copy)]
pub struct CopyContext<'a> {
    /// The table.
    pub table: &'a str,
    /// The line, counted from 1; in the binary form the row.
    pub line: u64,
}

impl CopyContext<'_> {
    /// The line.
    pub fn of_line(&self) -> String {
        format!("COPY {}, line {}", self.table, self.line)
    }

    /// The line and its text.
    pub fn of_text(&self, text: &[u8]) -> String {
        format!("{}: \"{}\"", self.of_line(), shown(text))
    }

    /// A column of the line.
    pub fn of_column(&self, column: &str) -> String {
        format!("{}, column {column}", self.of_line())
    }

    /// A column of the line and its text; `None`: NULL.
    pub fn of_value(&self, column: &str, text: Option<&str>) -> String {
        match text {
            Some(text) => format!("{}: \"{}\"", self.of_column(column), shown(text.as_bytes())),
            None => format!("{}: null input", self.of_column(column)),
        }
    }
}

/// The beginning of a text.
fn shown(text: &[u8]) -> String {
    if text.len() <= DISPLAYED_BYTES {
        return String::from_utf8_lossy(text).into_owned();
    }
    let is_begun = |at: usize| text[at] & 0xc0 == 0x80;
    let end = (0..=DISPLAYED_BYTES).rev().find(|end| !is_begun(*end)).unwrap_or(0);
    format!("{}...", String::from_utf8_lossy(&text[..end]))
}
