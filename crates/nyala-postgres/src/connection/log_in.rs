//! From the names of user and database to a session that waits for its first statement.

use super::Connection;
use super::wire::{Unread, Wire};
use crate::authentication::scram::{Exchange, MECHANISM, NONCE_BYTES};
use crate::authentication::{self, Method};
use crate::error::Failure;
use crate::message::backend::{self, Authentication, Severity};
use crate::message::startup::settings_of;
use crate::shared::Server;
use crate::value::parameter::utf8;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_db::users::{Principal, Privilege, ScramVerifier};
use nyala_sql::{Session, SqlServer};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The database that every server has: clients that only look around connect to it.
const MAINTENANCE_DATABASE: &str = "postgres";

/// What a client asked for when it connected.
pub(crate) struct Asked {
    /// Whether it knows a later version of the protocol.
    pub(crate) is_newer: bool,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) client: Option<IpAddr>,
    /// Nobody can listen to the connection.
    pub(crate) is_private: bool,
}

impl Asked {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// What the audit log calls the client.
    fn client(&self) -> RemoteClient {
        RemoteClient::of(self.client, ClientProtocol::Postgres)
    }
}

/// Why there will be no session.
enum Ended {
    Closed,
    Refused(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Ended::Refused(failure)
    }
}

impl From<Unread> for Ended {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Closed => Ended::Closed,
            Unread::Fatal(failure) | Unread::Skipped(_, failure) => Ended::Refused(failure),
        }
    }
}

/// What the audit log calls it.
const LOG_IN: &str = "log-in";

/// Logs a client in and opens its session; `None` if it was refused.
pub(crate) async fn log_in(
    server: Arc<Server>,
    mut wire: Wire,
    asked: Asked,
) -> io::Result<Option<Box<Connection>>> {
    match open(&server, &mut wire, &asked).await {
        Ok(mut session) => {
            let key = server.cancels.enter(session.cancel_handle());
            let key = key.ok_or_else(|| io::Error::other("the operating system gives no random numbers"))?;
            // A token says whose it is.
            let asked_for = asked.parameter("user").unwrap_or_default();
            let user = session.principal().user_name().unwrap_or(asked_for).to_owned();
            session.identify(&user, key.number);
            Ok(Some(Box::new(Connection::new(server, wire, session, key, &user))))
        }
        Err(Ended::Closed) => Ok(None),
        Err(Ended::Refused(failure)) => {
            backend::failure(&mut wire.output, Severity::Fatal, &failure);
            wire.close().await;
            Ok(None)
        }
    }
}

async fn open(server: &Arc<Server>, wire: &mut Wire, asked: &Asked) -> Result<Session, Ended> {
    let extensions: Vec<&str> =
        asked.parameters.iter().map(|(name, _)| &**name).filter(|name| name.starts_with("_pq_.")).collect();
    if asked.is_newer || !extensions.is_empty() {
        backend::negotiate_version(&mut wire.output, &extensions);
    }
    let user = asked.parameter("user").filter(|user| !user.is_empty());
    let user =
        user.ok_or_else(|| Failure::new("28000", "no PostgreSQL user name specified in startup packet"))?;
    let sql = server.sql()?.clone();
    let principal = match principal(server, wire, asked, &sql, user).await {
        Err(Ended::Refused(failure)) => {
            if failure.code.starts_with("28") {
                server.counts.failed_log_ins.fetch_add(1, Ordering::Relaxed);
                (server.surroundings.log_in_failed)(user, asked.client);
            } else {
                sql.note_denied(Some(user), asked.client(), "", LOG_IN, &failure.message);
            }
            return Err(failure.into());
        }
        other => other?,
    };
    if let Some(name) = principal.login_name() {
        (server.surroundings.logged_in)(&name, asked.client);
    }
    backend::authentication(&mut wire.output, &Authentication::Ok);
    let database = asked.parameter("database").filter(|database| !database.is_empty()).unwrap_or(user);
    let exists = sql.catalog.database(database).is_some();
    if !exists && database != MAINTENANCE_DATABASE {
        let failure = Failure::new("3D000", format!("database \"{database}\" does not exist"));
        let hint = format!("The database \"{MAINTENANCE_DATABASE}\" always exists.");
        return Err(failure.with_hint(hint).into());
    }
    let may = |privilege| principal.may(privilege, database);
    if exists && !may(Privilege::Read) && !may(Privilege::Write) {
        let words = format!("permission denied for database \"{database}\"");
        sql.note_denied(principal.user_name(), asked.client(), database, LOG_IN, &words);
        return Err(Failure::new("42501", words).into());
    }
    let mut session = Session::open(sql, principal, database).from_client(asked.client());
    apply_settings(&mut session, asked, &mut wire.output)?;
    Ok(session)
}

/// Who the client is.
async fn principal(
    server: &Server,
    wire: &mut Wire,
    asked: &Asked,
    sql: &SqlServer,
    user: &str,
) -> Result<Principal, Ended> {
    let users = sql.catalog.users();
    match authentication::method_of(users, server.settings.needs_log_in, user, asked.is_private).await? {
        Method::None(principal) => Ok(principal),
        method @ (Method::Password | Method::Token) => {
            backend::authentication(&mut wire.output, &Authentication::Cleartext);
            let body = read_password(wire).await?;
            let secret =
                body.strip_suffix(b"\0").ok_or_else(|| Failure::protocol("invalid password packet size"))?;
            let (secret, now_ns) = (utf8(secret)?, sql.clock.now_ns());
            let found = match method {
                Method::Token => users.log_in_by_token(secret, asked.client, now_ns).await,
                _ => authentication::by_password(users, user, secret, asked.client, now_ns).await,
            };
            let found = found.map_err(Failure::from)?;
            Ok(Principal::User(found.ok_or_else(|| authentication::refused(user))?))
        }
        Method::Scram(verifier) => {
            users.log_ins().check(user, asked.client).map_err(Failure::from)?;
            match by_scram(wire, verifier, user).await {
                Ok(()) => users.log_ins().succeeded(user, asked.client),
                Err(ended) => {
                    if matches!(&ended, Ended::Refused(failure) if failure.code == "28P01") {
                        users.log_ins().failed(user, asked.client);
                    }
                    return Err(ended);
                }
            }
            // The user may have been dropped meanwhile.
            Ok(Principal::User(users.existing(user).map_err(|_| authentication::refused(user))?))
        }
    }
}

async fn by_scram(wire: &mut Wire, verifier: ScramVerifier, user: &str) -> Result<(), Ended> {
    backend::authentication(&mut wire.output, &Authentication::Sasl(&[MECHANISM]));
    let body = read_password(wire).await?;
    let malformed = || Failure::protocol("malformed SASL message");
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
    let (mechanism, rest) = (&body[..end], &body[end + 1..]);
    if mechanism != MECHANISM.as_bytes() {
        return Err(Failure::protocol("client selected an invalid SASL authentication mechanism").into());
    }
    let (length, first) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    if u32::from_be_bytes(*length) as usize != first.len() {
        return Err(malformed().into());
    }
    let mut nonce = [0; NONCE_BYTES];
    let no_randomness = |_| Failure::new("XX000", "the operating system gives no random numbers");
    SystemRandom::new().fill(&mut nonce).map_err(no_randomness)?;
    let (exchange, answer) = Exchange::begin(utf8(first)?, verifier, nonce)?;
    backend::authentication(&mut wire.output, &Authentication::SaslContinue(answer.as_bytes()));
    let last = read_password(wire).await?;
    let answer = exchange.finish(utf8(&last)?)?.ok_or_else(|| authentication::refused(user))?;
    backend::authentication(&mut wire.output, &Authentication::SaslFinal(answer.as_bytes()));
    Ok(())
}

async fn read_password(wire: &mut Wire) -> Result<Vec<u8>, Ended> {
    let message = wire.read(|letter| letter == b'p').await?;
    Ok(message.body.to_vec())
}

/// Settings that came with the connection. One that is unknown here is named in a warning and ignored: the client's user may
/// not be able to leave it out.
fn apply_settings(session: &mut Session, asked: &Asked, out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut settings = Vec::new();
    for (name, value) in &asked.parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => settings.extend(settings_of(value)?),
            extension if extension.starts_with("_pq_.") => {}
            _ => settings.push((name.clone(), value.clone())),
        }
    }
    for (name, value) in settings {
        if let Err(error) = session.set(&name, &value) {
            let mut failure = Failure::from(error);
            failure.message = format!("{}: ignored", failure.message);
            backend::failure(out, Severity::Warning, &failure);
        }
    }
    Ok(())
}
