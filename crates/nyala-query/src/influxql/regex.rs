//! Regular expressions.

/// A regular expression that was found well-formed when it was parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regex {
    source: String,
}

impl Regex {
    /// Checks a pattern. The error is what InfluxDB answers.
    pub fn new(source: &str) -> Result<Regex, String> {
        regex::Regex::new(source).map_err(|error| error.to_string())?;
        Ok(Regex { source: source.to_string() })
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }
}
