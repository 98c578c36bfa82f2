//! What the process really takes. It is measured a few times a second; what nobody charged is charged here, so that
//! limits act on the true size, and what the allocator holds beside is given back to the system.

use crate::allocator;
use crate::server::http::rooms::Rooms;
use nyala_core::memory::{Component, MemoryBudget};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often is measured.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often memory is given back at most: what is given back and needed again is cleared by the system, page by page.
/// Where memory is short it is worth that each time, because what is free must not keep anybody out.
const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(1);
/// What was not charged and is more than this part of the limit is looked through for what can be given back.
const GIVE_BACK_SHARE: u64 = 64;
/// Buffers that nobody used for so long are given up.
const REST_INTERVAL: Duration = Duration::from_secs(10);

/// What is resident of this process, where the system tells.
pub(crate) fn bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    Some(kibibytes.trim().parse::<u64>().ok()? << 10)
}

/// What is neither charged nor `process_bytes`, the process' own.
fn uncharged_bytes(resident_bytes: u64, process_bytes: u64, charged_bytes: u64) -> u64 {
    resident_bytes.saturating_sub(process_bytes).saturating_sub(charged_bytes)
}

/// Keeps the account true. A process takes `process_bytes` beyond the account's limit before it holds anything.
pub(crate) async fn watch(memory: Arc<MemoryBudget>, process_bytes: u64, rooms: [Arc<Rooms>; 2]) {
    let mut charge = memory.charge(Component::Uncharged, 0);
    let mut ticks = tokio::time::interval(INTERVAL);
    let (mut given_back, mut rested) = (Instant::now(), Instant::now());
    loop {
        ticks.tick().await;
        if rested.elapsed() >= REST_INTERVAL {
            rested = Instant::now();
            rooms.iter().for_each(|rooms| rooms.rest());
        }
        let limit_bytes = memory.limit_bytes();
        let measure = || {
            let charged_bytes = memory.total_bytes().saturating_sub(memory.used_bytes(Component::Uncharged));
            Some((uncharged_bytes(bytes()?, process_bytes, charged_bytes), charged_bytes))
        };
        let Some((mut rest_bytes, charged_bytes)) = measure() else { return };
        let is_short = charged_bytes + rest_bytes > limit_bytes / 4 * 3;
        let is_due = is_short || given_back.elapsed() >= GIVE_BACK_INTERVAL;
        if rest_bytes > limit_bytes / GIVE_BACK_SHARE && is_due {
            allocator::give_back();
            given_back = Instant::now();
            rest_bytes = measure().map_or(rest_bytes, |(bytes, _)| bytes);
        }
        charge.set(rest_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_shows() {
        let before = bytes().unwrap();
        let taken = vec![1_u8; 64 << 20];
        let after = bytes().unwrap();
        assert!(after >= before + (32 << 20), "{before} {after} {}", taken.len());
        assert_eq!(uncharged_bytes(100, 20, 50), 30);
        assert_eq!(uncharged_bytes(100, 20, 90), 0, "what is charged is not always used");
    }
}
