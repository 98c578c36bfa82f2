//! The words that PostgreSQL knows, and which of them are reserved (`system_catalog/definitions/keywords.txt`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keyword {
    /// `R`eserved, `T`: can be a function or a type, `C`: cannot be one, `U`nreserved.
    pub(crate) category: &'static str,
    /// Whether it can be the name of a column without AS.
    pub(crate) is_bare_label: bool,
}

/// All of them.
pub(crate) static KEYWORDS: LazyLock<BTreeMap<&'static str, Keyword>> = LazyLock::new(|| {
    let word = |line: &'static str| {
        let mut parts = line.split('|');
        let mut part = || parts.next().expect("a line has three parts");
        let (word, category, is_bare_label) = (part(), part(), part() == "t");
        (word, Keyword { category, is_bare_label })
    };
    include_str!("system_catalog/definitions/keywords.txt").lines().map(word).collect()
});

impl Keyword {
    /// What its category means.
    pub(crate) fn description(self) -> &'static str {
        match self.category {
            "R" => "reserved",
            "T" => "reserved (can be function or type name)",
            "C" => "unreserved (cannot be function or type name)",
            _ => "unreserved",
        }
    }
}

/// Whether a word needs quotes to be a name.
pub(crate) fn is_reserved(word: &str) -> bool {
    KEYWORDS.get(word).is_some_and(|own| own.category != "U")
}

/// Whether a word is the name of a column only in quotes.
pub(crate) fn is_no_column(word: &str) -> bool {
    KEYWORDS.get(word).is_some_and(|own| matches!(own.category, "R" | "T"))
}
