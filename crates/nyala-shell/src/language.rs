//! The two languages.

/// A language of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Influxql,
    Sql,
}

impl Language {
    /// Its name, in prompts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Language::Influxql => "influxql",
            Language::Sql => "sql",
        }
    }
}
