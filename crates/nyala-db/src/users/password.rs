//! Passwords. They are hashed with Argon2id, which is slow on purpose. Verified passwords are cached for a while, so
//! that a client that sends its password with every request costs only a look-up.
//!
//! The cache holds a keyed hash of name, password and stored hash. The key never leaves the process, so the cached hash
//! is useless elsewhere, cannot be computed by somebody who knows a stored hash, and becomes invalid when the password
//! changes. Only correct passwords are cached.

use super::scram::{SALT_BYTES, ScramVerifier};
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The cost of a hash: the first choice of OWASP's password storage cheat sheet (2025) for Argon2id.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// The most hashes computed at once. Together they take 38 MiB, if their cost is this.
const CONCURRENT_MAX: usize = 2;
/// The most log-ins that wait. Further clients are told to retry later.
const WAITING_MAX: usize = 256;
/// How long a correct password is cached.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How many are cached.
const REMEMBERED_MAX: usize = 4096;
/// Used in place of the hash of a user that does not exist, so that verification takes as long. It has the same cost
/// and is the hash of no password.
const NOBODYS_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5IGhhcyB0aGlz$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and verifies passwords.
pub(super) struct Passwords {
    random: SystemRandom,
    key: hmac::Key,
    remembered: Mutex<HashMap<[u8; 32], Instant>>,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Passwords {
    pub(super) fn new() -> Result<Self> {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(|_| no_randomness())?;
        Ok(Self {
            random,
            key,
            remembered: Mutex::new(HashMap::new()),
            turns: Arc::new(Semaphore::new(CONCURRENT_MAX)),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Hashes a password.
    pub(super) async fn hash(&self, password: &str) -> Result<String> {
        let mut salt = [0; 16];
        self.random.fill(&mut salt).map_err(|_| no_randomness())?;
        let password = password.to_owned();
        self.in_turn(move || {
            let salt = SaltString::encode_b64(&salt).map_err(hashing)?;
            let hash = hasher()?.hash_password(password.as_bytes(), &salt).map_err(hashing)?;
            Ok(hash.to_string())
        })
        .await
    }

    /// Makes the SCRAM verifier of a password.
    pub(super) async fn scram_verifier(
        &self,
        password: &str,
        iterations: NonZeroU32,
    ) -> Result<ScramVerifier> {
        let mut salt = vec![0; SALT_BYTES];
        self.random.fill(&mut salt).map_err(|_| no_randomness())?;
        let password = password.to_owned();
        self.in_turn(move || Ok(ScramVerifier::of_password(&password, salt, iterations))).await
    }

    /// Whether a password matches a stored hash. Without a stored hash it takes as long and returns false.
    pub(super) async fn verify(&self, name: &str, password: &str, stored: Option<&str>) -> Result<bool> {
        let tag = self.tag(name, password, stored.unwrap_or(NOBODYS_HASH));
        if stored.is_some() && self.remembers(&tag) {
            return Ok(true);
        }
        let (secret, hash) = (password.to_owned(), stored.unwrap_or(NOBODYS_HASH).to_owned());
        let fits = self
            .in_turn(move || {
                let parsed = PasswordHash::new(&hash).map_err(hashing)?;
                // The cost is that of the stored hash, which an earlier or a later version may have chosen otherwise.
                match Argon2::default().verify_password(secret.as_bytes(), &parsed) {
                    Ok(()) => Ok(true),
                    Err(argon2::password_hash::Error::Password) => Ok(false),
                    Err(error) => Err(hashing(error)),
                }
            })
            .await?;
        let right = fits && stored.is_some();
        if right {
            self.remember(tag);
        }
        Ok(right)
    }

    fn tag(&self, name: &str, password: &str, stored: &str) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [name, password, stored] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }

    fn remembers(&self, tag: &[u8; 32]) -> bool {
        self.remembered.lock().get(tag).is_some_and(|since| since.elapsed() < REMEMBERED)
    }

    fn remember(&self, tag: [u8; 32]) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, since| since.elapsed() < REMEMBERED);
        }
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(tag, Instant::now());
    }

    /// Does slow work outside of the threads that serve connections, with a bounded number of tasks at once.
    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waiting = Waiting::enter(&self.waiting)?;
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.expect("the semaphore is never closed");
        drop(waiting);
        let done = tokio::task::spawn_blocking(move || {
            // Held until the work is done, even if nobody waits for it any more.
            let _turn = turn;
            work()
        });
        done.await.map_err(|_| Error::new(ErrorKind::Cancelled, "hashing a password was broken off"))?
    }
}

/// Counts the waiting tasks.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Result<Self> {
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        let entered = Self(waiting);
        match before < WAITING_MAX {
            true => Ok(entered),
            false => Err(Error::retry("too many log-ins at once: try again soon")),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn hasher() -> Result<Argon2<'static>> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None)
        .map_err(|error| Error::invalid(format!("costs of passwords: {error}")))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hashing(error: argon2::password_hash::Error) -> Error {
    Error::new(ErrorKind::Corrupt, format!("hash of a password: {error}"))
}

fn no_randomness() -> Error {
    Error::new(ErrorKind::Io, "the operating system gives no random numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn correct_passwords_are_cached_until_they_change() {
        let passwords = Passwords::new().unwrap();
        let hash = passwords.hash("secret").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && !hash.contains("secret"));
        assert!(passwords.verify("ann", "secret", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("ann", "wrong", Some(&hash)).await.unwrap());
        assert!(!passwords.verify("ann", "secret", None).await.unwrap());
        assert_eq!(passwords.remembered.lock().len(), 1);
        assert!(passwords.remembers(&passwords.tag("ann", "secret", &hash)));
        // The cache matches neither another name, nor another split of name and password, nor another stored hash.
        assert!(!passwords.remembers(&passwords.tag("bob", "secret", &hash)));
        assert!(!passwords.remembers(&passwords.tag("annsec", "ret", &hash)));
        let other = passwords.hash("secret").await.unwrap();
        assert_ne!(other, hash, "salted");
        assert!(!passwords.remembers(&passwords.tag("ann", "secret", &other)));
        assert!(
            !passwords.verify("ann", "secret", Some(&passwords.hash("new").await.unwrap())).await.unwrap()
        );
    }

    #[tokio::test]
    async fn verification_of_unknown_users_takes_as_long() {
        let parsed = PasswordHash::new(NOBODYS_HASH).unwrap();
        let params = Params::try_from(&parsed).unwrap();
        assert_eq!((params.m_cost(), params.t_cost(), params.p_cost()), (MEMORY_KIB, PASSES, LANES));
        assert_eq!(parsed.hash.unwrap().len(), 32);
    }

    #[tokio::test]
    async fn too_many_log_ins_are_rejected() {
        let passwords = Passwords::new().unwrap();
        passwords.waiting.store(WAITING_MAX, Ordering::Relaxed);
        let refused = passwords.verify("ann", "secret", None).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Retry);
    }
}
