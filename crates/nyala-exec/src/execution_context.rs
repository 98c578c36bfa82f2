//! The catalog, the clock, the principal and the limits that a query of any language runs with.

use crate::running::{Query, RunningQueries};
use nyala_core::Result;
use nyala_core::store::{Freshness, SnapshotRef};
use nyala_db::catalog::Catalog;
use nyala_db::users::Principal;
use std::sync::Arc;

/// What a query runs with.
#[derive(Clone)]
pub struct ExecutionContext {
    /// All databases.
    pub catalog: Arc<Catalog>,
    /// What the query must show.
    pub freshness: Freshness,
    /// The time that `now()` means in the query, ns.
    pub now_ns: i64,
    /// Who sent the request.
    pub principal: Principal,
    /// All running queries, and their limits.
    pub running: Arc<RunningQueries>,
    /// The query's own entry among them, if it can be listed and killed.
    pub query: Option<Arc<Query>>,
}

impl ExecutionContext {
    /// The rows that the query shows.
    pub async fn snapshot(&self) -> Result<SnapshotRef> {
        self.catalog.store().snapshot(self.freshness).await
    }

    /// Fails if the query must stop. Long computations that never wait call this.
    pub fn check_running(&self) -> Result<()> {
        self.query.as_ref().map_or(Ok(()), |query| query.check())
    }
}
