//! What SCRAM-SHA-256 (RFC 5802, RFC 7677) needs of a user: a verifier of the password, made when the password is set.
//!
//! The stored Argon2id hash cannot be converted into one. Who steals a verifier can guess passwords against it at the speed
//! of its iterations of SHA-256, which is far faster than against Argon2id, so an operator must ask for verifiers. They are
//! written as PostgreSQL writes them: `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.

use base64ct::{Base64, Encoding};
use nyala_core::{Error, ErrorKind, Result};
use ring::digest::{SHA256, digest};
use ring::hmac::{self, HMAC_SHA256};
use ring::pbkdf2;
use std::num::NonZeroU32;

const NAME: &str = "SCRAM-SHA-256";
/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// Bytes of a salt, as in PostgreSQL.
pub(super) const SALT_BYTES: usize = 16;

/// Verifies a password without it being sent.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    iterations: u32,
    salt: Vec<u8>,
    /// A hash of the key that a client proves to have.
    stored_key: [u8; HASH_BYTES],
    /// The key by which the server proves that it knows the password.
    server_key: [u8; HASH_BYTES],
}

impl ScramVerifier {
    /// Makes the verifier of a password; slow on purpose.
    pub(super) fn of_password(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        // A password that the profile prohibits is used as it is, as in PostgreSQL.
        let prepared = stringprep::saslprep(password).map_or(password.into(), |prepared| prepared);
        let mut salted = [0; HASH_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, prepared.as_bytes(), &mut salted);
        let client_key = keyed_hash(&salted, b"Client Key");
        let stored_key = hash(&client_key);
        let server_key = keyed_hash(&salted, b"Server Key");
        Self { iterations: iterations.get(), salt, stored_key, server_key }
    }

    /// The verifier of no password, for a user who does not exist: always the same for the same name, so that nobody can
    /// tell by it.
    pub(super) fn of_nobody(name: &str, secret: &[u8], iterations: u32) -> Self {
        let salt = keyed_hash(secret, name.as_bytes())[..SALT_BYTES].to_vec();
        Self { iterations, salt, stored_key: [0; HASH_BYTES], server_key: [0; HASH_BYTES] }
    }

    /// Reads what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// Corrupt, if that is none.
    pub fn read(text: &str) -> Result<Self> {
        let read = || {
            let (iterations, rest) = text.strip_prefix(NAME)?.strip_prefix('$')?.split_once(':')?;
            let (salt, keys) = rest.split_once('$')?;
            let (stored_key, server_key) = keys.split_once(':')?;
            let key = |text: &str| Base64::decode_vec(text).ok()?.try_into().ok();
            Some(Self {
                iterations: iterations.parse().ok()?,
                salt: Base64::decode_vec(salt).ok()?,
                stored_key: key(stored_key)?,
                server_key: key(server_key)?,
            })
        };
        // The text is a secret.
        read().ok_or_else(|| Error::new(ErrorKind::Corrupt, "a SCRAM verifier is malformed"))
    }

    pub(super) fn to_text(&self) -> String {
        let encoded = Base64::encode_string;
        let (salt, stored, server) =
            (encoded(&self.salt), encoded(&self.stored_key), encoded(&self.server_key));
        format!("{NAME}${}:{salt}${stored}:{server}", self.iterations)
    }

    /// How many times the password is hashed.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// What is hashed with the password.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// Checks a client's proof over the messages of a log-in, and returns the server's signature over them; `None` if the
    /// client does not know the password.
    pub fn check(&self, messages: &[u8], proof: &[u8]) -> Option<[u8; HASH_BYTES]> {
        let signature = keyed_hash(&self.stored_key, messages);
        let client_key: Vec<u8> = signature.iter().zip(proof).map(|(one, other)| one ^ other).collect();
        // Hashed with a key that clients do not know, so that the time of the comparison tells nothing.
        let keyed = |key: &[u8; HASH_BYTES]| keyed_hash(&self.server_key, key);
        let is_right = proof.len() == HASH_BYTES && keyed(&hash(&client_key)) == keyed(&self.stored_key);
        is_right.then(|| keyed_hash(&self.server_key, messages))
    }
}

pub(super) fn keyed_hash(key: &[u8], message: &[u8]) -> [u8; HASH_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), message);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hash(message: &[u8]) -> [u8; HASH_BYTES] {
    digest(&SHA256, message).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_standard_is_verified() {
        let salt = Base64::decode_vec("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = ScramVerifier::of_password("pencil", salt, NonZeroU32::new(4096).unwrap());
        let messages = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                        r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                        c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = Base64::decode_vec("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let signature = verifier.check(messages.as_bytes(), &proof).expect("the proof is right");
        assert_eq!(Base64::encode_string(&signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert!(verifier.check(b"other", &proof).is_none());
        assert!(verifier.check(messages.as_bytes(), &proof[..31]).is_none());
        assert!(ScramVerifier::read(&verifier.to_text()).unwrap() == verifier);
    }

    /// What a PostgreSQL 15.18 stored for the password "I\u{ad}X", which is prepared to "IX".
    #[test]
    fn a_verifier_is_that_of_postgresql() {
        let stored = "SCRAM-SHA-256$4096:5qOoq0vt6+Fg/AT3HqmDsQ==$HR6Hh5ba5teeVU1yme7rtCk6iCvecBpiCLDkMgrYIzw=:L5OGH/iaD/s8Mfrg6tZIjoYalS9PafnssFFEQi9qCQA=";
        let read = ScramVerifier::read(stored).unwrap();
        let made = ScramVerifier::of_password("I\u{ad}X", read.salt.clone(), NonZeroU32::new(4096).unwrap());
        assert_eq!(made.to_text(), stored);
    }

    #[test]
    fn nobody_has_the_same_salt_each_time_and_no_password() {
        let [one, other] = [0, 1].map(|_| ScramVerifier::of_nobody("ann", b"secret", 4096));
        assert!(one == other && one.salt.len() == SALT_BYTES);
        assert!(ScramVerifier::of_nobody("bob", b"secret", 4096).salt != one.salt);
        assert!(one.check(b"messages", &[0; 32]).is_none());
    }
}
