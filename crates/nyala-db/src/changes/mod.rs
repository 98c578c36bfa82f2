//! The changes of points that can be undone: which statements changed what, for as long as the history of the store lasts.
//!
//! A change is noted after it was made, and before it is answered. If the server stops in between, nobody was told of the
//! change, and it is not in the list (`list`). Its records are in `record`. `undo` takes changes back.

mod list;
mod record;

pub(crate) use list::Changes;
pub(crate) use record::read_arbitrary;

use nyala_core::{ColumnId, Sequence, TableId, TimeRange};
use roaring::RoaringBitmap;
use std::fmt;
use std::net::IpAddr;

/// The number of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(pub u64);

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientProtocol {
    /// HTTP: InfluxQL, SQL, moves, backups.
    Http,
    /// PostgreSQL's.
    Postgres,
    /// Arrow Flight SQL.
    Flight,
}

impl ClientProtocol {
    /// Its name in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            ClientProtocol::Http => "http",
            ClientProtocol::Postgres => "postgres",
            ClientProtocol::Flight => "flight",
        }
    }
}

/// Where a client is, and how it speaks to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RemoteClient {
    /// Its address, if that is known.
    pub address: Option<IpAddr>,
    /// What it speaks, if that is known.
    pub protocol: Option<ClientProtocol>,
}

impl RemoteClient {
    /// A client at an address, if that is known, which speaks a protocol.
    pub fn of(address: Option<IpAddr>, protocol: ClientProtocol) -> Self {
        Self { address, protocol: Some(protocol) }
    }
}

/// Who changes points, and by which statement.
#[derive(Debug, Clone)]
pub struct Author {
    /// The user, if that is known.
    pub user: Option<String>,
    /// Where it comes from.
    pub client: RemoteClient,
    /// The database.
    pub database: String,
    /// The statement.
    pub statement: String,
    /// The time, ns.
    pub now_ns: i64,
}

/// A change of points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number.
    pub id: ChangeId,
    /// When it was made, ns.
    pub time_ns: i64,
    /// The user, if that is known.
    pub user: Option<String>,
    /// The database.
    pub database: String,
    /// The statement; a long one is cut.
    pub statement: String,
    /// How many points were changed, if they were counted.
    pub points: Option<u64>,
    /// The sequence of its first part.
    pub(crate) first: Sequence,
}

/// What a statement has changed in one table, at one sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedPart {
    pub(crate) table: TableId,
    /// The measurement.
    pub(crate) measurement: String,
    pub(crate) sequence: Sequence,
    /// A range that has the times of all that was changed.
    pub(crate) time: TimeRange,
    /// Series of which points may have been changed; `None`: any.
    pub(crate) series: Option<RoaringBitmap>,
    /// The columns of fields that were changed; `None`: whole points.
    pub(crate) columns: Option<Vec<ColumnId>>,
}

/// How many points were changed, and where.
#[derive(Debug, Default)]
pub struct Changed {
    /// How many points, if they were counted.
    pub points: u64,
    /// What was changed; `None`: nothing.
    pub part: Option<ChangedPart>,
}

impl ChangedPart {
    /// The same, where only some columns of fields were changed.
    #[must_use]
    pub fn of_columns(mut self, columns: Vec<ColumnId>) -> Self {
        self.columns = Some(columns);
        self
    }
}
