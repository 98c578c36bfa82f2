//! A question to a server, in the protocol of its language, and what asks it.

use crate::client::sql::{Rows, SqlConnection};
use crate::error::{BenchError, Result};
use crate::query::text::Request;
use nyala_client::{Body, Connection, Target};
use std::time::Duration;

/// One query as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Over HTTP.
    Http(Request),
    /// A statement over PostgreSQL's protocol.
    Sql(String),
}

/// Where and how questions are asked.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The server's HTTP.
    pub target: Target,
    /// `host:port` of its PostgreSQL's protocol, if questions may be SQL.
    pub postgres: Option<String>,
    /// The database of SQL.
    pub database: String,
    /// Whether answers over HTTP may be compressed, as most clients allow.
    pub gzip: bool,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// A client of one thread. It connects with its first question.
pub struct Asker {
    endpoints: Endpoints,
    http: Connection,
    sql: Option<SqlConnection>,
}

impl Asker {
    /// A client that has not connected yet.
    pub fn new(endpoints: &Endpoints) -> Asker {
        let http = Connection::new(&endpoints.target, endpoints.timeout).accepting(endpoints.gzip);
        Asker { endpoints: endpoints.clone(), http, sql: None }
    }

    /// Asks and returns the size of the answer in bytes, of which nothing is kept.
    pub fn ask(&mut self, question: &Question) -> Result<u64> {
        match question {
            Question::Http(request) => {
                Ok(self.http.expect_success(request.method, &request.path, b"", Body::Drop)?.body_bytes)
            }
            Question::Sql(statement) => Ok(self.sql()?.ask(statement, Rows::Count)?.bytes),
        }
    }

    /// The connection for requests over HTTP.
    pub fn http(&mut self) -> &mut Connection {
        &mut self.http
    }

    /// The session for SQL.
    pub fn sql(&mut self) -> Result<&mut SqlConnection> {
        let Some(address) = &self.endpoints.postgres else {
            return Err(BenchError::Invalid(
                "SQL needs the address of PostgreSQL's protocol: give --postgres HOST:PORT".to_owned(),
            ));
        };
        if self.sql.is_none() {
            let Endpoints { database, timeout, .. } = &self.endpoints;
            self.sql = Some(SqlConnection::open(address, database, *timeout)?);
        }
        Ok(self.sql.as_mut().expect("it was opened above"))
    }
}
