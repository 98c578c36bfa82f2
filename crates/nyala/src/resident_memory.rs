//! Measures the resident memory of the process several times a second. What is resident but not charged is charged here
//! as `uncharged`, so that limits act on the true size; memory that the allocator keeps is returned to the system.

use crate::allocator;
use crate::server::http::buffer_pool::BufferPool;
use crate::server::metric::Metric;
use nyala_core::memory::{Component, MemoryBudget};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often memory is measured.
const INTERVAL: Duration = Duration::from_millis(250);
/// The shortest time between two returns of memory: the system clears returned pages when they are needed again. When
/// memory is short, it is returned every time, so that free memory does not cause refusals.
const RETURN_INTERVAL: Duration = Duration::from_secs(1);
/// The most code that counts: about what a server uses that is asked no SQL. Pages of code that was used once stay resident
/// as long as nobody else needs memory, and the system drops them without writing anything, so data need not make room for
/// them.
const CODE_BYTES_MAX: u64 = 14 << 20;
/// Memory is returned when more than this fraction of the limit (1/64) is uncharged.
const RETURN_SHARE: u64 = 64;
/// Pooled buffers that were not used for this long are released.
const BUFFER_IDLE_TIME: Duration = Duration::from_secs(10);

/// The resident memory of this process, if the system says it.
pub(crate) fn bytes() -> Option<u64> {
    part_bytes(&status()?, "VmRSS:")
}

/// The same with no more of the program's own file than [`CODE_BYTES_MAX`].
fn data_bytes() -> Option<u64> {
    let status = status()?;
    let code_bytes = part_bytes(&status, "RssFile:")?;
    Some(part_bytes(&status, "VmRSS:")?.saturating_sub(code_bytes.saturating_sub(CODE_BYTES_MAX)))
}

fn status() -> Option<String> {
    std::fs::read_to_string("/proc/self/status").ok()
}

fn part_bytes(status: &str, name: &str) -> Option<u64> {
    let kibibytes = status.lines().find_map(|line| line.strip_prefix(name))?.trim().strip_suffix(" kB")?;
    Some(kibibytes.trim().parse::<u64>().ok()? << 10)
}

/// The same for `/metrics`, under the name that Prometheus has for it.
pub(crate) fn metric() -> Option<Metric> {
    Some(Metric::gauge("process_resident_memory_bytes", "Resident memory size.", bytes()?))
}

/// Resident memory that is neither charged nor the process's own (`process_bytes`).
fn uncharged_bytes(resident_bytes: u64, process_bytes: u64, charged_bytes: u64) -> u64 {
    resident_bytes.saturating_sub(process_bytes).saturating_sub(charged_bytes)
}

/// Keeps the memory budget true. `process_bytes` is what the process takes before it holds any data; the budget's limit
/// does not contain it.
pub(crate) async fn watch(memory: Arc<MemoryBudget>, process_bytes: u64, pools: [Arc<BufferPool>; 2]) {
    let mut charge = memory.charge(Component::Uncharged, 0);
    let mut ticks = tokio::time::interval(INTERVAL);
    let (mut returned, mut released) = (Instant::now(), Instant::now());
    loop {
        ticks.tick().await;
        if released.elapsed() >= BUFFER_IDLE_TIME {
            released = Instant::now();
            pools.iter().for_each(|pool| pool.release_unused());
        }
        let limit_bytes = memory.limit_bytes();
        let measure = || {
            let charged_bytes = memory.total_bytes().saturating_sub(memory.used_bytes(Component::Uncharged));
            Some((uncharged_bytes(data_bytes()?, process_bytes, charged_bytes), charged_bytes))
        };
        let Some((mut extra_bytes, charged_bytes)) = measure() else { return };
        let is_short = charged_bytes + extra_bytes > limit_bytes / 4 * 3;
        let is_due = is_short || returned.elapsed() >= RETURN_INTERVAL;
        if extra_bytes > limit_bytes / RETURN_SHARE && is_due {
            allocator::return_free_memory();
            returned = Instant::now();
            extra_bytes = measure().map_or(extra_bytes, |(bytes, _)| bytes);
        }
        charge.set(extra_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_memory_is_resident() {
        // Other tests may free memory meanwhile.
        let is_seen = (0..20).any(|_| {
            let before = bytes().unwrap();
            let taken = vec![1_u8; 64 << 20];
            bytes().unwrap() >= before + (taken.len() as u64 / 2)
        });
        assert!(is_seen);
        assert_eq!(uncharged_bytes(100, 20, 50), 30);
        assert_eq!(uncharged_bytes(100, 20, 90), 0, "charged memory is not always used");
    }
}
