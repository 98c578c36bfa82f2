//! The audit log: who did what from where, and how it ended, as JSON lines in a file of its own.
//!
//! A line is written whole, by one call, after what it reports. When it cannot be written, requests are still answered: the line
//! is counted as lost, and `/health` warns until a line could be written again. At SIGHUP the file is opened again by its name, so
//! that others can rename it. Statements are texts of the parser, which hold no secrets.

use crate::server::health::Check;
use crate::server::metric::Metric;
use nyala_core::env::ClockRef;
use nyala_db::changes::{ClientProtocol, RemoteClient};
use nyala_query::influxql::TimeLiteral;
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Clients of HTTP log in with each request. A successful log-in is written again after this time ...
const LOG_IN_AGAIN: Duration = Duration::from_secs(900);
/// ... and so many users and addresses are remembered for that.
const REMEMBERED_MAX: usize = 4096;

/// What happened.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Event<'a> {
    /// Which kind: `log-in`, `statement`, `backup`, `refused`.
    pub(super) event: &'a str,
    /// `done`, `failed` or `refused`.
    pub(super) result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) database: Option<&'a str>,
    /// The statement, the path or the name that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) what: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'a str>,
    /// The number of the change, if it can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<u64>,
    /// How many events before it were left out, because there were too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) left_out: u64,
}

impl Event<'_> {
    /// An event that says only who the client is.
    pub(super) fn of(client: RemoteClient) -> Self {
        let RemoteClient { address, protocol } = client;
        Self { client: address, protocol: protocol.map(ClientProtocol::name), ..Self::default() }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    event: Event<'a>,
}

/// The file of the audit log.
pub struct AuditFile {
    path: PathBuf,
    /// Whether log-ins are written that succeeded.
    has_successes: bool,
    clock: ClockRef,
    open: Mutex<Open>,
    written: AtomicU64,
    lost: AtomicU64,
}

struct Open {
    file: File,
    /// Why the last line was lost.
    failure: Option<String>,
    /// Who has logged in, from where, by which protocol, and when that was written.
    known: HashMap<(String, RemoteClient), Instant>,
}

impl AuditFile {
    /// Opens the file, to which log-ins that succeeded are written if `has_successes`, or says why it cannot be: a server that was
    /// told to keep an audit log does not start without.
    pub fn open(path: PathBuf, has_successes: bool, clock: ClockRef) -> Result<Self, String> {
        let file = append_to(&path).map_err(|error| format!("audit-log {}: {error}", path.display()))?;
        let open = Mutex::new(Open { file, failure: None, known: HashMap::new() });
        Ok(Self { path, has_successes, clock, open, written: AtomicU64::new(0), lost: AtomicU64::new(0) })
    }

    /// Opens the file again by its name. If that fails, the open one stays in use.
    pub(super) fn open_again(&self) {
        match append_to(&self.path) {
            Ok(file) => {
                self.lock().file = file;
                tracing::info!(path = %self.path.display(), "the audit log was opened again");
            }
            Err(error) => {
                tracing::error!(path = %self.path.display(), %error, "cannot open the audit log again: lines go on to the old file");
            }
        }
    }

    /// Whether a successful log-in is to be written. Where clients log in with each request it is then known, for a while.
    pub(super) fn is_new_log_in(&self, user: &str, client: RemoteClient) -> bool {
        if !self.has_successes || client.protocol == Some(ClientProtocol::Postgres) {
            return self.has_successes;
        }
        let known = &mut self.lock().known;
        let key = (user.to_owned(), client);
        if known.get(&key).is_some_and(|since| since.elapsed() < LOG_IN_AGAIN) {
            return false;
        }
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, since| since.elapsed() < LOG_IN_AGAIN);
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key, Instant::now());
        true
    }

    pub(super) fn write(&self, event: Event<'_>) {
        let time = TimeLiteral::utc(self.clock.now_ns().into()).to_string();
        let mut line = serde_json::to_vec(&Line { time, event }).expect("an event is plain data");
        line.push(b'\n');
        let mut open = self.lock();
        match open.file.write_all(&line) {
            Ok(()) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                open.failure = None;
            }
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if open.failure.is_none() {
                    tracing::error!(path = %self.path.display(), %error, "lines of the audit log are lost");
                }
                open.failure = Some(error.to_string());
            }
        }
    }

    /// Whether lines are being lost.
    pub(super) fn check(&self) -> Option<Check> {
        let failure = self.lock().failure.clone()?;
        let lost = self.lost.load(Ordering::Relaxed);
        let message = format!(
            "the audit log {} cannot be written, {lost} lines are lost: {failure}",
            self.path.display()
        );
        Some(Check { name: "audit", fails: false, message })
    }

    pub(super) fn metrics(&self) -> [Metric; 2] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (written, lost) =
            ("Lines of the audit log.", "Lines of the audit log that could not be written.");
        [
            Metric::counter("nyala_audit_lines_total", written, count(&self.written)),
            Metric::counter("nyala_audit_lines_lost_total", lost, count(&self.lost)),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // No code under this lock can panic and leave a change unfinished.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn append_to(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
