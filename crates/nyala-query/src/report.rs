//! What a server tells of itself: counts for SHOW STATS and `/debug/vars`, facts for SHOW DIAGNOSTICS.

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

/// What a part of the server tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The part.
    pub name: String,
    /// Which of several of this name, by key.
    pub tags: Vec<(&'static str, String)>,
    /// Values by name, in the order they are shown.
    pub values: Vec<(String, Datum)>,
}

impl Report {
    /// A report of a part that there is one of.
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

/// What reports are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// What goes on.
    Statistics,
    /// What the server is, and runs on.
    Diagnostics,
}

/// Tells what only the server knows.
pub type Reporter = Arc<dyn Fn(Topic) -> Vec<Report> + Send + Sync>;
