//! What surrounds an InfluxQL query.

use crate::report::Reporter;
use nyala_db::write::LineWriter;
use nyala_exec::Surroundings;
use std::ops::Deref;
use std::sync::Arc;

/// What surrounds a query, and what InfluxQL alone asks for.
#[derive(Clone)]
pub struct QueryContext {
    /// What surrounds a query of any language.
    pub around: Surroundings,
    /// The database where none is written; may be empty.
    pub database: String,
    /// The retention policy where none is written; empty for the database's default.
    pub retention_policy: String,
    /// Writes what `SELECT INTO` selects.
    pub writer: Arc<LineWriter>,
    /// Tells what only the server knows.
    pub reporter: Reporter,
}

impl Deref for QueryContext {
    type Target = Surroundings;

    fn deref(&self) -> &Surroundings {
        &self.around
    }
}
