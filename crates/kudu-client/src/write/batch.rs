//! Batches of row operations for one tablet, and the rows that failed.

use std::sync::Arc;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::row::{EncodedRows, Row, RowReader};
use crate::schema::Schema;
use crate::tablets::Tablet;

/// A row that was not written, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowError {
    /// The row operation.
    pub row: Row,
    /// What the server (or this client) said of it.
    pub error: Error,
}

/// Rows that failed since they were last asked for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PendingErrors {
    /// The first of them, up to the session's limit.
    pub errors: Vec<RowError>,
    /// How many more there were.
    pub dropped: u64,
}

impl PendingErrors {
    /// Whether every row so far was written.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.dropped == 0
    }

    /// How many rows failed.
    pub fn count(&self) -> u64 {
        self.errors.len() as u64 + self.dropped
    }

    pub(super) fn push(&mut self, most: usize, row: Row, error: Error) {
        if self.errors.len() < most {
            self.errors.push(RowError { row, error });
        } else {
            self.dropped += 1;
        }
    }
}

/// Operations for one tablet, in the order they were given.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) tablet: Arc<Tablet>,
    pub(super) rows: EncodedRows,
    pub(super) first_row_at: Instant,
    /// When it must have been written; set when it is sealed.
    pub(super) deadline: Option<Instant>,
    /// Rises with each batch of a session; what a flush waits for.
    pub(super) number: u64,
}

impl Batch {
    pub(super) fn new(tablet: Arc<Tablet>, number: u64) -> Self {
        Self { tablet, rows: EncodedRows::default(), first_row_at: Instant::now(), deadline: None, number }
    }
}

/// How a batch ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The server took it; these rows (by place) failed.
    Applied { row_errors: Vec<(usize, Error)> },
    /// No row was written, or it is unknown whether any was (see the error).
    Failed(Error),
    /// The tablet is gone and others hold its keys now: the rows must be routed again.
    Moved,
}

/// Calls back with the rows that failed.
pub(super) fn failed_rows(
    schema: &Arc<Schema>,
    rows: &[u8],
    indirect: &[u8],
    outcome: &Outcome,
    mut report: impl FnMut(Row, Error),
) {
    let mut reader = RowReader::new(schema, rows, indirect);
    let mut place = 0;
    let mut reported = Vec::new();
    if let Outcome::Applied { row_errors } = outcome {
        reported = row_errors.clone();
        reported.sort_by_key(|(place, _)| *place);
    }
    let mut next = reported.into_iter().peekable();
    // The bytes are our own, so they can be read back.
    while let Ok(Some((_, row))) = reader.next_row() {
        match outcome {
            Outcome::Failed(error) => report(row, error.clone()),
            Outcome::Moved => {
                report(row, Error::new(ErrorKind::NotFound, "the partition of the row is gone"))
            }
            Outcome::Applied { .. } => match next.peek() {
                Some((failed, error)) if *failed == place => {
                    report(row, error.clone());
                    next.next();
                }
                Some(_) => {}
                None => return,
            },
        }
        place += 1;
    }
}
