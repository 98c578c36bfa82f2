//! How a client proves who it is.
//!
//! A user whose password has a SCRAM verifier logs in by SCRAM-SHA-256 ([`scram`]): the password is not sent. Any other
//! user must send it, and is only asked to where nobody can listen: inside TLS, or on the machine itself. Everywhere else
//! the connection ends before the client is asked.
//!
//! A token cannot be proven by SCRAM, because only its hash is stored. Whoever has one can always send it in the same places as a
//! password: under the name [`TOKEN_USER`], unless a user has that name.

pub mod scram;

use crate::error::Failure;
use nyala_core::Result;
use nyala_db::users::{Principal, ScramVerifier, User, Users};
use std::net::IpAddr;
use std::sync::Arc;

/// How a client is asked.
pub enum Method {
    /// Not at all.
    None(Principal),
    /// By SCRAM.
    Scram(ScramVerifier),
    /// For its password.
    Password,
    /// For a token, which says whose it is.
    Token,
}

/// The name of a client that says who it is by its token.
pub const TOKEN_USER: &str = "token";

/// Chooses how a client is asked. `is_private`: nobody can listen to the connection.
pub async fn method_of(
    users: &Users,
    is_required: bool,
    name: &str,
    is_private: bool,
) -> std::result::Result<Method, Failure> {
    if !is_required {
        return Ok(Method::None(Principal::Open));
    }
    if !users.has_admin() {
        let failure = Failure::new("28000", "there is no administrator yet, so nobody can log in");
        return Err(failure
            .with_hint("Create one over HTTP: CREATE USER name WITH PASSWORD '…' WITH ALL PRIVILEGES."));
    }
    // Another server may have created a user of that name: this reads which there are.
    let verifier = users.scram_verifier(name).await?;
    let is_token = name == TOKEN_USER && users.existing(name).is_err();
    if let Some(verifier) = verifier.filter(|_| !is_token) {
        return Ok(Method::Scram(verifier));
    }
    if is_private {
        return Ok(if is_token { Method::Token } else { Method::Password });
    }
    let failure =
        Failure::new("28000", "the password would be sent in clear: connect with TLS (sslmode=require)");
    Err(failure.with_hint(
        "Without TLS, users log in by SCRAM-SHA-256, for which their password must be set anew while scram-iterations \
         is above 0.",
    ))
}

/// The user of a name and password, or of a name and one of its tokens; `None` if they do not fit.
pub async fn by_password(
    users: &Users,
    name: &str,
    password: &str,
    client: Option<IpAddr>,
    now_ns: i64,
) -> Result<Option<Arc<User>>> {
    if password.is_empty() {
        return Ok(None);
    }
    users.log_in(name, password, client, now_ns).await
}

/// What a client is told that is somebody else, or nobody.
pub fn refused(name: &str) -> Failure {
    let shown: String = name.chars().take(64).collect();
    Failure::new("28P01", format!("password authentication failed for user \"{shown}\""))
}
