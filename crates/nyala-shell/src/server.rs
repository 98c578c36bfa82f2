//! Requests to the server. Each has a connection of its own, so that none is ever sent twice and Ctrl-C ends it for sure.

use crate::error::{Refusal, RefusedPoints, Result, ShellError};
use crate::interrupt::Interrupt;
use crate::options::AccessArgs;
use crate::password;
use base64ct::{Base64, Encoding};
use nyala_client::{Body, ClientError, Connection, Response, Target, Trust, query_escape};
use std::time::Duration;

/// For connecting, and for sending a part of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A server, and who asks it.
#[derive(Clone)]
pub(crate) struct Server {
    target: Target,
    /// The header line with credentials; empty without.
    credentials: String,
    pub(crate) username: Option<String>,
    interrupt: Interrupt,
    /// What the URL of a statement of SQL has for a load; empty for others.
    load: String,
}

/// What a request is about, beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) database: String,
    /// Empty for the default one.
    pub(crate) policy: String,
}

/// How rows of SQL come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlForm {
    Table,
    Csv,
    Json,
    Arrow,
}

impl SqlForm {
    fn media_type(self) -> &'static str {
        match self {
            SqlForm::Table => "application/vnd.nyala.table+jsonl",
            SqlForm::Csv => "text/csv",
            SqlForm::Json => "application/json",
            SqlForm::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Takes the pieces of an answer.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

impl Server {
    /// The server that the command line names. Nothing is sent to it yet.
    pub(crate) fn of(args: &AccessArgs, address: &str, interrupt: Interrupt) -> Result<Self> {
        let (target, credentials) = (args.target(address)?, args.credentials()?);
        let username = args.username.clone().filter(|_| args.token.is_none());
        Ok(Self { target, credentials, username, interrupt, load: String::new() })
    }

    /// The same server; its statements of SQL are those of an attempt to load something, and wait for those of earlier ones.
    pub(crate) fn of_attempt(&self, load: &str, attempt: u64) -> Self {
        Self { load: format!("&load={}&attempt={attempt}", query_escape(load)), ..self.clone() }
    }

    /// Sends these credentials from now on.
    pub(crate) fn log_in(&mut self, username: &str, password: &str) -> Result<()> {
        self.credentials = basic(username, password)?;
        self.username = Some(username.to_owned());
        Ok(())
    }

    /// The same server; its requests are not ended by Ctrl-C.
    pub(crate) fn in_background(&self) -> Self {
        Self { interrupt: Interrupt::default(), ..self.clone() }
    }

    /// `http://host:port`.
    pub(crate) fn url(&self) -> String {
        self.target.url()
    }

    /// Executes statements of InfluxQL. The answer comes as documents of at most `chunk_rows` rows, a line each.
    pub(crate) fn influxql(
        &self,
        statement: &str,
        place: &Place,
        epoch: &str,
        chunk_rows: usize,
        take: Take<'_>,
    ) -> Result<()> {
        let Place { database, policy } = place;
        let mut path = format!("/query?chunked=true&chunk_size={chunk_rows}&db={}", query_escape(database));
        if !policy.is_empty() {
            path.push_str(&format!("&rp={}", query_escape(policy)));
        }
        if epoch != "rfc3339" {
            path.push_str(&format!("&epoch={epoch}"));
        }
        let form = format!("q={}", query_escape(statement));
        self.send(&path, "Content-Type: application/x-www-form-urlencoded\r\n", form.as_bytes(), take)
    }

    /// Executes a statement of SQL.
    pub(crate) fn sql(&self, statement: &str, database: &str, form: SqlForm, take: Take<'_>) -> Result<()> {
        let path = format!("/api/sql?db={}{}", query_escape(database), self.load);
        let headers = format!("Accept: {}\r\nContent-Type: text/plain\r\n", form.media_type());
        self.send(&path, &headers, statement.as_bytes(), take)
    }

    /// Executes a COPY whose rows are the body.
    pub(crate) fn copy(&self, statement: &str, database: &str, media_type: &str, rows: &[u8]) -> Result<()> {
        let (database, statement) = (query_escape(database), query_escape(statement));
        let path = format!("/api/sql?db={database}&q={statement}{}", self.load);
        let headers = format!("Accept: application/json\r\nContent-Type: {media_type}\r\n");
        self.send(&path, &headers, rows, &mut |_| Ok(()))
    }

    /// Writes line protocol.
    pub(crate) fn write(&self, lines: &[u8], place: &Place, precision: &str) -> Result<()> {
        let Place { database, policy } = place;
        let path =
            format!("/write?db={}&rp={}&precision={precision}", query_escape(database), query_escape(policy));
        self.send(&path, "", lines, &mut |_| Ok(()))
    }

    fn send(&self, path: &str, headers: &str, body: &[u8], take: Take<'_>) -> Result<()> {
        let mut connection = Connection::new(&self.target, TIMEOUT).patient();
        self.interrupt.watch(connection.canceller());
        let headers =
            format!("{}{headers}User-Agent: nyala-shell\r\nConnection: close\r\n", self.credentials);
        // What the taker says replaces the error that ends the request.
        let mut refused_to_take = None;
        let mut hand_on = |piece: &[u8]| {
            take(piece).map_err(|error| {
                refused_to_take = Some(error);
                ClientError::Protocol(String::new())
            })
        };
        let answered = connection.request("POST", path, &headers, body, Body::HandOn(&mut hand_on));
        if self.interrupt.is_pressed() {
            return Err(ShellError::Cancelled);
        }
        if let Some(error) = refused_to_take {
            return Err(error);
        }
        let Response { status, points_written, .. } = answered?;
        match status {
            200..300 => Ok(()),
            401 => Err(ShellError::Unauthorized(refusal(status, &connection.error_text()).message)),
            _ => Err(match points_written {
                None => ShellError::Refused(refusal(status, &connection.error_text())),
                Some(written) => {
                    let refused = refused_points(status, &connection.error_text());
                    ShellError::RefusedPoints(Box::new(RefusedPoints { written, ..refused }))
                }
            }),
        }
    }
}

/// What the body of an error says.
fn refusal(status: u16, body: &str) -> Refusal {
    let unknown = |_| Refusal { message: unread(status, body), ..Refusal::default() };
    serde_json::from_str(body).unwrap_or_else(unknown)
}

/// The same of points.
fn refused_points(status: u16, body: &str) -> RefusedPoints {
    let unknown = |_| RefusedPoints { message: unread(status, body), ..RefusedPoints::default() };
    serde_json::from_str(body).unwrap_or_else(unknown)
}

/// A body that has another form, or is longer than what is kept of it.
fn unread(status: u16, body: &str) -> String {
    format!("the server answered {status}: {}", body.trim_end())
}

impl AccessArgs {
    /// A server, with whom to trust there.
    pub(crate) fn target(&self, address: &str) -> Result<Target> {
        let trust = match (&self.ca, self.insecure) {
            (Some(path), _) => Trust::File(path.clone()),
            (None, true) => Trust::Anybody,
            (None, false) => Trust::System,
        };
        Ok(Target::trusting(address, &trust)?)
    }

    /// The header line that says who asks; empty for nobody. A password may be asked for.
    pub(crate) fn credentials(&self) -> Result<String> {
        match (&self.token, &self.username) {
            (Some(token), _) => header(&format!("Bearer {token}")),
            (None, Some(username)) => basic(username, &password::of(username, &password::VARIABLES)?),
            (None, None) => Ok(String::new()),
        }
    }
}

/// The header line of a name and a password.
pub(crate) fn basic(username: &str, password: &str) -> Result<String> {
    let encoded = Base64::encode_string(format!("{username}:{password}").as_bytes());
    header(&format!("Basic {encoded}"))
}

/// A header line with credentials, which must not have another line in them.
fn header(credentials: &str) -> Result<String> {
    match credentials.contains(char::is_control) {
        true => Err(ShellError::Command("credentials must not have control characters".to_owned())),
        false => Ok(format!("Authorization: {credentials}\r\n")),
    }
}
