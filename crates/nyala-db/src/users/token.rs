//! Tokens: secrets that a machine made, by which programs log in as a user without knowing its password.
//!
//! A secret is 256 bits of the system's random source. Only its SHA-256 is stored. That is enough, unlike for passwords: nobody
//! can try all secrets, so hashing slowly would protect nothing, and would cost every request. For the same reason a secret is
//! found by its hash in a map: what the time of that tells of a hash does not help to find a secret that has it.

use super::privilege::Privilege;
use base64ct::{Base64, Base64UrlUnpadded, Encoding};
use nyala_core::{Error, ErrorKind, Result};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What every secret begins with, so that people and programs that look for leaked secrets recognize it.
pub const TOKEN_PREFIX: &str = "nyala_";
const SECRET_BYTES: usize = 32;
/// The letters that 32 bytes are in base64 without padding, and the prefix.
const SECRET_LETTERS: usize = TOKEN_PREFIX.len() + 43;
/// The most tokens of a user ...
pub(super) const TOKENS_MAX: usize = 64;
/// ... and the most bytes of a user's record: a cell of Kudu may have 64 KiB.
pub(super) const RECORD_BYTES_MAX: usize = 60 << 10;

/// The hash of a secret, in base64.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TokenHash(String);

impl TokenHash {
    /// The hash of a text that may be a secret: `None` if it has not its form.
    pub(super) fn of(secret: &str) -> Option<Self> {
        let letters = secret.strip_prefix(TOKEN_PREFIX).filter(|_| secret.len() == SECRET_LETTERS)?;
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let hash = digest(&SHA256, secret.as_bytes());
        letters.as_bytes().iter().all(is_letter).then(|| Self(Base64::encode_string(hash.as_ref())))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A token without its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    name: String,
    hash: TokenHash,
    /// The most that it allows, by database; without it, what its user may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<BTreeMap<String, Privilege>>,
    created_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_ns: Option<i64>,
}

/// What a new token is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Its name, which no other token has.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// The most that it allows, by database; empty: all that its user may do.
    pub scope: Vec<(String, Privilege)>,
    /// When it was asked for, ns.
    pub created_ns: i64,
    /// From when on it is not valid, ns.
    pub expires_ns: Option<i64>,
}

/// A token as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenListing {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// What it allows, in words.
    pub scope: String,
    /// When it was created, ns.
    pub created_ns: i64,
    /// From when on it is not valid, ns.
    pub expires_ns: Option<i64>,
    /// When this server last let somebody in by it, ns.
    pub used_ns: Option<i64>,
}

impl Token {
    /// A new token, and its secret: nobody can find that again.
    pub(super) fn new(new: &NewToken) -> Result<(Self, String)> {
        if new.name.is_empty() || new.name.len() > 128 || new.name.chars().any(char::is_control) {
            return Err(Error::invalid("the name of a token has 1 to 128 bytes, and no control characters"));
        }
        if new.expires_ns.is_some_and(|expires_ns| expires_ns <= new.created_ns) {
            return Err(Error::invalid("a token must expire in the future"));
        }
        let mut bytes = [0; SECRET_BYTES];
        let no_randomness = |_| Error::new(ErrorKind::Io, "the operating system gives no random numbers");
        SystemRandom::new().fill(&mut bytes).map_err(no_randomness)?;
        let secret = format!("{TOKEN_PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes));
        let hash = TokenHash::of(&secret).expect("secrets have this form");
        let mut scope = BTreeMap::new();
        for (database, privilege) in &new.scope {
            if scope.insert(database.clone(), *privilege).is_some() {
                return Err(Error::invalid(format!("the token names database {database:?} twice")));
            }
        }
        let scope = (!scope.is_empty()).then_some(scope);
        let (created_ns, expires_ns) = (new.created_ns, new.expires_ns);
        Ok((Self { name: new.name.clone(), hash, scope, created_ns, expires_ns }, secret))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn hash(&self) -> &TokenHash {
        &self.hash
    }

    pub(super) fn scope(&self) -> Option<&BTreeMap<String, Privilege>> {
        self.scope.as_ref()
    }

    /// It has no rights any more on a database that is about to be dropped. An empty scope allows nothing.
    pub(super) fn forget_database(&mut self, database: &str) {
        if let Some(scope) = &mut self.scope {
            scope.remove(database);
        }
    }

    pub(super) fn expires_ns(&self) -> Option<i64> {
        self.expires_ns
    }

    pub(super) fn listing(&self, user: &str, used_ns: Option<i64>) -> TokenListing {
        let one =
            |(database, privilege): (&String, &Privilege)| format!("{} ON {database:?}", privilege.name());
        let scope = match &self.scope {
            None => "whatever its user may do".to_owned(),
            Some(scope) if scope.is_empty() => "nothing".to_owned(),
            Some(scope) => scope.iter().map(one).collect::<Vec<_>>().join(", "),
        };
        TokenListing {
            name: self.name.clone(),
            user: user.to_owned(),
            scope,
            created_ns: self.created_ns,
            expires_ns: self.expires_ns,
            used_ns,
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_token(scope: &[(&str, Privilege)]) -> NewToken {
        let scope = scope.iter().map(|(name, privilege)| ((*name).to_owned(), *privilege)).collect();
        NewToken { name: "ci".into(), user: "ann".into(), scope, created_ns: 5, expires_ns: Some(9) }
    }

    #[test]
    fn a_secret_is_random_and_only_its_hash_is_stored() {
        let (token, secret) = Token::new(&new_token(&[])).unwrap();
        let (_, other) = Token::new(&new_token(&[])).unwrap();
        assert!(secret != other && secret.len() == SECRET_LETTERS && secret.starts_with(TOKEN_PREFIX));
        assert!(TokenHash::of(&secret) == Some(token.hash.clone()));
        let stored = serde_json::to_string(&token).unwrap();
        assert!(!stored.contains(&secret) && !format!("{token:?}").contains(&token.hash.0));
        assert!(serde_json::from_str::<Token>(&stored).unwrap() == token);
        for wrong in ["", "nyala_", "secret", &secret[1..], &format!("{secret}A"), &secret.replace('_', ".")]
        {
            assert!(TokenHash::of(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(Token::new(&NewToken { expires_ns: Some(5), ..new_token(&[]) }).is_err());
        assert!(Token::new(&NewToken { name: String::new(), ..new_token(&[]) }).is_err());
        assert!(Token::new(&NewToken { name: "a\nb".into(), ..new_token(&[]) }).is_err());
        assert!(Token::new(&new_token(&[("d", Privilege::Read), ("d", Privilege::All)])).is_err());
    }
}
