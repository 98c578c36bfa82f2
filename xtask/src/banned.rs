//! Identifiers that were replaced: crate, old name, what it is called now.

/// See [`crate::replaced`].
pub(crate) const BANNED: &[(&str, &str, &str)] = &[];
