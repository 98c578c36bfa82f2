//! Keys of series, as line protocol has them, of rows that come as columns.

use super::escape::{TAG_SPECIALS, push_measurement_name, push_name};
use super::options::MAX_KEY_BYTES;
use nyala_core::{Error, Result};

/// Different keys, one after the other.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Keys {
    /// Adds a key, and returns its number.
    pub(super) fn push(&mut self, key: &[u8]) -> u32 {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.ends.len() as u32 - 1
    }

    /// Adds keys, and returns the number of the first one.
    pub(super) fn extend(&mut self, keys: &Self) -> u32 {
        let (first, before) = (self.ends.len() as u32, self.bytes.len());
        self.bytes.extend_from_slice(&keys.bytes);
        self.ends.extend(keys.ends.iter().map(|end| before + end));
        first
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }
}

/// Keys of series of one measurement. They are made of names and values, so no line has to be parsed to trust them.
#[derive(Debug)]
pub struct SeriesKeys {
    measurement: String,
    /// The measurement as keys begin with it.
    head: String,
    key: String,
    pub(super) keys: Keys,
}

/// The name of a tag, as keys have it: with the comma before it and the equals sign behind.
#[derive(Debug)]
pub struct TagName(String);

impl TagName {
    /// # Errors
    /// Invalid for a name that line protocol cannot express.
    pub fn of(name: &str) -> Result<Self> {
        let mut written = ",".to_owned();
        push_name(&mut written, "tag", name, TAG_SPECIALS)?;
        written.push('=');
        Ok(Self(written))
    }
}

impl SeriesKeys {
    /// No keys yet.
    ///
    /// # Errors
    /// Invalid for a name that line protocol cannot express.
    pub fn of(measurement: &str) -> Result<Self> {
        let mut head = String::new();
        push_measurement_name(&mut head, measurement)?;
        Ok(Self { measurement: measurement.to_owned(), head, key: String::new(), keys: Keys::default() })
    }

    pub(super) fn measurement(&self) -> &str {
        &self.measurement
    }

    /// Adds the key of a series with these tags, which are sorted by name; its number is how many there were before. An empty
    /// value is none.
    ///
    /// # Errors
    /// Invalid for a value that line protocol cannot express, and for a key that is too long to be stored.
    pub fn push<'a>(&mut self, tags: impl Iterator<Item = (&'a TagName, &'a str)>) -> Result<()> {
        self.key.clear();
        self.key.push_str(&self.head);
        for (name, value) in tags.filter(|(_, value)| !value.is_empty()) {
            self.key.push_str(&name.0);
            push_name(&mut self.key, "tag value", value, TAG_SPECIALS)?;
        }
        check_length(self.key.len()).map_err(Error::invalid)?;
        self.keys.push(self.key.as_bytes());
        Ok(())
    }
}

/// Refuses a key that is too long.
pub(super) fn check_length(bytes: usize) -> std::result::Result<(), String> {
    match bytes > MAX_KEY_BYTES {
        true => Err(format!("a series key of {bytes} bytes: at most {MAX_KEY_BYTES} can be stored")),
        false => Ok(()),
    }
}
