//! What a check has found: what `nyala doctor` and `nyala upgrade-check` report.

pub(in crate::cli) mod report;

use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

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

    /// Settings that are refused, and the file that some of them stand in.
    pub(in crate::cli) fn refused_settings(file: Option<&Path>, message: String) -> Self {
        let unreadable = file.and_then(|file| File::open(file).err()).map(|error| error.kind());
        let (why, advice) = why_refused(unreadable);
        Self::problem("settings", message, why, advice)
    }
}

/// Why settings are refused, and what to do, when their file cannot be opened for such a reason or can be.
fn why_refused(unreadable: Option<ErrorKind>) -> (&'static str, &'static str) {
    match unreadable {
        Some(ErrorKind::PermissionDenied) => (
            "only root and the server's user read the settings of the service",
            "look as one of them: `sudo -u nyala nyala …`",
        ),
        _ => (
            "the server does not start with these settings",
            "change them, and look again; `nyala config --markdown` explains each",
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_not_read_the_settings_is_not_told_to_change_them() {
        assert!(why_refused(Some(ErrorKind::PermissionDenied)).1.contains("sudo -u nyala"));
        assert!(why_refused(Some(ErrorKind::NotFound)).1.starts_with("change them"));
        let finding = Finding::refused_settings(None, "memory-limit is missing".to_owned());
        assert_eq!((finding.grade, &*finding.why), (Grade::Problem, why_refused(None).0));
    }
}
