//! The context that an InfluxQL query runs in.

use crate::report::Reporter;
use nyala_db::write::LineWriter;
use nyala_exec::ExecutionContext;
use std::ops::Deref;
use std::sync::Arc;

/// The context of a query of any language, and what InfluxQL needs besides.
#[derive(Clone)]
pub struct QueryContext {
    /// The context of a query of any language.
    pub around: ExecutionContext,
    /// The database of statements that name none; may be empty.
    pub database: String,
    /// The retention policy of statements that name none; empty means the database's default.
    pub retention_policy: String,
    /// Writes what `SELECT INTO` selects.
    pub writer: Arc<LineWriter>,
    /// Reports about the server.
    pub reporter: Reporter,
}

impl Deref for QueryContext {
    type Target = ExecutionContext;

    fn deref(&self) -> &ExecutionContext {
        &self.around
    }
}
