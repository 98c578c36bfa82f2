//! Thresholds for series that leave memory. `nyala-db/src/idle.rs` decides by them which ones do.

/// When series leave memory.
#[derive(Debug, Clone, Copy)]
pub struct IdleRules {
    /// Series without a new point for this long are idle, at the latest after twice as long; 0: none ever is.
    pub after_ns: i64,
    /// Measurements with fewer series keep all in memory, and ask the store which of them a shard has.
    pub series_min: usize,
    /// The most bytes that all series take once some are read back.
    pub series_bytes_max: usize,
}

impl Default for IdleRules {
    fn default() -> Self {
        Self { after_ns: 0, series_min: 1 << 14, series_bytes_max: usize::MAX }
    }
}
