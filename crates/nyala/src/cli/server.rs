//! The server that a command asks: it makes a copy of its store for a backup or a move, and takes points that are restored.

use clap::Args;
use nyala_client::{Body, Connection, Target, query_escape};
use nyala_shell::{AccessArgs, escaped};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// For connecting, and for sending a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the command waits each time a server has no room for points.
const BUSY_PAUSES: [Duration; 6] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
];
/// How long the command waits each time a server has another copy.
const COPY_PAUSE: Duration = Duration::from_millis(500);
/// An answer is a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Which server, and who asks.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// The server's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8086")]
    url: String,
    #[command(flatten)]
    access: AccessArgs,
}

/// A copy that the server has made.
#[derive(Debug, Deserialize)]
pub(super) struct MadeCopy {
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) time_ns: i64,
    pub(super) sequence: u64,
}

/// Lines of which a server has not stored all points.
#[derive(Debug)]
pub(super) struct Refused {
    /// Why.
    pub(super) words: String,
    /// The points that it has stored.
    pub(super) written: u64,
    /// Whether it takes shorter requests only, and has stored nothing.
    pub(super) is_too_long: bool,
}

/// What a copy was good for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended {
    /// A backup was made of it.
    Finished { bytes: u64, new_bytes: u64 },
    /// It was read for something else.
    Read,
    /// There is no backup.
    GivenUp,
}

/// A server that answers.
#[derive(Clone)]
pub(super) struct Server {
    target: Target,
    headers: String,
}

impl Server {
    pub(super) fn of(args: &ServerArgs) -> Result<Self, String> {
        Self::at(&args.url, &args.access)
    }

    pub(in crate::cli) fn at(url: &str, access: &AccessArgs) -> Result<Self, String> {
        let (target, credentials) = nyala_shell::access(access, url)?;
        let headers = format!("{credentials}User-Agent: nyala-backup\r\nConnection: close\r\n");
        Ok(Self { target, headers })
    }

    /// Has a copy of the store made. While there is another one, it waits for so long.
    pub(super) fn make_copy(&self, wait_max: Duration) -> Result<MadeCopy, String> {
        let begun = Instant::now();
        loop {
            let (status, answer) = self.exchange("POST", "/api/backup", b"", ANSWER_BYTES_MAX)?;
            if status == 409 && begun.elapsed() < wait_max {
                std::thread::sleep(COPY_PAUSE);
                continue;
            }
            let answer = self.successful(status, answer)?;
            return serde_json::from_slice(&answer)
                .map_err(|error| format!("{} answers strangely: {error}", self.target.url()));
        }
    }

    /// Has it removed.
    pub(super) fn end(&self, name: &str, ended: Ended) -> Result<(), String> {
        let how = match ended {
            Ended::Finished { bytes, new_bytes } => format!("&bytes={bytes}&new_bytes={new_bytes}"),
            Ended::Read => "&read=true".to_owned(),
            Ended::GivenUp => String::new(),
        };
        self.ask("DELETE", &format!("/api/backup?name={}{how}", query_escape(name)), b"").map(drop)
    }

    /// Executes a statement of InfluxQL that shows nothing. The inner error is that of the statement.
    pub(super) fn execute(&self, database: &str, text: &str) -> Result<Result<(), String>, String> {
        let path = format!("/query?db={}&q={}", query_escape(database), query_escape(text));
        let answer = self.ask("POST", &path, b"")?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)
            .map_err(|error| format!("{} answers strangely: {error}", self.target.url()))?;
        Ok(match answer["results"][0]["error"].as_str() {
            Some(words) => Err(escaped(words).into_owned()),
            None => Ok(()),
        })
    }

    /// Writes lines. The inner error says which of them the server has refused; the others are stored.
    pub(super) fn write(
        &self,
        database: &str,
        policy: &str,
        lines: &[u8],
    ) -> Result<Result<(), Refused>, String> {
        let (database, policy) = (query_escape(database), query_escape(policy));
        let path = format!("/write?db={database}&rp={policy}&precision=ns");
        for pause in BUSY_PAUSES {
            match self.send("POST", &path, lines)? {
                (503, ..) => std::thread::sleep(pause),
                (400, Some(written), words) => {
                    return Ok(Err(Refused { words, written, is_too_long: false }));
                }
                (413, _, words) => {
                    let words = format!("a request of {} bytes is refused (413): {words}", lines.len());
                    return Ok(Err(Refused { words, written: 0, is_too_long: true }));
                }
                (status, _, words) => return self.checked(status, words).map(Ok),
            }
        }
        Err(format!("the server {} takes no points now", self.target.url()))
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        self.ask_for(method, path, body, ANSWER_BYTES_MAX)
    }

    /// Sends a request whose answer has no more bytes than that.
    pub(super) fn ask_for(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        limit_bytes: usize,
    ) -> Result<Vec<u8>, String> {
        let (status, answer) = self.exchange(method, path, body, limit_bytes)?;
        self.successful(status, answer)
    }

    /// The status of an answer, and its body.
    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        limit_bytes: usize,
    ) -> Result<(u16, Vec<u8>), String> {
        let mut connection = Connection::new(&self.target, TIMEOUT).patient();
        let mut answer = Vec::new();
        let collect = Body::Collect { into: &mut answer, limit_bytes };
        let response = connection.request(method, path, &self.headers, body, collect);
        let status = response.map_err(|error| error.to_string())?.status;
        if !(200..300).contains(&status) && answer.is_empty() {
            answer = connection.error_text().into_bytes();
        }
        Ok((status, answer))
    }

    /// The body of an answer that is no error.
    fn successful(&self, status: u16, answer: Vec<u8>) -> Result<Vec<u8>, String> {
        match status {
            200..300 => Ok(answer),
            _ => self.checked(status, words_of(&String::from_utf8_lossy(&answer))).map(|()| Vec::new()),
        }
    }

    /// The status of an answer, how many points of a refused write are stored, and its words.
    fn send(&self, method: &str, path: &str, body: &[u8]) -> Result<(u16, Option<u64>, String), String> {
        let mut connection = Connection::new(&self.target, TIMEOUT).patient();
        let response = connection.request(method, path, &self.headers, body, Body::Drop);
        let response = response.map_err(|error| error.to_string())?;
        Ok((response.status, response.points_written, words_of(&connection.error_text())))
    }

    fn checked(&self, status: u16, words: String) -> Result<(), String> {
        match status {
            200..300 => Ok(()),
            401 if !self.headers.contains("Authorization: ") => Err(format!(
                "the server {} refuses ({status}): {words}: log in by --username, or by NYALA_TOKEN",
                self.target.url()
            )),
            _ => Err(format!("the server {} refuses ({status}): {words}", self.target.url())),
        }
    }
}

/// What the body of an error says, on one line that a terminal does not obey: the server may be anybody's.
fn words_of(text: &str) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let words = serde_json::from_str(text).map_or_else(|_| text.to_owned(), |Refusal { error }| error);
    escaped(words.trim_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::words_of;

    #[test]
    fn a_terminal_obeys_no_words_of_a_server() {
        assert_eq!(words_of("{\"error\":\"a\\u001b[2J\\nnyala: done\"}"), "a\\x1b[2J\\nnyala: done");
        assert_eq!(words_of("\u{9b}2Jplain ä\n"), "\\u009b2Jplain ä");
    }
}
