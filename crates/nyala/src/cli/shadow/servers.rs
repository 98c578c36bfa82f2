//! The two servers: InfluxDB and nyala, with who asks each of them.

use clap::Args;
use nyala_client::{Body, ClientError, Connection, Target, Trust, query_escape};
use nyala_shell::CtrlC;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// For connecting and sending, and for answers to statements, which are short.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest answer to a statement: names of fields, policies, counts.
const STATEMENT_ANSWER_BYTES_MAX: usize = 32 << 20;
/// Rows of a document of an answer. More would be longer lines, fewer more headings.
const DOCUMENT_ROWS: usize = 10_000;

/// Where the servers are, and who asks them.
#[derive(Debug, Args)]
pub(super) struct ServersArgs {
    /// The address of InfluxDB
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8086", help_heading = "Servers")]
    influxdb: String,
    /// The address of nyala
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8087", help_heading = "Servers")]
    nyala: String,
    /// Log in to InfluxDB as this user; the password comes from INFLUX_PASSWORD or a prompt
    #[arg(long, value_name = "NAME", env = "INFLUX_USERNAME", help_heading = "Servers")]
    influxdb_username: Option<String>,
    /// Log in to nyala as this user; the password comes from NYALA_PASSWORD or a prompt
    #[arg(long, value_name = "NAME", env = "NYALA_USERNAME", help_heading = "Servers")]
    nyala_username: Option<String>,
    /// Trust the certificates in this PEM file, instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Servers")]
    ca: Option<PathBuf>,
}

/// Both servers.
pub(super) struct Servers {
    pub(super) influxdb: Server,
    pub(super) nyala: Server,
}

/// A server.
#[derive(Clone)]
pub(super) struct Server {
    /// What it is, as messages say.
    pub(super) name: &'static str,
    pub(super) target: Target,
    credentials: String,
    ctrl_c: CtrlC,
}

/// What a query was answered.
pub(super) struct Answered {
    /// Documents, a line each.
    pub(super) body: Vec<u8>,
    pub(super) elapsed: Duration,
}

/// Why a server could not be asked.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// It cannot be reached, or lets nobody in: so it will be with the next question.
    Server(String),
    /// The answer is longer than the limit, or does not come in time: others may come.
    Question(String),
}

impl ServersArgs {
    pub(super) fn open(&self, ctrl_c: &CtrlC) -> Result<Servers, String> {
        let server = |name: &'static str, url: &str, username: Option<&str>, variable: &str| {
            let trust = self.ca.clone().map_or(Trust::System, Trust::File);
            let target = Target::trusting(url, &trust).map_err(|error| error.to_string())?;
            let credentials = username.map(|username| nyala_shell::log_in(username, variable)).transpose()?;
            let credentials = credentials.unwrap_or_default();
            Ok::<_, String>(Server { name, target, credentials, ctrl_c: ctrl_c.clone() })
        };
        let servers = Servers {
            influxdb: server(
                "InfluxDB",
                &self.influxdb,
                self.influxdb_username.as_deref(),
                "INFLUX_PASSWORD",
            )?,
            nyala: server("nyala", &self.nyala, self.nyala_username.as_deref(), "NYALA_PASSWORD")?,
        };
        match servers.influxdb.target.is_same_place(&servers.nyala.target) {
            true => Err(format!(
                "--influxdb and --nyala are the same server, {}: points that it sends to itself would go round for ever",
                servers.nyala.target.url()
            )),
            false => Ok(servers),
        }
    }
}

impl Server {
    /// The same server, asked by somebody else.
    pub(super) fn with_credentials(&self, credentials: String) -> Server {
        Server { credentials, ..self.clone() }
    }

    /// Executes a statement. A statement that is refused is an error, too.
    pub(super) fn execute(&self, database: &str, text: &str) -> Result<Value, String> {
        let path = format!("/query?db={}&epoch=ns", query_escape(database));
        let form = format!("q={}", query_escape(text));
        let mut body = Vec::new();
        let status = self
            .send(&path, form.as_bytes(), TIMEOUT, STATEMENT_ANSWER_BYTES_MAX, &mut body)
            .map_err(|error| error.words())?;
        let answer = serde_json::from_slice(&body).map_err(|_| self.strange(status))?;
        let result = result_of(answer).ok_or_else(|| self.strange(status))?;
        result.map_err(|words| format!("{} refuses: {words}", self.named()))
    }

    /// Asks a query. An answer that is an error is an answer.
    pub(super) fn ask(
        &self,
        database: &str,
        text: &str,
        timeout: Duration,
        bytes_max: usize,
    ) -> Result<Answered, Unanswered> {
        let path =
            format!("/query?db={}&epoch=ns&chunked=true&chunk_size={DOCUMENT_ROWS}", query_escape(database));
        let form = format!("q={}", query_escape(text));
        let mut body = Vec::new();
        let begun = Instant::now();
        self.send(&path, form.as_bytes(), timeout, bytes_max, &mut body)?;
        Ok(Answered { body, elapsed: begun.elapsed() })
    }

    /// Writes no points, which only says whether points could be written.
    pub(super) fn try_write(&self, database: &str, policy: &str) -> Result<(), String> {
        let path = format!("/write?db={}&rp={}&precision=ns", query_escape(database), query_escape(policy));
        let mut body = Vec::new();
        let status = self
            .send(&path, b"", TIMEOUT, STATEMENT_ANSWER_BYTES_MAX, &mut body)
            .map_err(|error| error.words())?;
        match status {
            200..300 => Ok(()),
            _ => Err(format!("{} takes no points ({status}): {}", self.named(), error_of(&body))),
        }
    }

    /// Whether it is a nyala. InfluxDB 1.x does not know that page, and nobody must log in for it.
    pub(super) fn is_nyala(&self) -> Result<bool, String> {
        let mut connection = Connection::new(&self.target, TIMEOUT);
        let response = connection.request("GET", "/ready", "Connection: close\r\n", b"", Body::Drop);
        let status = response.map_err(|error| self.unreachable(&error))?.status;
        Ok(status != 404)
    }

    /// `InfluxDB at http://127.0.0.1:8086`.
    pub(super) fn named(&self) -> String {
        format!("{} at {}", self.name, self.target.url())
    }

    fn send(
        &self,
        path: &str,
        form: &[u8],
        timeout: Duration,
        bytes_max: usize,
        body: &mut Vec<u8>,
    ) -> Result<u16, Unanswered> {
        let mut connection = Connection::new(&self.target, timeout);
        self.ctrl_c.watch(connection.canceller());
        let headers = format!(
            "{}Content-Type: application/x-www-form-urlencoded\r\nUser-Agent: nyala-shadow\r\nConnection: close\r\n",
            self.credentials
        );
        let mut is_too_long = false;
        let mut collect = |piece: &[u8]| {
            is_too_long = body.len() + piece.len() > bytes_max;
            match is_too_long {
                true => return Err(ClientError::Protocol(String::new())),
                false => body.extend_from_slice(piece),
            }
            Ok(())
        };
        let response = connection.request("POST", path, &headers, form, Body::HandOn(&mut collect));
        if is_too_long {
            return Err(Unanswered::Question(format!(
                "the answer of {} is longer than {} MiB",
                self.named(),
                bytes_max >> 20
            )));
        }
        let status = match response {
            Ok(response) => response.status,
            Err(ClientError::Io { source, .. }) if is_timeout(&source) => {
                return Err(Unanswered::Question(format!("{} is silent for {timeout:?}", self.named())));
            }
            Err(error) => return Err(Unanswered::Server(self.unreachable(&error))),
        };
        // The bodies of errors are kept by the connection.
        if status >= 400 {
            *body = connection.error_text().into_bytes();
        }
        match status {
            401 | 403 => {
                let words = error_of(body);
                Err(Unanswered::Server(format!("{} refuses who asks: {words}", self.named())))
            }
            500.. if path.starts_with("/query") => {
                Err(Unanswered::Question(format!("{} answers {status}: {}", self.named(), error_of(body))))
            }
            _ => Ok(status),
        }
    }

    fn unreachable(&self, error: &ClientError) -> String {
        format!("{} does not answer: {error}", self.named())
    }

    fn strange(&self, status: u16) -> String {
        format!("{} answers {status} and not as to a query: is it InfluxDB 1.x or nyala?", self.named())
    }
}

impl Unanswered {
    pub(super) fn words(self) -> String {
        match self {
            Unanswered::Server(words) | Unanswered::Question(words) => words,
        }
    }
}

/// The result of the only statement, or why it is refused; `None` if that is no answer to a query.
fn result_of(mut answer: Value) -> Option<Result<Value, String>> {
    let result = answer.pointer_mut("/results/0").map(Value::take);
    let error = |value: &Value| value["error"].as_str().map(|words| nyala_shell::escaped(words).into_owned());
    match error(&answer).or_else(|| error(result.as_ref()?)) {
        Some(words) => Some(Err(words)),
        None => result.map(Ok),
    }
}

/// A read that waited too long fails in one of two ways.
fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// What the body of an error says.
fn error_of(body: &[u8]) -> String {
    let read: Option<Value> = serde_json::from_slice(body).ok();
    let words = read.as_ref().and_then(|read| read["error"].as_str());
    let words = words.map_or_else(|| String::from_utf8_lossy(body).trim().to_owned(), str::to_owned);
    nyala_shell::escaped(&words).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whatever_a_server_answers_is_read() {
        let series = json!({ "statement_id": 0, "series": [] });
        assert_eq!(result_of(json!({ "results": [series] })), Some(Ok(series)));
        for refused in [json!({ "error": "no\u{1b}[2J" }), json!({ "results": [{ "error": "no\u{1b}[2J" }] })]
        {
            let words = result_of(refused).expect("an answer").expect_err("a refusal");
            assert!(words.starts_with("no") && !words.contains('\u{1b}'), "{words}");
        }
        for other in [json!({}), json!({ "results": [] }), json!({ "results": 1 }), json!([1]), json!("ok")] {
            assert_eq!(result_of(other.clone()), None, "{other}");
        }
    }
}
