//! Seeds of random tests: drawn from the clock, unless `NYALA_BATTERY_SEED` repeats a seed. `NYALA_BATTERY_SEEDS` sets
//! how many are drawn. Whatever fails names its seed.

use nyala_engine::SyncPolicy;
use std::time::{Duration, SystemTime};

/// All policies.
pub const POLICIES: [SyncPolicy; 3] =
    [SyncPolicy::Always, SyncPolicy::Interval(Duration::from_millis(3)), SyncPolicy::Never];

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The seeds of a test, `default` of them unless the variable says another number.
pub fn seeds(default: u64) -> Vec<u64> {
    if let Some(seed) = setting("NYALA_BATTERY_SEED") {
        return vec![seed];
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let first = since.as_nanos() as u64 >> 10;
    (0..setting("NYALA_BATTERY_SEEDS").unwrap_or(default)).map(|number| first.wrapping_add(number)).collect()
}
