//! Batches of row operations for one tablet, and the rows that failed.

use std::sync::Arc;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::location_cache::Tablet;
use crate::row::{EncodedRows, Row, RowReader};
use crate::schema::Schema;

/// A row that was not written, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowError {
    /// The row operation.
    pub row: Row,
    /// The error of the server or of this client.
    pub error: Error,
}

/// Rows that failed since errors were last taken.
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

/// Operations for one tablet, in the order in which they were applied.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) tablet: Arc<Tablet>,
    pub(super) rows: EncodedRows,
    pub(super) first_row_at: Instant,
    /// When it must be written; set when the batch takes no more rows.
    pub(super) deadline: Option<Instant>,
    /// Rises with each batch of a session. A flush waits for all batches up to a number.
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
    /// The server applied it; these rows (by index) failed.
    Applied { row_errors: Vec<(usize, Error)> },
    /// No row was written, or it is unknown whether any was; the error says which of the two.
    Failed(Error),
    /// The tablet no longer exists: the rows must go to the tablets that hold its keys now.
    Moved,
}

/// Calls `report` with each row that failed.
pub(super) fn failed_rows(
    schema: &Arc<Schema>,
    rows: &[u8],
    indirect: &[u8],
    outcome: &Outcome,
    mut report: impl FnMut(Row, Error),
) {
    let mut reader = RowReader::new(schema, rows, indirect);
    let mut index = 0;
    let mut reported = Vec::new();
    if let Outcome::Applied { row_errors } = outcome {
        reported = row_errors.clone();
        reported.sort_by_key(|(index, _)| *index);
    }
    let mut row_errors = reported.into_iter().peekable();
    // This client encoded the bytes, so decoding them cannot fail.
    while let Ok(Some((_, row))) = reader.next_row() {
        match outcome {
            Outcome::Failed(error) => report(row, error.clone()),
            Outcome::Moved => {
                report(row, Error::new(ErrorKind::NotFound, "the partition of the row was dropped"))
            }
            Outcome::Applied { .. } => match row_errors.peek() {
                Some((failed, error)) if *failed == index => {
                    report(row, error.clone());
                    row_errors.next();
                }
                Some(_) => {}
                None => return,
            },
        }
        index += 1;
    }
}
