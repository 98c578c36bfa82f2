//! Things that clients name by numbers that nobody can guess. Each belongs to the user who made it, and is forgotten when it is
//! not used for a while, because clients may never come back.

use crate::error::malformed;
use nyala_core::memory::{Charge, Component, MemoryBudget};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Status;
use tonic::codegen::Bytes;

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
    pub(crate) fn new(what: &'static str, most: usize, time: Duration, memory: &Arc<MemoryBudget>) -> Self {
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
    pub(crate) fn sweep(&self) {
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
