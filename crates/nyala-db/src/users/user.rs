//! A user: its rights, its tokens, its quota. And the sender of a request, who may be one.
//!
//! Who has logged in by a token is a user of the same name with less rights ([`User::through`]), so that nothing that checks
//! rights has to know of tokens.

use super::privilege::Privilege;
use super::quota::{Meter, QuerySlot, Quota, QuotaMemory};
use super::token::{Token, TokenHash};
use nyala_core::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A user at some point in time.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub(super) name: String,
    /// An Argon2id hash, as a PHC string.
    pub(super) password_hash: String,
    /// For log-ins by SCRAM-SHA-256, if the operator asked for it when the password was set ([`ScramVerifier`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scram: Option<String>,
    pub(super) admin: bool,
    /// The user's privileges, by database.
    pub(super) grants: BTreeMap<String, Privilege>,
    /// What it may log in with beside its password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tokens: Vec<Token>,
    #[serde(default, skip_serializing_if = "Quota::is_unlimited")]
    pub(super) quota: Quota,
    /// What it uses of its quota.
    #[serde(skip)]
    pub(super) meter: Meter,
    /// If it has logged in by a token: which one.
    #[serde(skip)]
    pub(super) by_token: Option<ByToken>,
    /// Its position in the order of creation. Records are in this order; only those of an earlier version contain it.
    #[serde(default, skip_serializing)]
    pub(super) created: u64,
}

/// The token by which somebody has logged in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ByToken {
    pub(super) name: String,
    pub(super) hash: TokenHash,
}

impl User {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may do everything.
    pub fn is_admin(&self) -> bool {
        self.admin
    }

    /// Its grants, by database.
    pub fn grants(&self) -> &BTreeMap<String, Privilege> {
        &self.grants
    }

    /// What changes whenever its password is set, so that what is signed with it holds until then. Of somebody who has logged
    /// in by a token it is the token's hash. It is for no eyes.
    pub fn password_mark(&self) -> &[u8] {
        match &self.by_token {
            Some(token) => token.hash.as_bytes(),
            None => self.password_hash.as_bytes(),
        }
    }

    /// The name of the token by which it has logged in, if it has.
    pub fn token_name(&self) -> Option<&str> {
        self.by_token.as_ref().map(|token| &*token.name)
    }

    /// Its tokens.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// What it may use.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// Counts what it uses of its quota.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The same user as one of its tokens lets it: never more than it may itself.
    pub(super) fn through(&self, token: &Token) -> Self {
        let (admin, grants) = match token.scope() {
            None => (self.admin, self.grants.clone()),
            Some(scope) => {
                let own = |database: &str| match self.admin {
                    true => Privilege::All,
                    false => self.grants.get(database).copied().unwrap_or(Privilege::None),
                };
                let both =
                    scope.iter().map(|(database, most)| (database.clone(), own(database).within(*most)));
                (false, both.collect())
            }
        };
        Self {
            name: self.name.clone(),
            // Neither is needed by who has logged in already.
            password_hash: String::new(),
            scram: None,
            admin,
            grants,
            tokens: Vec::new(),
            quota: self.quota,
            meter: self.meter.clone(),
            by_token: Some(ByToken { name: token.name().to_owned(), hash: token.hash().clone() }),
            created: self.created,
        }
    }

    /// Whether it has a privilege on a database.
    pub fn may(&self, privilege: Privilege, database: &str) -> bool {
        self.admin || self.grants.get(database).copied().unwrap_or(Privilege::None).allows(privilege)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("admin", &self.admin).finish_non_exhaustive()
    }
}

/// Who sends a request, as it matters for what the request may do.
#[derive(Debug, Clone)]
pub enum Principal {
    /// Anybody: authentication is off.
    Open,
    /// Somebody unknown, while there is no administrator: the only thing allowed is to create the first one.
    FirstAdmin,
    /// A user.
    User(Arc<User>),
}

impl Principal {
    /// Whether a privilege on a database is granted.
    pub fn may(&self, privilege: Privilege, database: &str) -> bool {
        match self {
            Principal::Open => true,
            Principal::FirstAdmin => false,
            Principal::User(user) => user.may(privilege, database),
        }
    }

    /// The user's name, if there is a user.
    pub fn user_name(&self) -> Option<&str> {
        match self {
            Principal::Open | Principal::FirstAdmin => None,
            Principal::User(user) => Some(user.name()),
        }
    }

    /// The user's name, and the token by which it has logged in: `ann`, or `ann by token ci`.
    pub fn login_name(&self) -> Option<String> {
        let Principal::User(user) = self else { return None };
        Some(match user.token_name() {
            Some(token) => format!("{} by token {token}", user.name),
            None => user.name.clone(),
        })
    }

    /// Refuses a write of somebody who has written more than its quota allows.
    pub fn admit_write(&self) -> Result<()> {
        match self {
            Principal::User(user) => user.meter.admit_write(user.name(), &user.quota),
            Principal::Open | Principal::FirstAdmin => Ok(()),
        }
    }

    /// Begins a query, which counts for as long as the returned value is held; refuses it where the quota is used up.
    pub fn begin_query(&self) -> Result<Option<QuerySlot>> {
        match self {
            Principal::User(user) => user.meter.begin_query(user.name(), &user.quota),
            Principal::Open | Principal::FirstAdmin => Ok(None),
        }
    }

    /// What a query charges its memory to besides the server's budget, if there is a quota.
    pub fn query_memory(&self) -> Option<QuotaMemory> {
        match self {
            Principal::User(user) => user.meter.query_memory(user.name(), &user.quota),
            Principal::Open | Principal::FirstAdmin => None,
        }
    }

    /// Whether it matters how many bytes are written. Statements are not as cheap to measure as bodies.
    pub fn counts_bytes(&self) -> bool {
        matches!(self, Principal::User(user) if user.quota.bytes_per_second > 0)
    }

    /// How many series a database has at least in which it creates no others.
    pub fn series_max(&self) -> Option<u64> {
        match self {
            Principal::User(user) => Some(user.quota.series_per_database).filter(|most| *most > 0),
            Principal::Open | Principal::FirstAdmin => None,
        }
    }

    /// Counts what was written.
    pub fn has_written(&self, points: u64, bytes: u64) {
        if let Principal::User(user) = self {
            user.meter.has_written(&user.quota, points, bytes);
        }
    }

    /// Whether everything is allowed.
    pub fn is_admin(&self) -> bool {
        match self {
            Principal::Open => true,
            Principal::FirstAdmin => false,
            Principal::User(user) => user.admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_printed_shows_no_hash() {
        let user = User {
            name: "ann".into(),
            password_hash: "canary".into(),
            scram: Some("canary".into()),
            admin: true,
            grants: BTreeMap::new(),
            tokens: Vec::new(),
            quota: Quota::default(),
            meter: Meter::default(),
            by_token: None,
            created: 0,
        };
        assert!(!format!("{user:?} {:?}", Principal::User(Arc::new(user.clone()))).contains("canary"));
    }
}
