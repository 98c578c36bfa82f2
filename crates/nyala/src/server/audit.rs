//! What clients did that whoever runs the server wants to find in its log: failed log-ins, what was dropped, changes of
//! users, pages that were refused.
//!
//! A client must not fill the log: of each kind so many lines are written in a while, and what was left out is counted
//! in the next line. Names that clients chose are written as quoted text, and cut.

use nyala_query::influxql::Statement;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a kind ...
const LINES_MAX: u32 = 20;
/// ... in this time.
const WHILE: Duration = Duration::from_secs(10);
/// What is shown of a name or statement.
const SHOWN_LETTERS: usize = 500;

/// Writes about clients into the log.
#[derive(Debug, Default)]
pub struct Audit {
    log_ins: Pace,
    changes: Pace,
    strangers: Pace,
}

impl Audit {
    /// Somebody gave a name and a wrong password, or a token that is not good.
    pub(super) fn log_in_failed(&self, user: &str, client: Option<IpAddr>) {
        if let Some(left_out) = self.log_ins.next() {
            tracing::warn!(
                user = shown(user),
                client = client.map(tracing::field::display),
                left_out,
                "a log-in failed"
            );
        }
    }

    /// A statement was executed.
    pub(super) fn executed(
        &self,
        statement: &Statement,
        database: &str,
        user: Option<&str>,
        client: Option<IpAddr>,
    ) {
        if is_told(statement) {
            self.changed(statement, database, user, client);
        }
    }

    /// Something was dropped, or changed about users.
    pub(super) fn changed(
        &self,
        what: &dyn Display,
        database: &str,
        user: Option<&str>,
        client: Option<IpAddr>,
    ) {
        if let Some(left_out) = self.changes.next() {
            let (statement, database) = (shown(&what.to_string()), shown(database));
            let (user, client) = (user.map(shown), client.map(tracing::field::display));
            tracing::info!(statement, database, user, client, left_out, "executed");
        }
    }

    /// A name or page was refused.
    pub(super) fn refused(&self, who: &str, client: Option<IpAddr>) {
        if let Some(left_out) = self.strangers.next() {
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

/// Whether a statement drops something or changes users. Their texts hold no passwords.
fn is_told(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateUser(_)
            | Statement::DropContinuousQuery { .. }
            | Statement::DropDatabase { .. }
            | Statement::DropMeasurement { .. }
            | Statement::DropRetentionPolicy { .. }
            | Statement::DropSeries(_)
            | Statement::DropShard { .. }
            | Statement::DropSubscription { .. }
            | Statement::DropUser { .. }
            | Statement::Grant { .. }
            | Statement::GrantAdmin { .. }
            | Statement::Revoke { .. }
            | Statement::RevokeAdmin { .. }
            | Statement::SetPassword { .. }
    )
}

fn shown(text: &str) -> String {
    let mut letters = text.chars();
    let shown: String = letters.by_ref().take(SHOWN_LETTERS).collect();
    if letters.next().is_some() { shown + "…" } else { shown }
}

/// How many lines of a kind there were of late.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Pace {
    /// Whether there may be another line, and how many were left out before it.
    pub(super) fn next(&self) -> Option<u64> {
        // Nothing under this lock can panic half-way.
        let mut lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lately.since.is_none_or(|since| since.elapsed() >= WHILE) {
            (lately.since, lately.lines) = (Some(Instant::now()), 0);
        }
        if lately.lines == LINES_MAX {
            lately.left_out += 1;
            return None;
        }
        lately.lines += 1;
        Some(std::mem::take(&mut lately.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_in_the_next_line() {
        let pace = Pace::default();
        assert_eq!((0..LINES_MAX + 5).filter_map(|_| pace.next()).count(), LINES_MAX as usize);
        pace.0.lock().unwrap().since = Instant::now().checked_sub(WHILE);
        assert_eq!((pace.next(), pace.next()), (Some(5), Some(0)));
    }

    #[test]
    fn texts_are_cut() {
        assert_eq!(shown("short"), "short");
        assert_eq!(shown(&"ä".repeat(SHOWN_LETTERS + 1)).chars().count(), SHOWN_LETTERS + 1);
    }
}
