//! What surrounds a query, whatever its language.

use crate::running::{Query, RunningQueries};
use nyala_core::Result;
use nyala_db::catalog::Catalog;
use nyala_db::users::Rights;
use std::sync::Arc;

/// What surrounds a query.
#[derive(Clone)]
pub struct Surroundings {
    /// All databases.
    pub catalog: Arc<Catalog>,
    /// The time of day that the query takes for now, ns.
    pub now_ns: i64,
    /// Whose request it is.
    pub rights: Rights,
    /// What runs beside it, and the bounds.
    pub running: Arc<RunningQueries>,
    /// The query itself among them, if it is to be listed and stopped.
    pub query: Option<Arc<Query>>,
}

impl Surroundings {
    /// Says that the query must stop, if so: for what computes long without waiting.
    pub fn check_running(&self) -> Result<()> {
        self.query.as_ref().map_or(Ok(()), |query| query.check())
    }
}
