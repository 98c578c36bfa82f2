//! Slots: the windows that have rows, numbered densely.

use crate::memory::{MemoryCharge, QueryMemory};
use hashbrown::HashMap;
use nyala_core::store::Windows;
use nyala_core::{Result, TimeRange};

/// The slot of a row that is in no window.
pub const NO_SLOT: u32 = u32::MAX;
/// About how many bytes a window takes in each reducer.
const SLOT_BYTES: usize = 64;

/// Numbers windows in the order in which rows arrive, because there may be far more windows without rows.
pub struct WindowSlots {
    held: MemoryCharge,
    slots: HashMap<u32, u32>,
    windows: Vec<u32>,
    /// The window of the previous row: the next row is likely to be in it.
    last: Option<(TimeRange, u32)>,
}

impl WindowSlots {
    /// No windows yet.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { held: memory.hold(), slots: HashMap::new(), windows: Vec::new(), last: None }
    }

    /// The slot of each row.
    pub fn of_times(&mut self, windows: &Windows, times_ns: &[i64]) -> Result<Vec<u32>> {
        let known = self.windows.len();
        let slots = times_ns.iter().map(|time_ns| self.of_time(windows, *time_ns)).collect();
        self.held.charge((self.windows.len() - known) * SLOT_BYTES)?;
        Ok(slots)
    }

    fn of_time(&mut self, windows: &Windows, time_ns: i64) -> u32 {
        if let Some((range, slot)) = self.last
            && range.contains(time_ns)
        {
            return slot;
        }
        let Some(index) = windows.index_of(time_ns) else { return NO_SLOT };
        let next = self.windows.len() as u32;
        let slot = *self.slots.entry(index as u32).or_insert(next);
        if slot == next {
            self.windows.push(index as u32);
        }
        self.last = Some((windows.range(index), slot));
        slot
    }

    /// The windows in ascending order, each with its slot.
    pub fn in_order(&self) -> Vec<(u32, u32)> {
        let mut order: Vec<(u32, u32)> =
            self.windows.iter().enumerate().map(|(slot, window)| (*window, slot as u32)).collect();
        order.sort_unstable();
        order
    }
}
