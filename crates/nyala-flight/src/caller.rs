//! Who sends a call, and which database it is about.

use crate::shared::Server;
use hyper::header::HeaderMap;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_db::users::Principal;
use nyala_sql::Session;
use std::net::IpAddr;
use std::sync::Arc;
use tonic::{Request, Status};

/// The header that names a database, as other databases behind Grafana have it.
const DATABASE_HEADER: &str = "database";

/// The sender of a call.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    client: Option<IpAddr>,
    owner: Option<String>,
    /// The database that names without one belong to; empty if the client names none.
    pub(crate) database: String,
}

impl Caller {
    /// The sender, who has been authenticated, of a call with these headers.
    pub(crate) fn of(
        principal: Principal,
        headers: &HeaderMap,
        client: Option<IpAddr>,
    ) -> Result<Self, Status> {
        let database = match headers.get(DATABASE_HEADER) {
            Some(value) => std::str::from_utf8(value.as_bytes())
                .map_err(|_| Status::invalid_argument("the header \"database\" is not UTF-8"))?,
            None => "",
        };
        let owner = match &principal {
            // No two of them are the same text.
            Principal::User(user) => {
                let (name, token) = (user.name(), user.token_name());
                Some(format!(
                    "{}:{name}{}",
                    name.len(),
                    token.map_or(String::new(), |token| format!(":{token}"))
                ))
            }
            Principal::Open | Principal::FirstAdmin => None,
        };
        Ok(Self { principal, client, owner, database: database.to_owned() })
    }

    /// The sender of a request that [`crate::connection`] has let in.
    pub(crate) fn of_request<T>(request: &Request<T>) -> Result<Self, Status> {
        let found = request.extensions().get::<Self>().cloned();
        found.ok_or_else(|| Status::unauthenticated("log in first"))
    }

    /// A session of its own for a call.
    pub(crate) fn session(&self, server: &Server) -> Result<Session, Status> {
        self.session_in(server, &self.database)
    }

    /// The same in another database.
    pub(crate) fn session_in(&self, server: &Server, database: &str) -> Result<Session, Status> {
        let session = Session::open(Arc::clone(&server.opened()?.sql), self.principal.clone(), database);
        Ok(session.from_client(RemoteClient::of(self.client, ClientProtocol::Flight)))
    }

    /// Whose prepared statements and transactions it may use: those of the same name. A caller that logged in by a token may
    /// do less than the token's user, and has those of the token.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}
