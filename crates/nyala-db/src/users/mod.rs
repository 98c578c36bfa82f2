//! Users, their passwords, tokens and rights.
//!
//! There is one record per user, with its tokens and its quota, which is only changed as a whole. Statements and writes are
//! checked against the [`Principal`] of a request (`user`), which does not change while it runs. Only hashes of passwords
//! (`password`) and tokens (`token`) are stored. Secrets and hashes are never printed, and hashes do not leave this module.
//! `log_ins` slows down who guesses, `quota` counts what a user uses.

mod log_ins;
mod password;
mod privilege;
mod quota;
mod scram;
mod token;
mod user;

use crate::records::{ChangeLog, Entry, VersionedRecords};
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use password::Passwords;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

pub use log_ins::LogIns;
pub use privilege::Privilege;
pub use quota::{Meter, QuerySlot, Quota, QuotaKind, QuotaMemory, Refusals};
pub use scram::ScramVerifier;
pub use token::{NewToken, TOKEN_PREFIX, Token, TokenListing};
pub use user::{Principal, User};

use token::{RECORD_BYTES_MAX, TOKENS_MAX, TokenHash};

/// The table of the store that holds the users.
pub const USERS_TABLE: &str = "nyala.users";

/// All users.
pub struct Users {
    records: VersionedRecords,
    /// If other servers use the store too.
    change_log: Option<Arc<ChangeLog>>,
    by_name: RwLock<BTreeMap<String, Arc<User>>>,
    /// The tokens of these users. Changed after `by_name`, by who changes that.
    by_token: RwLock<HashMap<TokenHash, Arc<KnownToken>>>,
    /// Whether one of them is an administrator. Every request checks this.
    has_admin: AtomicBool,
    /// Locked to change users.
    changing: tokio::sync::Mutex<()>,
    passwords: Passwords,
    /// How often a password is hashed for its SCRAM verifier; 0: none is made.
    scram_iterations: AtomicU32,
    log_ins: LogIns,
    refusals: Arc<Refusals>,
}

/// A token, and whom it lets in.
struct KnownToken {
    /// The user with the rights that the token leaves.
    user: Arc<User>,
    expires_ns: Option<i64>,
    /// When it was last used, ns; 0: not since the start.
    used_ns: AtomicI64,
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
        let read = read_users(&records.read().await?)?;
        let users = Self {
            records,
            change_log,
            has_admin: AtomicBool::new(false),
            by_name: RwLock::default(),
            by_token: RwLock::default(),
            changing: tokio::sync::Mutex::new(()),
            passwords: Passwords::new()?,
            scram_iterations: AtomicU32::new(0),
            log_ins: LogIns::default(),
            refusals: Arc::default(),
        };
        users.update_known(|known| *known = read);
        Ok(users)
    }

    /// Counts failed log-ins.
    pub fn log_ins(&self) -> &LogIns {
        &self.log_ins
    }

    /// How often something was refused because of a quota.
    pub fn quota_refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// From now on a SCRAM verifier with so many iterations is stored when a password is set; with 0, none is.
    pub fn set_scram_iterations(&self, iterations: u32) {
        self.scram_iterations.store(iterations, Ordering::Relaxed);
    }

    /// What a log-in by SCRAM is verified with: `None` if the user has no verifier. An unknown user is asked like one of the others,
    /// always the same: like one with a verifier, it has one that nothing fits.
    pub async fn scram_verifier(&self, name: &str) -> Result<Option<ScramVerifier>> {
        if self.change_log.is_some() {
            // Another server may have created the user, or changed the password.
            self.read_again().await?;
        }
        let users = self.by_name.read();
        if let Some(user) = users.get(name) {
            return user.scram.as_deref().map(ScramVerifier::read).transpose();
        }
        // A secret that stays the same across restarts, and when there are more administrators.
        let oldest = users.values().filter(|user| user.admin).min_by_key(|user| user.created);
        let Some(secret) = oldest.map(|admin| admin.password_hash.as_bytes()) else { return Ok(None) };
        let likeness =
            |user: &&Arc<User>| scram::keyed_hash(secret, format!("{name}\0{}", user.name).as_bytes());
        let model = users.values().min_by_key(likeness).and_then(|user| user.scram.as_deref());
        let iterations = model.map(ScramVerifier::read).transpose()?.map(|verifier| verifier.iterations());
        Ok(iterations.map(|iterations| ScramVerifier::of_nobody(name, secret, iterations)))
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

    /// Who logs in with a name and a secret: a password, or one of the user's tokens. `None` if they do not match, and an error if
    /// too many log-ins have failed.
    pub async fn log_in(
        &self,
        name: &str,
        secret: &str,
        client: Option<IpAddr>,
        now_ns: i64,
    ) -> Result<Option<Arc<User>>> {
        // Nobody can guess a token, so a right one need not wait.
        if let Some(user) = self.of_token(secret, client, now_ns).await?.filter(|user| user.name() == name) {
            return Ok(Some(user));
        }
        self.log_ins.check(name, client)?;
        let found = self.authenticate(name, secret).await?;
        match &found {
            Some(_) => self.log_ins.succeeded(name, client),
            None => self.log_ins.failed(name, client),
        }
        Ok(found)
    }

    /// Who logs in with a token alone.
    pub async fn log_in_by_token(
        &self,
        secret: &str,
        client: Option<IpAddr>,
        now_ns: i64,
    ) -> Result<Option<Arc<User>>> {
        let found = self.of_token(secret, client, now_ns).await?;
        if found.is_none() {
            self.log_ins.check("", client)?;
            self.log_ins.failed("", client);
        }
        Ok(found)
    }

    /// Whom a secret lets in, if it is that of a token that is valid.
    async fn of_token(&self, secret: &str, client: Option<IpAddr>, now_ns: i64) -> Result<Option<Arc<User>>> {
        let Some(hash) = TokenHash::of(secret) else { return Ok(None) };
        let mut known = self.by_token.read().get(&hash).cloned();
        if known.is_none() && self.change_log.is_some() {
            self.log_ins.check("", client)?;
            // Another server may just have created it.
            self.read_again().await?;
            known = self.by_token.read().get(&hash).cloned();
        }
        let Some(known) = known.filter(|known| known.expires_ns.is_none_or(|end_ns| now_ns < end_ns)) else {
            return Ok(None);
        };
        known.used_ns.store(now_ns, Ordering::Relaxed);
        Ok(Some(known.user.clone()))
    }

    /// A user by name; or, with the name of one of its tokens, as that lets it in.
    pub fn found(&self, name: &str, by_token: Option<&str>, now_ns: i64) -> Option<Arc<User>> {
        let user = self.by_name.read().get(name).cloned()?;
        let Some(by_token) = by_token else { return Some(user) };
        let token = user.tokens.iter().find(|token| token.name() == by_token)?;
        self.again(&user.through(token), now_ns).ok()
    }

    /// Somebody who has logged in before, as it is now. An error says why it is nobody any more.
    pub fn again(&self, user: &User, now_ns: i64) -> Result<Arc<User>> {
        let Some(token) = &user.by_token else {
            let found = self.by_name.read().get(user.name()).cloned();
            return found.ok_or_else(|| Error::missing(format!("user \"{}\" was dropped", user.name())));
        };
        let known = self.by_token.read().get(&token.hash).cloned();
        let known = known.ok_or_else(|| Error::missing(format!("token \"{}\" was dropped", token.name)))?;
        match known.expires_ns.is_none_or(|end_ns| now_ns < end_ns) {
            true => Ok(known.user.clone()),
            false => Err(Error::missing(format!("token \"{}\" has expired", token.name))),
        }
    }

    /// All tokens, by user in order of creation.
    pub fn all_tokens(&self) -> Vec<TokenListing> {
        // In this order, as everywhere.
        let all = self.all();
        let by_token = self.by_token.read();
        let used_ns = |token: &Token| {
            let used_ns = by_token.get(token.hash())?.used_ns.load(Ordering::Relaxed);
            (used_ns != 0).then_some(used_ns)
        };
        all.iter()
            .flat_map(|user| user.tokens.iter().map(|token| token.listing(user.name(), used_ns(token))))
            .collect()
    }

    /// Creates a token. Returns its secret, which is stored nowhere.
    pub async fn create_token(&self, new: &NewToken) -> Result<String> {
        let _changing = self.changing.lock().await;
        self.existing(&new.user)?;
        let (token, secret) = Token::new(new)?;
        self.change_existing(&new.user, |user| {
            let users = self.by_name.read();
            let mut tokens = users.values().flat_map(|user| &user.tokens);
            if tokens.any(|other| other.name() == new.name) {
                return Err(Error::conflict("token already exists"));
            }
            if user.tokens.len() >= TOKENS_MAX {
                return Err(Error::limit(format!("a user has at most {TOKENS_MAX} tokens: drop one first")));
            }
            user.tokens.push(token.clone());
            let length = serde_json::to_vec(user).map_or(usize::MAX, |record| record.len());
            if length > RECORD_BYTES_MAX {
                let words = format!(
                    "the record of a user with its tokens has at most {RECORD_BYTES_MAX} bytes: name fewer databases"
                );
                return Err(Error::limit(words));
            }
            Ok(())
        })
        .await?;
        Ok(secret)
    }

    /// Drops a token: who has logged in by it is refused from now on.
    pub async fn drop_token(&self, name: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        let has = |user: &User| user.tokens.iter().any(|token| token.name() == name);
        // Two servers that create tokens at the same time may give them the same name.
        let owners: Vec<Arc<User>> = self.all().into_iter().filter(|user| has(user)).collect();
        if owners.is_empty() {
            return Err(Error::missing("token not found"));
        }
        for owner in owners {
            self.change_existing(owner.name(), |user| {
                user.tokens.retain(|token| token.name() != name);
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Changes what a user may use.
    pub async fn set_quota(&self, name: &str, changes: &[(QuotaKind, u64)]) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_existing(name, |user| {
            changes.iter().for_each(|(kind, most)| user.quota.set(*kind, *most));
            Ok(())
        })
        .await
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
        self.create_granted(name, password, (admin, first), &BTreeMap::new()).await
    }

    /// The same with privileges on databases, which must exist: the record has all of it, or there is none.
    pub(crate) async fn create_granted(
        &self,
        name: &str,
        password: &str,
        (admin, first): (bool, bool),
        grants: &BTreeMap<String, Privilege>,
    ) -> Result<()> {
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
                grants: grants.clone(),
                tokens: Vec::new(),
                quota: Quota::default(),
                meter: Meter::default(),
                by_token: None,
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

    /// Revokes all grants on a database that is about to be dropped, also those of tokens: another database may get its name.
    pub(crate) async fn forget_database(&self, database: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        let names = |token: &Token| token.scope().is_some_and(|scope| scope.contains_key(database));
        let knows = |user: &User| user.grants.contains_key(database) || user.tokens.iter().any(names);
        for user in self.all().into_iter().filter(|user| knows(user)) {
            self.change_user(&user.name, |existing| {
                let mut changed = existing.cloned();
                if let Some(user) = &mut changed {
                    user.grants.retain(|own, _| own != database);
                    user.tokens.iter_mut().for_each(|token| token.forget_database(database));
                }
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
        let meters: HashMap<String, Meter> =
            users.iter().map(|(name, user)| (name.clone(), user.meter.clone())).collect();
        change(&mut users);
        for (name, user) in users.iter_mut() {
            // What a user uses outlives a change of its rights.
            let meter = meters.get(name).cloned();
            Arc::make_mut(user).meter = meter.unwrap_or_else(|| Meter::counting(self.refusals.clone()));
        }
        self.has_admin.store(users.values().any(|user| user.admin), Ordering::Release);
        let mut by_token = self.by_token.write();
        let old = std::mem::take(&mut *by_token);
        for user in users.values() {
            for token in &user.tokens {
                let used_ns = old.get(token.hash()).map_or(0, |known| known.used_ns.load(Ordering::Relaxed));
                let known = KnownToken {
                    user: Arc::new(user.through(token)),
                    expires_ns: token.expires_ns(),
                    used_ns: AtomicI64::new(used_ns),
                };
                by_token.insert(token.hash().clone(), Arc::new(known));
            }
        }
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
