//! Users, their passwords and their rights.
//!
//! There is one record per user, which is only changed as a whole. Statements and writes are checked against
//! the [`Principal`] of a request, which do not change while it runs. Only hashes of passwords are stored (`password`).
//! Passwords and hashes are never printed, and hashes do not leave this module.

mod password;
mod scram;

use crate::records::{ChangeLog, Entry, VersionedRecords};
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use password::Passwords;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub use scram::ScramVerifier;

/// The table of the store that holds the users.
pub const USERS_TABLE: &str = "nyala.users";

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

    /// Whether this privilege includes `wanted`.
    fn allows(self, wanted: Privilege) -> bool {
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

/// A user at some point in time.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    name: String,
    /// An Argon2id hash, as a PHC string.
    password_hash: String,
    /// For log-ins by SCRAM-SHA-256, if the operator asked for it when the password was set ([`ScramVerifier`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scram: Option<String>,
    admin: bool,
    /// The user's privileges, by database.
    grants: BTreeMap<String, Privilege>,
    /// Its position in the order of creation. Records are in this order; only those of an earlier version contain it.
    #[serde(default, skip_serializing)]
    created: u64,
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

    /// What changes whenever its password is set, so that what is signed with it holds until then. It is for no eyes.
    pub fn password_mark(&self) -> &[u8] {
        self.password_hash.as_bytes()
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

    /// Whether everything is allowed.
    pub fn is_admin(&self) -> bool {
        match self {
            Principal::Open => true,
            Principal::FirstAdmin => false,
            Principal::User(user) => user.admin,
        }
    }
}

/// All users.
pub struct Users {
    records: VersionedRecords,
    /// If other servers use the store too.
    change_log: Option<Arc<ChangeLog>>,
    by_name: RwLock<BTreeMap<String, Arc<User>>>,
    /// Whether one of them is an administrator. Every request checks this.
    has_admin: AtomicBool,
    /// Locked to change users.
    changing: tokio::sync::Mutex<()>,
    passwords: Passwords,
    /// How often a password is hashed for its SCRAM verifier; 0: none is made.
    scram_iterations: AtomicU32,
}

/// The secrets that are stored of a password.
#[derive(Clone)]
struct Secrets {
    password_hash: String,
    scram: Option<String>,
}

impl Users {
    /// Reads the users of a store.
    pub(crate) async fn open(store: StoreRef, change_log: Option<Arc<ChangeLog>>) -> Result<Self> {
        let records = VersionedRecords::open(store, USERS_TABLE, upgraded).await?;
        let users = read_users(&records.read().await?)?;
        Ok(Self {
            records,
            change_log,
            has_admin: AtomicBool::new(users.values().any(|user| user.admin)),
            by_name: RwLock::new(users),
            changing: tokio::sync::Mutex::new(()),
            passwords: Passwords::new()?,
            scram_iterations: AtomicU32::new(0),
        })
    }

    /// From now on a SCRAM verifier with so many iterations is stored when a password is set; with 0, none is.
    pub fn set_scram_iterations(&self, iterations: u32) {
        self.scram_iterations.store(iterations, Ordering::Relaxed);
    }

    /// What a log-in by SCRAM is verified with: `None` if the user has no verifier. An unknown user has one that nothing
    /// fits, if verifiers are made at all.
    pub async fn scram_verifier(&self, name: &str) -> Result<Option<ScramVerifier>> {
        if self.change_log.is_some() {
            // Another server may have created the user, or changed the password.
            self.read_again().await?;
        }
        let users = self.by_name.read();
        if let Some(user) = users.get(name) {
            return user.scram.as_deref().map(ScramVerifier::read).transpose();
        }
        let iterations = self.scram_iterations.load(Ordering::Relaxed);
        // A secret that stays the same across restarts.
        let secret = users.values().find(|user| user.admin).map(|admin| admin.password_hash.as_bytes());
        Ok(secret.filter(|_| iterations > 0).map(|secret| ScramVerifier::of_nobody(name, secret, iterations)))
    }

    /// Hashes a password in all the ways that are stored.
    async fn secrets_of(&self, password: &str) -> Result<Secrets> {
        let password_hash = self.passwords.hash(password).await?;
        let iterations = NonZeroU32::new(self.scram_iterations.load(Ordering::Relaxed));
        let scram = match iterations {
            Some(iterations) => Some(self.passwords.scram_verifier(password, iterations).await?.to_text()),
            None => None,
        };
        Ok(Secrets { password_hash, scram })
    }

    /// All users in order of creation.
    pub fn all(&self) -> Vec<Arc<User>> {
        let mut all: Vec<_> = self.by_name.read().values().cloned().collect();
        all.sort_by_key(|user| user.created);
        all
    }

    /// A user by name, or InfluxDB's error.
    pub fn existing(&self, name: &str) -> Result<Arc<User>> {
        self.by_name.read().get(name).cloned().ok_or_else(not_found)
    }

    /// Whether there is an administrator.
    pub fn has_admin(&self) -> bool {
        self.has_admin.load(Ordering::Acquire)
    }

    /// The user with a name and password; `None` if they do not match. An unknown name takes as long as a
    /// wrong password.
    pub async fn authenticate(&self, name: &str, password: &str) -> Result<Option<Arc<User>>> {
        let user = self.by_name.read().get(name).cloned();
        let hash = user.as_ref().map(|user| user.password_hash.as_str());
        if self.passwords.verify(name, password, hash).await? {
            return Ok(user);
        }
        if self.change_log.is_none() {
            return Ok(None);
        }
        // Another server may just have created the user, or changed the password.
        self.read_again().await?;
        let now = self.by_name.read().get(name).cloned();
        let is_other = |now: &User| hash.is_none_or(|hash| now.password_hash != hash);
        match now.filter(|now| is_other(now)) {
            Some(now) if self.passwords.verify(name, password, Some(&now.password_hash)).await? => {
                Ok(Some(now))
            }
            _ => Ok(None),
        }
    }

    /// Reads the users again, which other servers may have changed.
    pub(crate) async fn read_again(&self) -> Result<()> {
        let _changing = self.changing.lock().await;
        let users = read_users(&self.records.read().await?)?;
        self.update_known(|known| *known = users);
        Ok(())
    }

    /// Creates a user. If one exists with the same password and the same `admin`, nothing happens. With `first`, there must be no
    /// administrator yet.
    pub async fn create(&self, name: &str, password: &str, admin: bool, first: bool) -> Result<()> {
        let _changing = self.changing.lock().await;
        if first && self.has_admin() {
            return Err(Error::conflict("there is an administrator already: log in"));
        }
        let existing = self.by_name.read().get(name).cloned();
        if let Some(user) = existing {
            let same = self.passwords.verify(name, password, Some(&user.password_hash)).await?;
            return if same && user.admin == admin {
                Ok(())
            } else {
                Err(Error::conflict("user already exists"))
            };
        }
        if name.is_empty() {
            return Err(Error::invalid("username required"));
        }
        let secrets = self.secrets_of(password).await?;
        self.change_user(name, |existing| {
            // Another server may have been faster.
            if existing.is_some() {
                return Err(Error::conflict("user already exists"));
            }
            if first && self.has_admin() {
                return Err(Error::conflict("there is an administrator already: log in"));
            }
            let created = self.by_name.read().values().map(|user| user.created + 1).max().unwrap_or(0);
            let Secrets { password_hash, scram } = secrets.clone();
            Ok(Some(User {
                name: name.to_owned(),
                password_hash,
                scram,
                admin,
                grants: BTreeMap::new(),
                created,
            }))
        })
        .await
    }

    /// Drops a user. With `keep_admin`, the last administrator cannot be dropped.
    pub async fn drop_user(&self, name: &str, keep_admin: bool) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_user(name, |existing| {
            let user = existing.ok_or_else(not_found)?;
            self.check_admin_stays(user, keep_admin)?;
            Ok(None)
        })
        .await
    }

    /// Changes a user's password.
    pub async fn set_password(&self, name: &str, password: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.existing(name)?;
        let secrets = self.secrets_of(password).await?;
        self.change_existing(name, |user| {
            // A verifier of the old password must not stay.
            Secrets { password_hash: user.password_hash, scram: user.scram } = secrets.clone();
            Ok(())
        })
        .await
    }

    /// Makes a user an administrator, or no longer one. With `keep_admin`, the last one cannot be changed.
    pub async fn set_admin(&self, name: &str, admin: bool, keep_admin: bool) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_existing(name, |user| {
            if !admin {
                self.check_admin_stays(user, keep_admin)?;
            }
            user.admin = admin;
            Ok(())
        })
        .await
    }

    /// Without an administrator, anybody could become the first one.
    fn check_admin_stays(&self, leaving: &User, keep_admin: bool) -> Result<()> {
        let other_admin_exists =
            self.by_name.read().values().any(|user| user.admin && user.name != leaving.name);
        if keep_admin && leaving.admin && !other_admin_exists {
            return Err(Error::conflict(
                "the last administrator stays while authentication is on: create another first",
            ));
        }
        Ok(())
    }

    /// Changes the grant of a user on a database, which must exist.
    pub(crate) async fn change_grant(
        &self,
        name: &str,
        database: &str,
        change: impl Fn(Privilege) -> Privilege,
    ) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_existing(name, |user| {
            let grant = user.grants.entry(database.into()).or_insert(Privilege::None);
            *grant = change(*grant);
            Ok(())
        })
        .await
    }

    /// Revokes all grants on a database that is about to be dropped.
    pub(crate) async fn forget_database(&self, database: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        for user in self.all().into_iter().filter(|user| user.grants.contains_key(database)) {
            self.change_user(&user.name, |existing| {
                let mut changed = existing.cloned();
                changed.iter_mut().for_each(|user| user.grants.retain(|own, _| own != database));
                Ok(changed)
            })
            .await?;
        }
        Ok(())
    }

    async fn change_existing(&self, name: &str, change: impl Fn(&mut User) -> Result<()>) -> Result<()> {
        self.change_user(name, |existing| {
            let mut changed = existing.ok_or_else(not_found)?.clone();
            change(&mut changed)?;
            Ok(Some(changed))
        })
        .await
    }

    /// Replaces a user by what `change` returns. `None` means that there is no such user. The caller holds `changing`. If
    /// another server was faster, `change` is called again.
    async fn change_user(
        &self,
        name: &str,
        change: impl Fn(Option<&User>) -> Result<Option<User>>,
    ) -> Result<()> {
        let decide = || {
            let before = self.by_name.read().get(name).cloned();
            let after = change(before.as_deref())?;
            let value = after.as_ref().map(|user| serde_json::to_vec(user).expect("users are plain data"));
            Ok(Some((vec![(name.as_bytes().to_vec(), value)], after)))
        };
        let learn = |records: &[_]| {
            let users = read_users(records)?;
            self.update_known(|known| *known = users);
            Ok(())
        };
        let after = self.records.change_by(&format!("user {name}"), decide, learn).await?.flatten();
        self.update_known(|users| match after {
            Some(user) => drop(users.insert(name.to_owned(), Arc::new(user))),
            None => drop(users.remove(name)),
        });
        match &self.change_log {
            Some(log) => log.append(&Entry::Users, |_| ()).await.map(drop),
            None => Ok(()),
        }
    }

    /// Changes what this server knows of the users.
    fn update_known(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<User>>)) {
        let mut users = self.by_name.write();
        change(&mut users);
        self.has_admin.store(users.values().any(|user| user.admin), Ordering::Release);
    }
}

fn not_found() -> Error {
    Error::missing("user not found")
}

/// Users by name, read from their records, which are in order of creation.
fn read_users(records: &[(Vec<u8>, Vec<u8>)]) -> Result<BTreeMap<String, Arc<User>>> {
    let mut users = BTreeMap::new();
    for (key, value) in records {
        let mut user = read_user(key, value)?;
        user.created = users.len() as u64;
        users.insert(user.name.clone(), Arc::new(user));
    }
    Ok(users)
}

fn read_user(key: &[u8], value: &[u8]) -> Result<User> {
    // The record contains a hash, so the error names only its key.
    serde_json::from_slice(value).map_err(|_| {
        let key = String::from_utf8_lossy(key);
        Error::new(ErrorKind::Corrupt, format!("user record {key:?} is malformed"))
    })
}

/// Sorts records of an earlier version by the position that each contains. Today their order is the order of creation.
fn upgraded(mut records: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let users = records.iter().map(|(key, value)| Ok((key.clone(), read_user(key, value)?.created)));
    let created = users.collect::<Result<BTreeMap<_, _>>>()?;
    records.sort_by_key(|(key, _)| created[key]);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::Privilege::{All, None, Read, Write};
    use super::*;

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
    }

    #[test]
    fn a_user_that_is_printed_shows_no_hash() {
        let user = User {
            name: "ann".into(),
            password_hash: "canary".into(),
            scram: Some("canary".into()),
            admin: true,
            grants: BTreeMap::new(),
            created: 0,
        };
        assert!(!format!("{user:?} {:?}", Principal::User(Arc::new(user.clone()))).contains("canary"));
    }
}
