//! Who a client is.
//!
//! Each call has a header `authorization`, as requests of HTTP have: a name and password (`Basic`), or a token of the catalog or
//! one that was signed with the shared secret (`Bearer`). A client may also send name and password once, in a handshake, and gets a token of
//! this server, which holds until the password is changed, the user is dropped, or the server restarts, at most for
//! a week. Nothing is kept of such a token: it says whose it is, and is signed with a key that only this process
//! knows and with what changes with the password.

use crate::caller::Caller;
use crate::session_tokens::PREFIX;
use crate::shared::{Ready, Refused, Server, Why};
use hyper::header::{AUTHORIZATION, HeaderMap};
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_db::users::Principal;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use tonic::Status;

impl Server {
    /// The sender of a call.
    pub(crate) async fn caller(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Caller, Status> {
        Caller::of(self.principal(headers, client).await?, headers, client)
    }

    async fn principal(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Principal, Status> {
        let ready = self.opened()?;
        if let Some(token) = bearer(headers).filter(|token| ready.needs_log_in && token.starts_with(PREFIX)) {
            let now_ns = ready.sql.clock.now_ns();
            let find =
                |name: &str, by_token: Option<&str>| ready.sql.catalog.users().found(name, by_token, now_ns);
            return match self.tokens.user(token, now_ns, find) {
                Some(user) => Ok(Principal::User(user)),
                None => {
                    let words = "the token is not valid any more: log in again".to_owned();
                    let user = "the user of a token".to_owned();
                    Err(self.refuse(&Refused { words, user, why: Why::Unknown }, client))
                }
            };
        }
        let found = (ready.authenticate)(headers.clone(), client).await;
        found.map_err(|refused| self.refuse(&refused, client))
    }

    fn refuse(&self, refused: &Refused, client: Option<IpAddr>) -> Status {
        match refused.why {
            Why::Unknown => {}
            Why::TooOften => {
                if let Ok(Ready { sql, .. }) = self.opened() {
                    sql.note_denied(
                        Some(&refused.user),
                        RemoteClient::of(client, ClientProtocol::Flight),
                        "",
                        "log-in",
                        &refused.words,
                    );
                }
                return Status::resource_exhausted(refused.words.as_str());
            }
            Why::NotNow => return Status::unavailable(refused.words.as_str()),
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
