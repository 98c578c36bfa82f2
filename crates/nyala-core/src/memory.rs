//! One account for all memory that grows with data: who holds how much, and whether more may be taken.
//!
//! Charges are made before memory is taken and given back by dropping the [`Charge`], so the account
//! cannot drift. Other parts of the program (series index, queries) charge the same budget: the limit
//! is one number for the whole process. What is resident and was charged by nobody (what the allocator holds beside,
//! buffers of connections) is measured and charged too, as [`Component::Uncharged`], so that limits act on what the
//! process really takes.

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
    /// Batches between arrival and acknowledgement, pieces of scans.
    InFlight,
    /// Footers of rowsets.
    RowsetIndex,
    /// Series index of the database above, and what writers remember of it.
    SeriesIndex,
    /// States of running queries.
    Query,
    /// What was written, on its way to subscribers.
    Subscribers,
    /// What is resident beyond what the others charge, as it was measured last.
    Uncharged,
    /// What flushes and compactions read and write at the moment.
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

/// Gives so many bytes back, if it can.
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

    /// Says what is asked for memory that is held for speed alone, when there is none left. It is asked by whoever takes
    /// memory, in that thread; only the last one counts.
    pub fn reclaim_by(&self, reclaim: impl Fn(u64) + Send + Sync + 'static) {
        *self.reclaim.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(reclaim));
    }

    /// Whether so many bytes more stay within some bound, after what is held for speed alone was asked to make room.
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

    /// Whether all of the limit is taken, after what is held for speed alone was asked to make room.
    pub fn is_full(&self) -> bool {
        // Not even a byte more.
        !self.has_room(1, self.limit_bytes)
    }

    /// The limit.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What a component holds.
    pub fn used_bytes(&self, component: Component) -> u64 {
        self.used_bytes[component as usize].load(Ordering::Relaxed)
    }

    /// What all hold.
    pub fn total_bytes(&self) -> u64 {
        COMPONENTS.iter().map(|component| self.used_bytes(*component)).sum()
    }

    /// The most memtables may hold: past it writes are refused. Flushing memtables count until their
    /// rowset is published, so a flush begins at [`Self::flush_bytes`] already.
    pub fn memtable_bytes_max(&self) -> u64 {
        self.limit_bytes / 100 * 35
    }

    /// Where writers begin to be slowed.
    pub fn memtable_bytes_soft(&self) -> u64 {
        self.limit_bytes / 100 * 25
    }

    /// Active memtables this large are flushed.
    pub fn flush_bytes(&self) -> u64 {
        self.limit_bytes / 100 * 16
    }

    /// The most the block cache may hold: a share of its own, and while the others hold little part of theirs; less
    /// where they hold so much that nothing else is left.
    pub fn cache_bytes_max(&self) -> u64 {
        let hundredth = self.limit_bytes / 100;
        let others = self.total_bytes().saturating_sub(self.used_bytes(Component::BlockCache));
        let share = (hundredth * 60).saturating_sub(others).clamp(hundredth * 25, hundredth * 40);
        share.min((hundredth * 90).saturating_sub(others)).max(self.cache_bytes_min())
    }

    /// What the block cache keeps however short memory is: without it, what runs would read each block again and again.
    pub fn cache_bytes_min(&self) -> u64 {
        self.limit_bytes / 100 * 3
    }

    /// The most that footers of rowsets may hold that nobody reads just now.
    pub fn index_bytes_max(&self) -> u64 {
        self.limit_bytes / 100 * 5
    }

    /// The most that may be held on the way to subscribers.
    pub fn subscribers_bytes_max(&self) -> u64 {
        self.limit_bytes / 16
    }

    /// The most that may be held when a component takes more. Queries stop short of the limit, so that they do
    /// not keep writes out.
    fn ceiling_bytes(&self, component: Component) -> u64 {
        match component {
            Component::Query => self.limit_bytes / 100 * 90,
            _ => self.limit_bytes,
        }
    }

    /// Takes memory, or says retry when the limit would be passed.
    pub fn try_charge(self: &Arc<Self>, component: Component, bytes: u64) -> Result<Charge> {
        let mut charge = self.charge(component, 0);
        charge.try_grow(bytes)?;
        Ok(charge)
    }

    /// What holds how much, for an error that says why there is no more.
    pub fn describe(&self) -> String {
        let mut held: Vec<_> = COMPONENTS.iter().map(|each| (self.used_bytes(*each), each.name())).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        let held = held.into_iter().filter(|(bytes, _)| *bytes >= 1 << 20);
        let held: Vec<_> = held.map(|(bytes, name)| format!("{name} {} MiB", bytes >> 20)).collect();
        format!("memory-limit is {} MiB; in use: {}", self.limit_bytes >> 20, held.join(", "))
    }

    /// Takes memory that is needed to make progress, whatever the limit.
    pub fn charge(self: &Arc<Self>, component: Component, bytes: u64) -> Charge {
        let mut charge = Charge { budget: self.clone(), component, bytes: 0 };
        charge.grow(bytes);
        charge
    }
}

/// Memory taken; dropping gives it back.
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

    /// Takes more, or says retry when the limit would be passed.
    pub fn try_grow(&mut self, bytes: u64) -> Result<()> {
        let budget = &self.budget;
        let full = !budget.has_room(bytes, budget.ceiling_bytes(self.component));
        // A batch is charged before it is known what it comes to in log and memtable: some times as much. So all
        // of them together get a part only; one alone always gets in.
        let in_flight = budget.used_bytes(Component::InFlight);
        let crowded = self.component == Component::InFlight
            && in_flight > self.bytes
            && in_flight.saturating_add(bytes) > budget.limit_bytes / 4;
        // Subscribers are served after all others.
        let beyond_share = self.component == Component::Subscribers
            && budget.used_bytes(Component::Subscribers).saturating_add(bytes)
                > budget.subscribers_bytes_max();
        if full || crowded || beyond_share {
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

    /// Takes more, whatever the limit.
    pub fn grow(&mut self, bytes: u64) {
        self.budget.used_bytes[self.component as usize].fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
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
    fn charges_are_given_back_and_the_limit_holds() {
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
    fn what_is_held_for_speed_alone_makes_room() {
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
    fn subscribers_have_a_share_of_their_own_and_no_more() {
        let budget = MemoryBudget::new(1600);
        assert!(budget.try_charge(Component::Subscribers, 101).is_err(), "also one alone");
        let _held = budget.try_charge(Component::Subscribers, 100).expect("the share");
        assert!(budget.try_charge(Component::Subscribers, 1).is_err());
        let _first = budget.try_charge(Component::InFlight, 100).expect("fits");
        budget.try_charge(Component::InFlight, 300).expect("bodies have their quarter to themselves");
    }
}
