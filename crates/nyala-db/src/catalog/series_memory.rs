//! The number of series of all measurements, and their memory.

use super::Catalog;
use super::policy_measurements::PolicyMeasurements;
use super::series_table::SeriesTable;
use nyala_core::Result;
use std::sync::atomic::Ordering;

impl Catalog {
    /// Measures the approximate size of the series indexes in memory, bytes. This takes time.
    pub fn measure_series_memory(&self) -> usize {
        let state = self.state.read();
        let all: Vec<_> = state.measurements.values().flat_map(PolicyMeasurements::all).cloned().collect();
        drop(state);
        let bytes = all.iter().map(|measurement| measurement.memory_bytes()).sum();
        self.series_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// The measurements of a retention policy, and the number of series of those that are loaded. Monitoring must
    /// neither load series that nobody asked for, nor fail because some are damaged.
    pub fn series_counts(&self, database: &str, policy: &str) -> Vec<(String, Option<usize>)> {
        let known = self.known_measurements(database, policy);
        known.iter().map(|own| (own.name().to_owned(), own.series_count_if_loaded())).collect()
    }

    /// The number of series of all loaded measurements, and how many of them are evicted.
    pub fn count_series(&self) -> (usize, usize) {
        let counts = self.loaded_tables();
        let counts = counts.iter().map(|own| (own.count_series(), own.series().len()));
        counts.fold((0, 0), |(all, evicted), (own, here)| (all + own, evicted + own.saturating_sub(here)))
    }

    /// The number of series of a database, in memory or not.
    pub(crate) async fn count_series_of(&self, database: &str) -> Result<u64> {
        let tables = self.known_in_database(database);
        SeriesTable::load_all(tables.iter()).await?;
        Ok(tables.iter().map(|table| table.count_series() as u64).sum())
    }

    /// The size measured last, plus the estimate of what was added since.
    pub(crate) fn series_memory_bytes(&self) -> usize {
        self.series_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn add_series_memory(&self, bytes: usize) {
        self.series_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back_series_memory(&self, bytes: usize) {
        let less = |all: usize| Some(all.saturating_sub(bytes));
        let _ = self.series_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
