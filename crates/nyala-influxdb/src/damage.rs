//! What could not be read of a file.

use std::fmt;
use std::path::{Path, PathBuf};

/// The most places that are listed. The others are counted.
const LISTED_MAX: usize = 1000;

/// A place in a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where in the file, bytes.
    pub offset: u64,
    /// What is wrong there, and what is lost.
    pub message: String,
}

impl Damage {
    /// Damage at a place of a file.
    pub fn new(file: &Path, offset: u64, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), offset, message: message.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}", self.file.display(), self.offset, self.message)
    }
}

/// Damage that was found, of which a bounded number is listed.
#[derive(Debug, Default)]
pub struct DamageList {
    /// The first places.
    pub listed: Vec<Damage>,
    /// The number of all places.
    pub count: u64,
}

impl DamageList {
    /// Adds a place.
    pub fn add(&mut self, damage: Damage) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(damage);
        }
    }

    /// Adds the places of another list.
    pub fn append(&mut self, other: DamageList) {
        self.count += other.count;
        let room = LISTED_MAX - self.listed.len();
        self.listed.extend(other.listed.into_iter().take(room));
    }
}
