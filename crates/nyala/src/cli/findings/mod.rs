//! What a check has found: what `nyala doctor` and `nyala upgrade-check` report.

pub(in crate::cli) mod report;

use serde::Serialize;
use std::borrow::Cow;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Grade {
    /// Nothing has to be done.
    Ok,
    /// It should be changed.
    Warning,
    /// It must be changed.
    Problem,
}

/// One fact about the machine, the settings or the server, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Finding {
    /// The check, always the same word.
    pub(in crate::cli) check: &'static str,
    pub(in crate::cli) grade: Grade,
    /// What was seen.
    pub(in crate::cli) found: String,
    /// Why it matters; empty if nothing has to be done.
    pub(in crate::cli) why: Cow<'static, str>,
    /// What to do; empty if nothing has to be done.
    pub(in crate::cli) advice: Cow<'static, str>,
}

impl Finding {
    /// All is well.
    pub(in crate::cli) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, grade: Grade::Ok, found: found.into(), why: "".into(), advice: "".into() }
    }

    /// Something should be changed.
    pub(in crate::cli) fn warning(
        check: &'static str,
        found: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { check, grade: Grade::Warning, found: found.into(), why: why.into(), advice: advice.into() }
    }

    /// Something must be changed.
    pub(in crate::cli) fn problem(
        check: &'static str,
        found: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { grade: Grade::Problem, ..Self::warning(check, found, why, advice) }
    }
}

/// A number of bytes for a person.
pub(in crate::cli) fn shown_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
