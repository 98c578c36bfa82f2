//! A prepared statement as it is kept, with the rows of parameters that its client has bound last.

use crate::sessions::Using;
use arrow_array::RecordBatch;
use nyala_core::memory::Charge;
use nyala_sql::Prepared;
use parking_lot::Mutex;
use std::sync::Arc;
use tonic::Status;

/// A prepared statement.
pub(crate) struct PreparedStatement {
    pub(crate) using: Using,
    pub(crate) prepared: Prepared,
    pub(crate) bound: Mutex<Bound>,
}

/// Rows of parameters.
pub(crate) struct Bound {
    pub(crate) rows: Arc<Vec<RecordBatch>>,
    pub(crate) _charge: Charge,
}

impl PreparedStatement {
    /// The rows of parameters, or that there need not be any.
    pub(crate) fn bound(&self) -> Result<Parameters, Status> {
        if self.prepared.parameters.is_empty() {
            return Ok(Parameters { rows: Arc::default(), is_once: true });
        }
        let rows = self.bound.lock().rows.clone();
        if rows.iter().all(|rows| rows.num_rows() == 0) {
            let count = self.prepared.parameters.len();
            let words =
                format!("the statement has {count} parameters, and no values are bound (SQLSTATE 42P02)");
            return Err(Status::invalid_argument(words));
        }
        Ok(Parameters { rows, is_once: false })
    }
}

/// With what a statement is executed.
pub(crate) struct Parameters {
    pub(crate) rows: Arc<Vec<RecordBatch>>,
    /// It has no parameters, and is executed once.
    is_once: bool,
}

/// A row of values: the batch that it is in, and its number there.
pub(crate) type ParameterRow<'a> = (&'a RecordBatch, usize);
/// Which row is next: the number of its batch, and its own number there.
pub(crate) type Place = (usize, usize);

impl Parameters {
    /// The values of the next execution, `None` inside if there are no parameters, and the place behind them.
    pub(crate) fn next(&self, (batch, row): Place) -> Option<(Option<ParameterRow<'_>>, Place)> {
        if self.is_once {
            return (batch == 0).then_some((None, (1, 0)));
        }
        let rows = self.rows.get(batch)?;
        match row < rows.num_rows() {
            true => Some((Some((rows, row)), (batch, row + 1))),
            false => self.next((batch + 1, 0)),
        }
    }
}
