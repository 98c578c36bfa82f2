//! What a statement has done.

use nyala_db::changes::ChangeId;
use std::fmt;

/// What was done, as PostgreSQL reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTag {
    /// The command, such as `INSERT` or `CREATE TABLE`.
    pub command: &'static str,
    /// How many rows were changed, if it changes rows.
    pub rows: Option<u64>,
    /// The number of the change, if it can be undone.
    pub change: Option<ChangeId>,
}

impl CommandTag {
    /// A command that does not count rows.
    pub(crate) fn of(command: &'static str) -> Self {
        Self { command, rows: None, change: None }
    }
}

impl fmt::Display for CommandTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            // The zero was an object id once.
            Some(rows) if self.command == "INSERT" => write!(f, "INSERT 0 {rows}"),
            Some(rows) => write!(f, "{} {rows}", self.command),
            None => f.write_str(self.command),
        }
    }
}
