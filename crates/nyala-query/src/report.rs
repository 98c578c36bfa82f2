//! Reports about the server: counts for SHOW STATS and `/debug/vars`, facts for SHOW DIAGNOSTICS.

use std::sync::Arc;

/// A value of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    /// A number.
    Integer(i64),
    /// Yes or no.
    Boolean(bool),
    /// A text.
    Text(String),
}

impl Datum {
    /// A count.
    pub fn count(count: u64) -> Self {
        Datum::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// The values of one part of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The part.
    pub name: String,
    /// Tags that distinguish several parts with this name.
    pub tags: Vec<(&'static str, String)>,
    /// Values by name, in the order they are shown.
    pub values: Vec<(String, Datum)>,
}

impl Report {
    /// A report of a part that exists once.
    pub fn new<Name: Into<String>>(name: &str, values: impl IntoIterator<Item = (Name, Datum)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Self { name: name.into(), tags: Vec::new(), values }
    }

    /// The same with tags.
    #[must_use]
    pub fn with_tags(mut self, tags: Vec<(&'static str, String)>) -> Self {
        self.tags = tags;
        self
    }
}

/// The kind of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// What the server does.
    Statistics,
    /// What the server is, and what it runs on.
    Diagnostics,
}

/// Gives the reports that only the server can make.
pub type Reporter = Arc<dyn Fn(Topic) -> Vec<Report> + Send + Sync>;
