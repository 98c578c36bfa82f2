//! Tokens of this server, which say whose they are and are signed.

use base64ct::{Base64UrlUnpadded, Encoding};
use nyala_db::users::User;
use ring::hmac;
use ring::rand::SystemRandom;
use std::io;
use std::sync::Arc;

/// How long a token holds: a week.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;
/// What tokens of this server begin with.
pub(crate) const PREFIX: &str = "nyala.";
/// A longer token is none of ours: names of users are shorter.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Makes and checks tokens.
pub(crate) struct Tokens(hmac::Key);

impl Tokens {
    pub(crate) fn new() -> io::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.map(Self).map_err(|_| io::Error::other("the operating system gives no random numbers"))
    }

    /// A token of a user: `nyala.NAME.EXPIRY.SIGNATURE`. If it has logged in by a token of the catalog, the name of that follows
    /// its own, so that this one allows no more and ends with it.
    pub(crate) fn token(&self, user: &User, now_ns: i64) -> String {
        let mut name = Base64UrlUnpadded::encode_string(user.name().as_bytes());
        if let Some(token) = user.token_name() {
            name = format!("{name}~{}", Base64UrlUnpadded::encode_string(token.as_bytes()));
        }
        let head = format!("{PREFIX}{name}.{}", now_ns / 1_000_000_000 + TOKEN_SECONDS);
        let signature = hmac::sign(&self.0, &signed(&head, user));
        format!("{head}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
    }

    /// The user of a token; `None` if it is not valid.
    pub(crate) fn user(
        &self,
        token: &str,
        now_ns: i64,
        find: impl FnOnce(&str, Option<&str>) -> Option<Arc<User>>,
    ) -> Option<Arc<User>> {
        let (head, signature) = token.rsplit_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX)?;
        let (name, expiry) = head.strip_prefix(PREFIX)?.split_once('.')?;
        let text = |encoded: &str| String::from_utf8(Base64UrlUnpadded::decode_vec(encoded).ok()?).ok();
        let (name, by_token) = match name.split_once('~') {
            Some((name, token)) => (name, Some(text(token)?)),
            None => (name, None),
        };
        let user = find(&text(name)?, by_token.as_deref())?;
        let signature = Base64UrlUnpadded::decode_vec(signature).ok()?;
        hmac::verify(&self.0, &signed(head, &user), &signature).ok()?;
        // It is not trusted before this line.
        (now_ns / 1_000_000_000 < expiry.parse::<i64>().ok()?).then_some(user)
    }
}

/// What a token signs: what it says, and the password that its user has.
fn signed(head: &str, user: &User) -> Vec<u8> {
    [head.as_bytes(), b"\0", user.password_mark()].concat()
}
