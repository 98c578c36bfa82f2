//! What outlives a call: prepared statements, transactions, and the list of queries that run.
//!
//! Each has a number that nobody can guess, and belongs to the user who made it. What is not used for a while is forgotten,
//! because clients may never come back.

use crate::error::malformed;
use crate::prepared::PreparedStatement;
use crate::shared::Server;
use crate::transaction::OpenTransaction;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use nyala_sql::CancelHandle;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tonic::Status;
use tonic::codegen::Bytes;

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

/// A number that nobody can guess.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id([u8; Id::BYTES]);

impl Id {
    /// How long it is.
    pub(crate) const BYTES: usize = 16;

    /// A new one.
    pub(crate) fn new() -> Result<Self, Status> {
        let mut bytes = [0; Self::BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| Status::internal("the operating system gives no random numbers"))?;
        Ok(Self(bytes))
    }

    /// One that a client sends.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, Status> {
        bytes.try_into().map(Self).map_err(|error| malformed("the handle is not of this server", error))
    }

    /// As it is sent.
    pub(crate) fn bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }
}

/// What outlives a call.
pub(crate) struct Kept {
    pub(crate) statements: Registry<PreparedStatement>,
    pub(crate) transactions: Registry<OpenTransaction>,
    running: Mutex<HashMap<Id, Running>>,
}

/// Things of a kind by their numbers.
pub(crate) struct Registry<T> {
    what: &'static str,
    most: usize,
    time: Duration,
    memory: Arc<MemoryBudget>,
    entries: Mutex<HashMap<Id, Entry<T>>>,
}

struct Entry<T> {
    owner: Option<String>,
    value: Arc<T>,
    used: Instant,
    _charge: Charge,
}

impl<T> Registry<T> {
    fn new(what: &'static str, most: usize, time: Duration, memory: &Arc<MemoryBudget>) -> Self {
        Self { what, most, time, memory: memory.clone(), entries: Mutex::default() }
    }

    /// Keeps something that takes so much memory.
    pub(crate) fn insert(&self, owner: Option<&str>, value: T, bytes: usize) -> Result<Id, Status> {
        let charge = self.memory.try_charge(Component::Query, bytes as u64);
        let charge = charge.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let id = Id::new()?;
        let mut entries = self.entries.lock();
        if entries.len() >= self.most {
            let Self { what, most, .. } = self;
            return Err(Status::resource_exhausted(format!(
                "there are {most} {what}s, which is the most: close some"
            )));
        }
        let (owner, used) = (owner.map(str::to_owned), Instant::now());
        entries.insert(id, Entry { owner, value: Arc::new(value), used, _charge: charge });
        Ok(id)
    }

    /// What a client names.
    pub(crate) fn get(&self, id: &[u8], owner: Option<&str>) -> Result<Arc<T>, Status> {
        let id = Id::of(id)?;
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id).filter(|entry| entry.owner.as_deref() == owner);
        let entry = entry.ok_or_else(|| self.unknown())?;
        entry.used = Instant::now();
        Ok(entry.value.clone())
    }

    /// Forgets what a client names.
    pub(crate) fn remove(&self, id: &[u8], owner: Option<&str>) -> Result<Arc<T>, Status> {
        let id = Id::of(id)?;
        let mut entries = self.entries.lock();
        match entries.get(&id) {
            Some(entry) if entry.owner.as_deref() == owner => {}
            _ => return Err(self.unknown()),
        }
        entries.remove(&id).map(|entry| entry.value).ok_or_else(|| self.unknown())
    }

    pub(crate) fn count(&self) -> usize {
        self.entries.lock().len()
    }

    fn unknown(&self) -> Status {
        let Self { what, time, .. } = self;
        let minutes = time.as_secs() / 60;
        Status::not_found(format!(
            "there is no such {what}: it was closed, or not used for {minutes} minutes"
        ))
    }

    /// Forgets what is unused for long.
    fn sweep(&self) {
        let is_old =
            |entry: &Entry<T>| entry.used.elapsed() > self.time && Arc::strong_count(&entry.value) == 1;
        let mut old = Vec::new();
        self.entries.lock().retain(|_, entry| {
            let keeps = !is_old(entry);
            if !keeps {
                old.push(entry.value.clone());
            }
            keeps
        });
        // What is dropped here may take long, and nobody waits for the lock meanwhile.
        drop(old);
    }
}

/// A query that runs.
#[derive(Clone)]
struct Running {
    owner: Option<String>,
    handle: CancelHandle,
    cancelled: Arc<Notify>,
}

/// Keeps a query in the list until it is dropped.
pub(crate) struct ListedQuery {
    server: Arc<Server>,
    id: Id,
    cancelled: Arc<Notify>,
}

impl ListedQuery {
    /// Waits until somebody cancels it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for ListedQuery {
    fn drop(&mut self) {
        let mut running = self.server.kept.running.lock();
        if running.get(&self.id).is_some_and(|query| Arc::ptr_eq(&query.cancelled, &self.cancelled)) {
            running.remove(&self.id);
        }
    }
}

impl Kept {
    pub(crate) fn new(memory: &Arc<MemoryBudget>) -> Self {
        Self {
            statements: Registry::new("prepared statement", STATEMENTS_MAX, STATEMENT_TIME, memory),
            transactions: Registry::new("transaction", TRANSACTIONS_MAX, TRANSACTION_TIME, memory),
            running: Mutex::default(),
        }
    }

    /// Cancels a query that runs. Returns whether there is one.
    pub(crate) fn cancel(&self, id: Id, owner: Option<&str>) -> bool {
        let found = self.running.lock().get(&id).filter(|query| query.owner.as_deref() == owner).cloned();
        if let Some(query) = &found {
            query.handle.cancel();
            query.cancelled.notify_one();
        }
        found.is_some()
    }
}

impl Server {
    /// Enters a query into the list of those that run. If a ticket is used twice at once, the later query can be cancelled.
    pub(crate) fn list(self: &Arc<Self>, id: Id, owner: Option<&str>, handle: CancelHandle) -> ListedQuery {
        let cancelled = Arc::new(Notify::new());
        let query = Running { owner: owner.map(str::to_owned), handle, cancelled: cancelled.clone() };
        self.kept.running.lock().insert(id, query);
        ListedQuery { server: self.clone(), id, cancelled }
    }
}

/// Forgets what is unused, as long as there is a server.
pub(crate) async fn sweep(server: Weak<Server>) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(server) = server.upgrade() else { return };
        server.kept.statements.sweep();
        server.kept.transactions.sweep();
    }
}
