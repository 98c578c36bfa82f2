//! Logs what an operator wants to know about clients: failed log-ins, dropped data, changes of users, rejected web
//! pages.
//!
//! A client must not fill the log. So the number of lines of each kind is limited per time window, and the next line
//! that is written says how many were left out. Names that clients choose are quoted and cut.
//!
//! An operator who asks for it gets all of that, and more, in a file of its own ([`file`]). There only refused requests are
//! limited: log-ins that fail are few because they are slowed down, and what is done needs rights.

mod file;

pub use file::AuditFile;

use super::health::Check;
use super::metric::Metric;
use file::Event;

#[cfg(feature = "sql")]
use nyala_db::changes::Author;
use nyala_db::changes::{ChangeId, ClientProtocol, RemoteClient};
use nyala_query::influxql::Statement;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most lines of a kind ...
const LINES_MAX: u32 = 20;
/// ... within this time.
const WINDOW: Duration = Duration::from_secs(10);
/// The most letters of a name or statement that are logged.
const SHOWN_LETTERS: usize = 500;

/// Writes what clients did to the log.
#[derive(Default)]
pub struct Audit {
    log_ins: LogLimit,
    changes: LogLimit,
    rejected: LogLimit,
    refusals: LogLimit,
    file: Option<AuditFile>,
}

impl Audit {
    /// It writes to a file, too, if there is one.
    pub fn new(file: Option<AuditFile>) -> Self {
        Self { file, ..Self::default() }
    }

    /// Opens its file again.
    pub fn open_again(&self) {
        self.file.iter().for_each(AuditFile::open_again);
    }

    /// What is wrong with its file.
    pub fn check(&self) -> Option<Check> {
        self.file.as_ref()?.check()
    }

    /// What `/metrics` shows of its file.
    pub fn metrics(&self) -> Vec<Metric> {
        self.file.iter().flat_map(AuditFile::metrics).collect()
    }

    /// Whether it wants to be told what is not in the server's log: successful log-ins, changes of rows.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// A client has logged in.
    pub(super) fn logged_in(&self, user: &str, client: RemoteClient) {
        if let Some(file) = self.file.as_ref().filter(|file| file.is_new_log_in(user, client)) {
            let user = Some(user);
            file.write(Event { event: "log-in", result: "done", user, ..Event::of(client) });
        }
    }

    /// A client gave a wrong password or an invalid token.
    pub(super) fn log_in_failed(&self, user: &str, client: RemoteClient) {
        if let Some(file) = &self.file {
            let user = shown(user);
            file.write(Event { event: "log-in", result: "failed", user: Some(&user), ..Event::of(client) });
        }
        if let Some(left_out) = self.log_ins.next() {
            tracing::warn!(
                user = shown(user),
                client = client.address.map(tracing::field::display),
                protocol = client.protocol.map(ClientProtocol::name),
                left_out,
                "a log-in failed"
            );
        }
    }

    /// A statement was executed that does not only read.
    pub(super) fn executed(
        &self,
        statement: &Statement,
        database: &str,
        user: Option<&str>,
        client: Option<IpAddr>,
        change: Option<ChangeId>,
    ) {
        self.to_file(statement, database, user, client, Ok(change));
        if is_logged(statement) {
            self.changed(statement, database, user, client, change);
        }
    }

    /// A statement failed that does not only read.
    pub(super) fn failed(
        &self,
        statement: &Statement,
        database: &str,
        user: Option<&str>,
        client: Option<IpAddr>,
        error: &str,
    ) {
        self.to_file(statement, database, user, client, Err(error));
    }

    fn to_file(
        &self,
        statement: &Statement,
        database: &str,
        user: Option<&str>,
        client: Option<IpAddr>,
        outcome: Result<Option<ChangeId>, &str>,
    ) {
        // SELECT INTO writes points, as any client may.
        let Some(file) = self.file.as_ref().filter(|_| !matches!(statement, Statement::Select(_))) else {
            return;
        };
        let what = shown(&statement.to_string());
        file.write(Event {
            event: "statement",
            result: if outcome.is_ok() { "done" } else { "failed" },
            user,
            database: Some(database).filter(|name| !name.is_empty()),
            what: Some(&what),
            reason: outcome.err(),
            change: outcome.ok().flatten().map(|change| change.0),
            ..Event::of(RemoteClient::of(client, ClientProtocol::Http))
        });
    }

    /// A statement of SQL has changed points, or the definition of a table.
    #[cfg(feature = "sql")]
    pub(crate) fn executed_sql(&self, author: &Author, change: Option<ChangeId>) {
        self.audited_sql(author, change);
        let (user, database) = (author.user.as_deref(), &*author.database);
        self.changed(&author.statement, database, user, author.client.address, change);
    }

    /// A statement of SQL has done something that only the file has: it may happen often.
    #[cfg(feature = "sql")]
    pub(crate) fn audited_sql(&self, author: &Author, change: Option<ChangeId>) {
        let Some(file) = &self.file else { return };
        let (user, what) = (author.user.as_deref(), shown(&author.statement));
        file.write(Event {
            event: "statement",
            result: "done",
            user,
            database: Some(&author.database),
            what: Some(&what),
            change: change.map(|change| change.0),
            ..Event::of(author.client)
        });
    }

    /// Somebody asked for what it may not do, or too often.
    pub(crate) fn denied(&self, user: Option<&str>, client: Option<IpAddr>, what: &str, reason: &str) {
        self.denied_in(None, user, RemoteClient::of(client, ClientProtocol::Http), what, reason);
    }

    /// The same for a statement of SQL.
    #[cfg(feature = "sql")]
    pub(crate) fn denied_sql(&self, author: &Author, reason: &str) {
        let database = Some(&*author.database).filter(|name| !name.is_empty());
        self.denied_in(database, author.user.as_deref(), author.client, &author.statement, reason);
    }

    fn denied_in(
        &self,
        database: Option<&str>,
        user: Option<&str>,
        client: RemoteClient,
        what: &str,
        reason: &str,
    ) {
        if let Some(file) = &self.file
            && let Some(left_out) = self.refusals.next()
        {
            let (user, what, reason) = (user.map(shown), shown(what), shown(reason));
            let (user, what, reason) = (user.as_deref(), Some(&*what), Some(&*reason));
            let (event, result) = ("refused", "refused");
            file.write(Event { event, result, user, database, what, reason, left_out, ..Event::of(client) });
        }
    }

    /// Data was dropped or changed, or users were changed.
    fn changed(
        &self,
        what: &dyn Display,
        database: &str,
        user: Option<&str>,
        client: Option<IpAddr>,
        change: Option<ChangeId>,
    ) {
        if let Some(left_out) = self.changes.next() {
            let (statement, database) = (shown(&what.to_string()), shown(database));
            let (user, client) = (user.map(shown), client.map(tracing::field::display));
            let change = change.map(|change| change.0);
            tracing::info!(statement, database, user, client, change, left_out, "executed");
        }
    }

    /// A backup was begun, finished or given up.
    pub(super) fn backup(&self, what: &str, name: &str, user: Option<&str>, client: Option<IpAddr>) {
        self.operated("backup", &format!("{what} {name}"), user, client);
    }

    /// A move to another store has come to a step that clients notice.
    pub(super) fn moving(&self, what: &str, user: Option<&str>, client: Option<IpAddr>) {
        self.operated("move", what, user, client);
    }

    fn operated(&self, event: &'static str, what: &str, user: Option<&str>, client: Option<IpAddr>) {
        let what = shown(what);
        if let Some(file) = &self.file {
            let what = Some(&*what);
            file.write(Event {
                event,
                result: "done",
                user,
                what,
                ..Event::of(RemoteClient::of(client, ClientProtocol::Http))
            });
        }
        if let Some(left_out) = self.changes.next() {
            let (user, client) = (user.map(shown), client.map(tracing::field::display));
            tracing::info!(what, user, client, left_out, "{event}");
        }
    }

    /// A host name or web page was rejected.
    pub(super) fn refused(&self, who: &str, client: Option<IpAddr>) {
        self.denied(None, client, who, "a web page, or a name of this server, that is not allowed");
        if let Some(left_out) = self.rejected.next() {
            let client = client.map(tracing::field::display);
            tracing::warn!(
                who = shown(who),
                client,
                left_out,
                "refused a web page, or a name that is not allowed"
            );
        }
    }
}

/// Whether a statement drops or corrects something, or changes users. Their texts hold no passwords.
fn is_logged(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::AlterMeasurement(_)
            | Statement::CreateToken(_)
            | Statement::CreateUser(_)
            | Statement::Delete(_)
            | Statement::DropContinuousQuery { .. }
            | Statement::DropDatabase { .. }
            | Statement::DropMeasurement { .. }
            | Statement::DropRetentionPolicy { .. }
            | Statement::DropSeries(_)
            | Statement::DropShard { .. }
            | Statement::DropSubscription { .. }
            | Statement::DropToken { .. }
            | Statement::DropUser { .. }
            | Statement::Grant { .. }
            | Statement::GrantAdmin { .. }
            | Statement::Revoke { .. }
            | Statement::RevokeAdmin { .. }
            | Statement::SetPassword { .. }
            | Statement::SetQuota { .. }
            | Statement::Undo { .. }
            | Statement::Update(_)
    )
}

/// A text that a client chose, cut if it is long.
pub(super) fn shown(text: &str) -> String {
    let mut letters = text.chars();
    let shown: String = letters.by_ref().take(SHOWN_LETTERS).collect();
    if letters.next().is_some() { shown + "…" } else { shown }
}

/// Limits the lines of one kind.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// `None`: the line must be left out. Otherwise, how many lines were left out before it.
    pub(super) fn next(&self) -> Option<u64> {
        // No code under this lock can panic and leave a change unfinished.
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.since.is_none_or(|since| since.elapsed() >= WINDOW) {
            (window.since, window.lines) = (Some(Instant::now()), 0);
        }
        if window.lines == LINES_MAX {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_line_counts_those_left_out() {
        let pace = LogLimit::default();
        assert_eq!((0..LINES_MAX + 5).filter_map(|_| pace.next()).count(), LINES_MAX as usize);
        pace.0.lock().unwrap().since = Instant::now().checked_sub(WINDOW);
        assert_eq!((pace.next(), pace.next()), (Some(5), Some(0)));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shown("short"), "short");
        assert_eq!(shown(&"ä".repeat(SHOWN_LETTERS + 1)).chars().count(), SHOWN_LETTERS + 1);
    }
}
