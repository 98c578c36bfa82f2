//! What outlives a call: prepared statements, transactions, and the list of queries that run.

use crate::prepared_statement::PreparedStatement;
use crate::registry::Registry;
use crate::running::RunningQueries;
use crate::sessions::OpenTransaction;
use nyala_core::memory::MemoryBudget;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The most prepared statements at once.
const STATEMENTS_MAX: usize = 4096;
/// How long a prepared statement is kept unused.
const STATEMENT_TIME: Duration = Duration::from_secs(3600);
/// The most open transactions.
const TRANSACTIONS_MAX: usize = 256;
/// How long a transaction stays open unused: it keeps old rows from being removed.
const TRANSACTION_TIME: Duration = Duration::from_secs(300);
/// How often what is unused is looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// What outlives a call.
pub(crate) struct Kept {
    pub(crate) statements: Registry<PreparedStatement>,
    pub(crate) transactions: Registry<OpenTransaction>,
    pub(crate) running: RunningQueries,
}

impl Kept {
    pub(crate) fn new(memory: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            statements: Registry::new("prepared statement", STATEMENTS_MAX, STATEMENT_TIME, memory),
            transactions: Registry::new("transaction", TRANSACTIONS_MAX, TRANSACTION_TIME, memory),
            running: RunningQueries::default(),
        })
    }
}

/// Forgets what is unused, as long as there is a server.
pub(crate) async fn sweep(kept: Weak<Kept>) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(kept) = kept.upgrade() else { return };
        kept.statements.sweep();
        kept.transactions.sweep();
    }
}
