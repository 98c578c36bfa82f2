//! Who a client is.
//!
//! Each call has a header `authorization`, as requests of HTTP have: a name and password (`Basic`), or a token that was
//! signed with the shared secret (`Bearer`). A client may also send name and password once, in a handshake, and gets a token of
//! this server, which holds until the password is changed, the user is dropped, or the server restarts, at most for
//! [`TOKEN_SECONDS`]. Nothing is kept of such a token: it says whose it is, and is signed with a key that only this process
//! knows and with what changes with the password.

use crate::caller::Caller;
use crate::shared::{Ready, Refused, Server};
use base64ct::{Base64UrlUnpadded, Encoding};
use hyper::header::{AUTHORIZATION, HeaderMap};
use nyala_db::users::{Principal, User};
use ring::hmac;
use ring::rand::SystemRandom;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonic::Status;

/// How long a token holds: a week.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;
/// What tokens of this server begin with.
const PREFIX: &str = "nyala.";
/// A longer token is none of ours: names of users are shorter.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Makes and checks tokens.
pub(crate) struct Tokens(hmac::Key);

impl Tokens {
    pub(crate) fn new() -> io::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.map(Self).map_err(|_| io::Error::other("the operating system gives no random numbers"))
    }

    /// A token of a user: `nyala.NAME.EXPIRY.SIGNATURE`.
    fn token(&self, user: &User, now_ns: i64) -> String {
        let name = Base64UrlUnpadded::encode_string(user.name().as_bytes());
        let head = format!("{PREFIX}{name}.{}", now_ns / 1_000_000_000 + TOKEN_SECONDS);
        let signature = hmac::sign(&self.0, &signed(&head, user));
        format!("{head}.{}", Base64UrlUnpadded::encode_string(signature.as_ref()))
    }

    /// The user of a token; `None` if it is not valid.
    fn user(
        &self,
        token: &str,
        now_ns: i64,
        find: impl FnOnce(&str) -> Option<Arc<User>>,
    ) -> Option<Arc<User>> {
        let (head, signature) = token.rsplit_once('.').filter(|_| token.len() <= TOKEN_BYTES_MAX)?;
        let (name, expiry) = head.strip_prefix(PREFIX)?.split_once('.')?;
        let name = String::from_utf8(Base64UrlUnpadded::decode_vec(name).ok()?).ok()?;
        let user = find(&name)?;
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

impl Server {
    /// The sender of a call.
    pub(crate) async fn caller(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Caller, Status> {
        Caller::of(self.principal(headers, client).await?, headers)
    }

    async fn principal(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Principal, Status> {
        let ready = self.opened()?;
        if let Some(token) = bearer(headers).filter(|token| ready.needs_log_in && token.starts_with(PREFIX)) {
            let find = |name: &str| ready.sql.catalog.users().existing(name).ok();
            return match self.tokens.user(token, ready.sql.clock.now_ns(), find) {
                Some(user) => Ok(Principal::User(user)),
                None => {
                    let words = "the token is not valid any more: log in again".to_owned();
                    let user = "the user of a token".to_owned();
                    Err(self.refuse(&Refused { words, user, is_retried: false }, client))
                }
            };
        }
        let found = (ready.authenticate)(headers.clone()).await;
        found.map_err(|refused| self.refuse(&refused, client))
    }

    fn refuse(&self, refused: &Refused, client: Option<IpAddr>) -> Status {
        if refused.is_retried {
            return Status::unavailable(refused.words.as_str());
        }
        self.counts.failed_log_ins.fetch_add(1, Ordering::Relaxed);
        (self.surroundings.log_in_failed)(&refused.user, client);
        Status::unauthenticated(refused.words.as_str())
    }

    /// Logs a client in that sends name and password; the token for its further calls.
    ///
    /// Without authentication the token says nothing, but clients expect one.
    pub(crate) async fn log_in(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<String, Status> {
        let principal = self.principal(headers, client).await?;
        let Ready { sql, .. } = self.opened()?;
        Ok(match &principal {
            Principal::User(user) => self.tokens.token(user, sql.clock.now_ns()),
            Principal::Open | Principal::FirstAdmin => "nyala".to_owned(),
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}
