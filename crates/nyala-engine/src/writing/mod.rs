//! A batch on its way into the log and into memory.
//!
//! `write.rs` takes a batch from admission to its answer, or leaves it to `abandoned.rs` if its caller goes away. `admission.rs` slows
//! writers when memory or the log is full.
//! `conditional_write.rs` decides what depends on the rows there are, `table_locks.rs` and `claims.rs` keep other
//! writers away meanwhile. `modify.rs` deletes and updates rows by predicates. `change_journal.rs` remembers what was
//! written since a stage was opened (`encoded_points.rs`: when that is very much).

mod abandoned;
pub(crate) mod admission;
pub(crate) mod change_journal;
pub(crate) mod claims;
pub(crate) mod conditional_write;
pub(crate) mod encoded_points;
pub(crate) mod log_state;
pub(crate) mod modify;
pub(crate) mod table_locks;
pub(crate) mod write;

use crate::files::fs::DirLock;
use crate::files::reserve::Reserve;
use crate::memory::history::History;
use crate::memory::publisher::VersionPublisher;
use crate::memory::watermark::TakenSequences;
use crate::options::EngineOptions;
use crate::reading::snapshot::EngineSnapshot;
use crate::runtime::signal::WorkSignal;
use crate::stats::Counters;
use crate::write_hook::WriteHook;
use abandoned::AbandonedBatches;
use admission::Admission;
use change_journal::ChangeJournal;
use claims::Claims;
use log_state::LogState;
use nyala_core::memory::MemoryBudget;
use nyala_core::{Result, TableSchema};
use std::sync::Arc;

/// What writers share.
pub(crate) struct Writer {
    pub(crate) versions: Arc<VersionPublisher>,
    pub(crate) log: LogState,
    /// Space for what deletes, on a full disk.
    pub(crate) reserve: Reserve,
    /// The lock of the store: see `table_locks.rs`.
    pub(crate) store_lock: Arc<tokio::sync::RwLock<()>>,
    pub(crate) admission: Admission,
    pub(crate) claims: Arc<Claims>,
    /// Batches whose callers went away.
    abandoned: Arc<AbandonedBatches>,
    pub(crate) journal: Arc<ChangeJournal>,
    pub(crate) budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    pub(crate) hook: WriteHook,
    /// Of [`EngineOptions`].
    describes_others: fn(&TableSchema) -> bool,
    /// Where the past is kept.
    pub(crate) history: Option<Arc<History>>,
    /// The lock of the directory: it is held until the engine and the last batch under way are gone, so it is dropped
    /// last.
    _lock: DirLock,
}

impl Writer {
    pub(crate) fn new(
        options: &EngineOptions,
        versions: &Arc<VersionPublisher>,
        reserve: Reserve,
        signal: &Arc<WorkSignal>,
        counters: &Arc<Counters>,
        lock: DirLock,
        history: Option<Arc<History>>,
    ) -> Result<Self> {
        let budget = options.memory.clone();
        Ok(Self {
            versions: versions.clone(),
            log: LogState::new(options.wal_bytes_max),
            reserve,
            store_lock: Arc::default(),
            admission: Admission::new(budget.clone(), counters.clone(), signal.clone())?,
            claims: Arc::default(),
            abandoned: Arc::default(),
            journal: Arc::new(ChangeJournal::new(&budget)),
            budget,
            counters: counters.clone(),
            hook: options.write_hook.clone(),
            describes_others: options.describes_others,
            history,
            _lock: lock,
        })
    }

    /// A view of everything acknowledged.
    pub(crate) fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot::latest(&self.versions, &self.budget)
    }

    /// Takes sequences that no batch gets. The present time belongs to the last one. The caller holds the lock of the
    /// store, for as long as readers do not see them.
    pub(crate) fn take_sequences(&self, count: u64) -> Result<TakenSequences> {
        let wal = self.log.wal();
        let time_ns = self.history.as_ref().map(|history| history.now_ns());
        let entry = self.versions.watermark.begin(wal.next_sequence())?;
        let last = wal.skip_sequences(count, |last| self.note_time(time_ns, last));
        Ok(TakenSequences::new(last, entry))
    }

    /// A view of everything applied, also of what readers do not see yet. All of it is in the log.
    pub(crate) fn applied(&self) -> EngineSnapshot {
        EngineSnapshot { sequence: self.log.wal().next_sequence() - 1, ..self.snapshot() }
    }
}
