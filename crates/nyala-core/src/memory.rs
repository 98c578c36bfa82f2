//! The account of all memory that grows with data: it knows how much each component holds and whether more may be
//! taken.
//!
//! A component charges memory before it takes it. Dropping the [`Charge`] gives the memory back, so the account cannot
//! drift. All parts of the program (memtables, series index, queries) share one budget: the limit applies to the whole
//! process. Memory that is resident but charged by nobody (overhead of the allocator, buffers of connections) is
//! measured and charged as [`Component::Uncharged`], so that the limit applies to what the process really takes.

use crate::error::{Error, Result};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Component {
    /// Rows not flushed yet.
    Memtable,
    /// Blocks of rowsets.
    BlockCache,
    /// Batches between arrival and acknowledgement.
    InFlight,
    /// Footers of rowsets, the deleted ranges that may hide rows of them, and when batches were written, for the past.
    RowsetIndex,
    /// The series index of the database, and the ids of series that writers cache.
    SeriesIndex,
    /// What running queries hold, and open stages with the keys that others wrote since. Also rows that were flushed, as
    /// long as somebody reads them in memory.
    Query,
    /// Written points on their way to subscribers.
    Subscribers,
    /// Resident memory that nobody charged, as measured last.
    Uncharged,
    /// What running flushes and compactions read and write.
    Maintenance,
}

/// All components, in the order of their numbers.
pub const COMPONENTS: [Component; 9] = [
    Component::Memtable,
    Component::BlockCache,
    Component::InFlight,
    Component::RowsetIndex,
    Component::SeriesIndex,
    Component::Query,
    Component::Subscribers,
    Component::Uncharged,
    Component::Maintenance,
];

impl Component {
    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Component::Memtable => "memtable",
            Component::BlockCache => "block_cache",
            Component::InFlight => "in_flight",
            Component::RowsetIndex => "rowset_index",
            Component::SeriesIndex => "series_index",
            Component::Query => "query",
            Component::Subscribers => "subscribers",
            Component::Uncharged => "uncharged",
            Component::Maintenance => "maintenance",
        }
    }
}

/// Frees this many bytes if it can.
type Reclaim = Arc<dyn Fn(u64) + Send + Sync>;

/// The shared account.
pub struct MemoryBudget {
    limit_bytes: u64,
    used_bytes: [AtomicU64; COMPONENTS.len()],
    reclaim: RwLock<Option<Reclaim>>,
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryBudget({})", self.describe())
    }
}

impl MemoryBudget {
    /// An account with a limit.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: Default::default(), reclaim: RwLock::default() })
    }

    /// Sets the function that frees memory which is only held for speed. Whoever takes memory when there is none left
    /// calls it, in its own thread. Only the last function that was set is used.
    pub fn reclaim_by(&self, reclaim: impl Fn(u64) + Send + Sync + 'static) {
        *self.reclaim.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(reclaim));
    }

    /// Whether this many more bytes stay within a bound, after caches were asked to make room.
    fn has_room(&self, bytes: u64, most: u64) -> bool {
        let beyond = || self.total_bytes().saturating_add(bytes).saturating_sub(most);
        if beyond() > 0 {
            let reclaim = self.reclaim.read().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(reclaim) = reclaim {
                reclaim(beyond());
            }
        }
        beyond() == 0
    }

    /// Whether all of the limit is taken, after caches were asked to make room.
    pub fn is_full(&self) -> bool {
        // Full means that not even one more byte fits.
        !self.has_room(1, self.limit_bytes)
    }

    /// The limit.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What one component holds.
    pub fn used_bytes(&self, component: Component) -> u64 {
        self.used_bytes[component as usize].load(Ordering::Relaxed)
    }

    /// What all components hold.
    pub fn total_bytes(&self) -> u64 {
        COMPONENTS.iter().map(|component| self.used_bytes(*component)).sum()
    }

    /// The most that memtables may hold; beyond this, writes are rejected. Memtables count until their rowset is
    /// published, so flushes begin earlier, at [`Self::flush_bytes`].
    pub fn memtable_bytes_max(&self) -> u64 {
        self.limit_bytes / 100 * 35
    }

    /// Above this, writers are slowed down.
    pub fn memtable_bytes_soft(&self) -> u64 {
        self.limit_bytes / 100 * 25
    }

    /// An active memtable of this size is flushed.
    pub fn flush_bytes(&self) -> u64 {
        self.limit_bytes / 100 * 16
    }

    /// The most that the block cache may hold. It has a share of its own, and may grow while the others use little of
    /// theirs. It shrinks when the others leave no room.
    pub fn cache_bytes_max(&self) -> u64 {
        let hundredth = self.limit_bytes / 100;
        let others = self.total_bytes().saturating_sub(self.used_bytes(Component::BlockCache));
        let share = (hundredth * 60).saturating_sub(others).clamp(hundredth * 25, hundredth * 40);
        share.min((hundredth * 90).saturating_sub(others)).max(self.cache_bytes_min())
    }

    /// What the block cache keeps even when memory is short. Without it, running queries would read each block again
    /// and again.
    pub fn cache_bytes_min(&self) -> u64 {
        self.limit_bytes / 100 * 3
    }

    /// The most that footers of rowsets may hold while nobody reads them.
    pub fn index_bytes_max(&self) -> u64 {
        self.limit_bytes / 100 * 5
    }

    /// The most that may be held for subscribers.
    pub fn subscribers_bytes_max(&self) -> u64 {
        self.limit_bytes / 16
    }

    /// The bound on the total when this component takes more. Queries stop below the limit, so that they do not block
    /// writes.
    fn ceiling_bytes(&self, component: Component) -> u64 {
        match component {
            Component::Query => self.limit_bytes / 100 * 90,
            _ => self.limit_bytes,
        }
    }

    /// Takes memory. Fails with retry if this would exceed the limit.
    pub fn try_charge(self: &Arc<Self>, component: Component, bytes: u64) -> Result<Charge> {
        let mut charge = self.charge(component, 0);
        charge.try_grow(bytes)?;
        Ok(charge)
    }

    /// Who holds how much, for the error message when there is no memory left.
    pub fn describe(&self) -> String {
        let mut held: Vec<_> = COMPONENTS.iter().map(|each| (self.used_bytes(*each), each.name())).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        let held = held.into_iter().filter(|(bytes, _)| *bytes >= 1 << 20);
        let held: Vec<_> = held.map(|(bytes, name)| format!("{name} {} MiB", bytes >> 20)).collect();
        format!("usable memory is {} MiB; in use: {}", self.limit_bytes >> 20, held.join(", "))
    }

    /// Takes memory that is needed to make progress, even beyond the limit.
    pub fn charge(self: &Arc<Self>, component: Component, bytes: u64) -> Charge {
        let mut charge = Charge { budget: self.clone(), component, bytes: 0 };
        charge.grow(bytes);
        charge
    }
}

/// Memory that is taken. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<MemoryBudget>,
    component: Component,
    bytes: u64,
}

impl Charge {
    /// How much.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes more. Fails with retry if this would exceed the limit.
    pub fn try_grow(&mut self, bytes: u64) -> Result<()> {
        let budget = &self.budget;
        let beyond_limit = !budget.has_room(bytes, budget.ceiling_bytes(self.component));
        // A batch is charged before its size in log and memtable is known, which may be several times as large. So all
        // batches together get only a part of the limit; a single batch is always admitted.
        let in_flight = budget.used_bytes(Component::InFlight);
        let crowded = self.component == Component::InFlight
            && in_flight > self.bytes
            && in_flight.saturating_add(bytes) > budget.limit_bytes / 4;
        // Subscribers get memory only after all others.
        let beyond_share = self.component == Component::Subscribers
            && budget.used_bytes(Component::Subscribers).saturating_add(bytes)
                > budget.subscribers_bytes_max();
        if beyond_limit || crowded || beyond_share {
            return Err(Error::retry(format!(
                "memory is full, try again ({} asks for {} KiB; {})",
                self.component.name(),
                bytes.div_ceil(1024),
                self.budget.describe()
            )));
        }
        self.grow(bytes);
        Ok(())
    }

    /// Takes more, even beyond the limit.
    pub fn grow(&mut self, bytes: u64) {
        self.budget.used_bytes[self.component as usize].fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Counts what is held as another component's.
    pub fn move_to(&mut self, component: Component) {
        let bytes = self.bytes;
        self.set(0);
        self.component = component;
        self.grow(bytes);
    }

    /// Sets how much is held.
    pub fn set(&mut self, bytes: u64) {
        if bytes >= self.bytes {
            self.grow(bytes - self.bytes);
        } else {
            let less = self.bytes - bytes;
            self.budget.used_bytes[self.component as usize].fetch_sub(less, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_given_back_and_the_limit_is_enforced() {
        let budget = MemoryBudget::new(1000);
        let mut first = budget.try_charge(Component::Query, 600).expect("fits");
        assert!(budget.try_charge(Component::InFlight, 500).is_err());
        first.set(100);
        let second = budget.try_charge(Component::InFlight, 500).expect("fits now");
        assert_eq!(budget.total_bytes(), 600);
        drop((first, second));
        assert_eq!(budget.total_bytes(), 0);
    }

    #[test]
    fn what_is_held_can_become_another_components() {
        let budget = MemoryBudget::new(1000);
        let mut rows = budget.charge(Component::Memtable, 300);
        rows.move_to(Component::Query);
        let used = [Component::Memtable, Component::Query].map(|component| budget.used_bytes(component));
        assert_eq!(used, [0, 300]);
        drop(rows);
        assert_eq!(budget.total_bytes(), 0);
    }

    #[test]
    fn caches_are_asked_to_make_room() {
        let budget = MemoryBudget::new(1000);
        let cached = Arc::new(std::sync::Mutex::new(budget.charge(Component::BlockCache, 400)));
        let held = cached.clone();
        budget.reclaim_by(move |bytes| {
            let mut held = held.lock().expect("nobody panicked");
            let left = held.bytes().saturating_sub(bytes);
            held.set(left);
        });
        let rows = budget.charge(Component::Memtable, 500);
        let query = budget.try_charge(Component::Query, 300).expect("the cache makes room");
        assert_eq!(cached.lock().expect("nobody panicked").bytes(), 100);
        let batch = budget.try_charge(Component::InFlight, 100).expect("fits");
        assert!(!budget.is_full(), "a byte more has room");
        assert!(budget.try_charge(Component::Memtable, 200).is_err(), "there is no more to give");
        drop((rows, query, batch));
    }

    #[test]
    fn subscribers_have_a_bounded_share_of_the_memory() {
        let budget = MemoryBudget::new(1600);
        assert!(budget.try_charge(Component::Subscribers, 101).is_err(), "also one alone");
        let _held = budget.try_charge(Component::Subscribers, 100).expect("the share");
        assert!(budget.try_charge(Component::Subscribers, 1).is_err());
        let _first = budget.try_charge(Component::InFlight, 100).expect("fits");
        budget.try_charge(Component::InFlight, 300).expect("bodies have their quarter to themselves");
    }
}
