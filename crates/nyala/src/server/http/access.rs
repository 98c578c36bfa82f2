//! Authentication: reads credentials from URL and headers of a request and checks them against the users of the
//! catalog.
//!
//! As in InfluxDB, a client can log in with `u` and `p` in the URL, or in `Authorization` with a `Bearer` token signed
//! with the shared secret (`token`), with `Token user:password`, or with Basic. A token of the catalog stands after `Token` or
//! `Bearer`, or in place of its user's password. Before there is an administrator, nobody can log in, and a request can only
//! create the first one.

mod jwt;

pub use jwt::SharedSecret;

use super::Context;
use super::params::Params;
use super::response::{Failure, failure, retried_after, status_of};
use base64ct::{Base64, Base64Unpadded, Encoding};
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use nyala_core::Error;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_db::users::{Principal, Privilege, TOKEN_PREFIX, Users};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// What is said to somebody while there is no administrator.
const NO_ADMINISTRATOR: &str = "create admin user first or disable authentication";

/// Whether clients must log in, and how.
#[derive(Debug, Clone)]
pub enum Access {
    /// No authentication.
    Open,
    /// Clients log in as users.
    Users {
        /// The secret that bearer tokens are signed with; without it they are refused.
        secret: Option<SharedSecret>,
    },
}

/// The credentials of a request.
enum Credentials {
    Password { name: String, password: String },
    Bearer(String),
    Token(String),
}

/// What is known of a client that has to log in, kept with its request.
#[derive(Debug, Clone)]
struct Client {
    /// A client of the Unix socket has none.
    address: Option<IpAddr>,
    /// Who it is, once that is known, for an audit log.
    user: Arc<OnceLock<String>>,
}

/// Notes the address of a client with its request, if it has to log in.
pub(super) fn mark<B>(access: &Access, request: &mut Request<B>, address: Option<IpAddr>) {
    if matches!(access, Access::Users { .. }) {
        request.extensions_mut().insert(Client { address, user: Arc::default() });
    }
}

/// Why a sender is not who it says: words, and the status of an answer with them.
pub(in crate::server) struct Refusal {
    pub(in crate::server) status: StatusCode,
    pub(in crate::server) words: String,
    retry_after_seconds: Option<u32>,
}

/// The sender of a request, or 401.
pub(super) async fn authenticate(
    context: &Context,
    of_url: &Params,
    head: &Parts,
) -> Result<Principal, Failure> {
    let Access::Users { .. } = &context.access else { return Ok(Principal::Open) };
    let users = context.databases()?.catalog.users();
    let client = head.extensions.get::<Client>();
    let address = client.and_then(|client| client.address);
    let sender = RemoteClient::of(address, ClientProtocol::Http);
    let found = principal(context, users, credentials(of_url, &head.headers), sender).await;
    if let (Ok(Principal::User(user)), Some(client), true) = (&found, client, context.audit.has_file()) {
        client.user.get_or_init(|| user.name().to_owned());
    }
    found.map_err(|Refusal { status, words, retry_after_seconds }| {
        retried_after(failure(status, words), retry_after_seconds)
    })
}

/// The sender of a call of another protocol, by the same header.
#[cfg(feature = "sql")]
pub(in crate::server) async fn authenticate_call(
    context: &Context,
    users: &Users,
    headers: &HeaderMap,
    client: Option<IpAddr>,
) -> Result<Principal, Refusal> {
    let sender = RemoteClient::of(client, ClientProtocol::Flight);
    match principal(context, users, credentials(&Params::default(), headers), sender).await? {
        // It is created over HTTP.
        Principal::FirstAdmin => Err(refused(NO_ADMINISTRATOR)),
        found => Ok(found),
    }
}

/// The user that a call of another protocol names.
#[cfg(feature = "sql")]
pub(in crate::server) fn claimed_by_call(headers: &HeaderMap) -> Option<String> {
    credentials(&Params::default(), headers).map(name_of)
}

async fn principal(
    context: &Context,
    users: &Users,
    given: Option<Credentials>,
    client: RemoteClient,
) -> Result<Principal, Refusal> {
    let Access::Users { secret } = &context.access else { return Ok(Principal::Open) };
    if !users.has_admin() {
        return Ok(Principal::FirstAdmin);
    }
    let user = match given.ok_or_else(|| refused("unable to parse authentication credentials"))? {
        Credentials::Password { name, .. } if name.is_empty() => return Err(refused("username required")),
        Credentials::Password { name, password } => {
            let user = users.log_in(&name, &password, client.address, context.clock.now_ns()).await;
            user.map_err(failed)?.ok_or_else(|| refused("authorization failed"))?
        }
        Credentials::Token(secret) => {
            let user = users.log_in_by_token(&secret, client.address, context.clock.now_ns()).await;
            user.map_err(failed)?.ok_or_else(|| refused("the token is unknown, or not valid any more"))?
        }
        Credentials::Bearer(token) => {
            let secret = secret.as_ref().ok_or_else(|| refused("bearer auth disabled"))?;
            let name = secret.user_of(&token, context.clock.now_ns()).map_err(refused)?;
            users.existing(&name).map_err(|error| refused(error.message()))?
        }
    };
    let principal = Principal::User(user);
    if let Some(name) = context.audit.has_file().then(|| principal.login_name()).flatten() {
        context.audit.logged_in(&name, client);
    }
    Ok(principal)
}

/// Who asks, and the parameters of the URL. Refuses a request of a user who is no administrator.
pub(super) async fn administrator(context: &Context, head: &Parts) -> Result<(Principal, Params), Failure> {
    let of_url = Params::parse(head.uri.query().unwrap_or(""));
    let principal = authenticate(context, &of_url, head).await?;
    require_admin(&principal)?;
    Ok((principal, of_url))
}

/// Refuses a request of a user who is no administrator.
pub(super) async fn check_admin(context: &Context, head: &Parts) -> Result<(), Failure> {
    administrator(context, head).await.map(drop)
}

/// Refuses a user who is no administrator.
pub(super) fn require_admin(principal: &Principal) -> Result<(), Failure> {
    match principal {
        principal if principal.is_admin() => Ok(()),
        Principal::FirstAdmin => Err(failure(StatusCode::FORBIDDEN, NO_ADMINISTRATOR)),
        _ => Err(failure(StatusCode::FORBIDDEN, "error authorizing admin access")),
    }
}

/// Refuses somebody unknown, while there is no administrator. SQL answers users without any right, too, but with nothing of the data.
#[cfg(feature = "sql")]
pub(super) fn require_administrator_to_exist(principal: &Principal) -> Result<(), Failure> {
    match principal {
        Principal::FirstAdmin => Err(failure(StatusCode::FORBIDDEN, NO_ADMINISTRATOR)),
        _ => Ok(()),
    }
}

/// Refuses a user who may not write to a database.
pub(super) fn check_write(principal: &Principal, database: &str) -> Result<(), Failure> {
    check(principal, Privilege::Write, "write to", database)
}

/// Refuses a user who may not read a database.
pub(super) fn check_read(principal: &Principal, database: &str) -> Result<(), Failure> {
    check(principal, Privilege::Read, "read", database)
}

fn check(principal: &Principal, privilege: Privilege, verb: &str, database: &str) -> Result<(), Failure> {
    if principal.may(privilege, database) {
        return Ok(());
    }
    let database = nyala_db::quoted(database);
    let words = match principal {
        Principal::User(user) => {
            format!("{} user is not authorized to {verb} database {database}", nyala_db::quoted(user.name()))
        }
        _ => format!("user is required to {verb} database {database}"),
    };
    Err(failure(StatusCode::FORBIDDEN, words))
}

/// Who has sent a request, for the log: the user who has logged in, or the one that its credentials name.
pub(super) fn sender(head: &Parts) -> Option<String> {
    let known = head.extensions.get::<Client>().and_then(|client| client.user.get().cloned());
    known.or_else(|| claimed(head))
}

/// The user that a request names in its credentials, for the log.
pub(super) fn claimed(head: &Parts) -> Option<String> {
    let of_url = Params::parse(head.uri.query().unwrap_or(""));
    credentials(&of_url, &head.headers).map(name_of)
}

fn name_of(given: Credentials) -> String {
    match given {
        Credentials::Password { name, .. } => name,
        Credentials::Bearer(_) => "the user of a bearer token".to_owned(),
        Credentials::Token(_) => "the user of a token".to_owned(),
    }
}

fn refused(words: impl Into<String>) -> Refusal {
    Refusal { status: StatusCode::UNAUTHORIZED, words: words.into(), retry_after_seconds: None }
}

fn failed(error: Error) -> Refusal {
    let retry_after_seconds = error.retry_after_seconds();
    Refusal { status: status_of(&error), words: error.message().to_owned(), retry_after_seconds }
}

fn credentials(of_url: &Params, headers: &HeaderMap) -> Option<Credentials> {
    let (name, password) = (of_url.get("u"), of_url.get("p"));
    if !name.is_empty() && !password.is_empty() {
        return Some(Credentials::Password { name: name.into(), password: password.into() });
    }
    let header = headers.get(AUTHORIZATION)?.as_bytes();
    // Only Basic credentials may hold bytes that are not UTF-8, and those are in base64.
    let text = std::str::from_utf8(header).ok()?;
    let (scheme, rest) = text.split_once(' ')?;
    match scheme {
        "Bearer" | "Token" if rest.starts_with(TOKEN_PREFIX) && !rest.contains([' ', ':']) => {
            Some(Credentials::Token(rest.into()))
        }
        "Bearer" if !rest.contains(' ') => Some(Credentials::Bearer(rest.into())),
        "Token" if !rest.contains(' ') => password_of(rest),
        _ if scheme.eq_ignore_ascii_case("basic") => {
            let bytes = Base64::decode_vec(rest).or_else(|_| Base64Unpadded::decode_vec(rest)).ok()?;
            password_of(&String::from_utf8(bytes).ok()?)
        }
        _ => None,
    }
}

/// Splits at the first colon: passwords may hold colons, names may not.
fn password_of(text: &str) -> Option<Credentials> {
    let (name, password) = text.split_once(':')?;
    Some(Credentials::Password { name: name.into(), password: password.into() })
}
