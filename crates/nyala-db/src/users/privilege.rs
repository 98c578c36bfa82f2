//! What a user may do with a database.

use serde::{Deserialize, Serialize};

/// What a user may do with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// Nothing. This remains when everything was revoked.
    None,
    /// Read it.
    Read,
    /// Write to it.
    Write,
    /// Both.
    All,
}

impl Privilege {
    /// Its name in InfluxQL.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::None => "NO PRIVILEGES",
            Privilege::Read => "READ",
            Privilege::Write => "WRITE",
            Privilege::All => "ALL PRIVILEGES",
        }
    }

    /// What is left of it if no more than another one is allowed.
    pub(super) fn within(self, most: Privilege) -> Self {
        match (self, most) {
            (own, other) if own.allows(other) => other,
            (own, other) if other.allows(own) => own,
            // One of them reads, the other writes.
            _ => Privilege::None,
        }
    }

    /// Whether this privilege includes `wanted`.
    pub(super) fn allows(self, wanted: Privilege) -> bool {
        wanted == Privilege::None || self == wanted || self == Privilege::All
    }

    /// What remains when another privilege is revoked.
    #[must_use]
    pub fn without(self, other: Privilege) -> Self {
        match (self, other) {
            (own, Privilege::None) => own,
            (_, Privilege::All) => Privilege::None,
            (Privilege::All, Privilege::Read) => Privilege::Write,
            (Privilege::All, Privilege::Write) => Privilege::Read,
            (own, other) if own == other => Privilege::None,
            (own, _) => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Privilege::{All, None, Read, Write};

    #[test]
    fn privileges_are_checked_and_revoked() {
        for (own, wanted, allowed) in [
            (None, Read, false),
            (None, None, true),
            (Read, Read, true),
            (Read, Write, false),
            (Read, All, false),
            (Write, Read, false),
            (All, Read, true),
            (All, Write, true),
            (All, All, true),
        ] {
            assert_eq!(own.allows(wanted), allowed, "{own:?} {wanted:?}");
        }
        assert_eq!([All, All, Read, Write].map(|own| own.without(Write)), [Read, Read, Read, None]);
        assert_eq!(Read.without(All), None);
        for (own, most, left) in [
            (All, Read, Read),
            (Read, All, Read),
            (All, All, All),
            (Read, Write, None),
            (None, All, None),
            (All, None, None),
            (Write, Write, Write),
        ] {
            assert_eq!(own.within(most), left, "{own:?} {most:?}");
        }
    }
}
