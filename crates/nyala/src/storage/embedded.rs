//! The embedded engine as the store.

use super::Storage;
use super::disk::Disk;
use crate::config::{Config, Encoding, WalSync};
use crate::server::health::Check;
use nyala_core::Result;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::StoreRef;
use nyala_engine::wal::SyncPolicy;
use nyala_engine::{Engine, EngineOptions, EngineStats, Preference};
use nyala_query::report::{Datum, Report};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// An engine, and the disk it is on.
pub(super) struct Embedded {
    engine: Arc<Engine>,
    data_dir: PathBuf,
    log_limit_bytes: u64,
    disk: Disk,
}

impl Embedded {
    pub(super) fn open(
        config: &Config,
        memory: &Arc<MemoryBudget>,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        Ok(Self {
            engine: Arc::new(Engine::open_watched(options(config, memory.clone()), watch)?),
            data_dir: config.data_dir.clone(),
            log_limit_bytes: config.wal_limit.0 as u64,
            disk: Disk::default(),
        })
    }
}

impl Storage for Embedded {
    fn store(&self) -> StoreRef {
        self.engine.clone()
    }

    fn losses(&self) -> Vec<String> {
        self.engine.losses()
    }

    fn checks(&self) -> Vec<Check> {
        let of_work = |(name, why): (&'static str, String)| match name {
            "writes" | "log" => Check { name, fails: true, message: format!("writes are not taken: {why}") },
            "flush" => Check {
                name,
                fails: true,
                message: format!("what was written stays in memory and log: {why}"),
            },
            "catalog" => {
                Check { name, fails: true, message: format!("nothing can be created or dropped: {why}") }
            }
            _ => Check {
                name,
                fails: false,
                message: format!("a {name} failed, and queries may take longer: {why}"),
            },
        };
        let mut checks: Vec<Check> = self.engine.failures().into_iter().map(of_work).collect();
        if self.disk.is_nearly_full(self.log_limit_bytes) {
            let message = format!("the disk is nearly full: {}", self.disk);
            checks.push(Check { name: "disk", fails: false, message });
        }
        checks
    }

    fn look_after(&self) {
        if let Err(error) = self.disk.look(&self.data_dir) {
            tracing::debug!(%error, "the disk tells nothing of its room");
        }
        self.engine.retry_failed();
    }

    fn metrics(&self, text: &mut String) {
        metrics_of(&self.engine.stats(), text);
        let gauges = [
            ("disk_bytes", "The size of the disk of the data.", self.disk.size_bytes()),
            ("disk_free_bytes", "What may still be written to it.", self.disk.free_bytes()),
        ];
        for (name, help, value) in gauges {
            writeln!(text, "# HELP nyala_{name} {help}\n# TYPE nyala_{name} gauge\nnyala_{name} {value}")
                .expect("writing to memory does not fail");
        }
    }

    fn report(&self) -> Report {
        report_of(&self.engine.stats())
    }

    fn stop(&self) -> Result<()> {
        self.engine.close()
    }
}

fn options(config: &Config, memory: Arc<MemoryBudget>) -> EngineOptions {
    EngineOptions {
        memory,
        wal_sync: match config.wal_sync {
            WalSync::Always => SyncPolicy::Always,
            WalSync::Interval(interval) => SyncPolicy::Interval(interval),
            WalSync::Never => SyncPolicy::Never,
        },
        wal_bytes_max: config.wal_limit.0 as u64,
        encoding: match config.encoding {
            Encoding::Speed => Preference::Speed,
            Encoding::Balanced => Preference::Balanced,
            Encoding::Size => Preference::Size,
        },
        maintenance_threads: config.maintenance_threads,
        ..EngineOptions::new(&config.data_dir)
    }
}

/// What the engine did and holds, as SHOW STATS shows it.
fn report_of(stats: &EngineStats) -> Report {
    let log = stats.wal.as_ref();
    let values = [
        ("batches", stats.batches),
        ("cacheHits", stats.cache_hits),
        ("cacheMisses", stats.cache_misses),
        ("compactions", stats.compactions),
        ("compactionFailures", stats.compaction_failures),
        ("compactedBytes", stats.compacted_bytes_written),
        ("flushes", stats.flushes),
        ("flushFailures", stats.flush_failures),
        ("flushedBytes", stats.flushed_bytes),
        ("logBytes", log.map_or(0, |log| log.size_bytes)),
        ("logSyncs", log.map_or(0, |log| log.syncs)),
        ("memtableRows", stats.memtable_rows),
        ("rowsWritten", stats.rows_written),
        ("rowsetBytes", stats.rowset_bytes),
        ("rowsetRows", stats.rowset_rows),
        ("rowsets", stats.rowsets),
        ("writesRefused", stats.writes_refused),
        ("writeStalls", stats.write_stalls),
    ];
    Report::new("engine", values.map(|(name, count)| (name, Datum::count(count))))
}

/// What the engine did and holds, in Prometheus' text format.
fn metrics_of(stats: &EngineStats, text: &mut String) {
    let counters = [
        ("batches_total", "Batches written.", stats.batches),
        ("rows_written_total", "Rows written.", stats.rows_written),
        ("writes_refused_total", "Batches refused for want of memory.", stats.writes_refused),
        ("write_stalls_total", "Batches slowed for want of memory.", stats.write_stalls),
        ("flushes_total", "Flushes done.", stats.flushes),
        ("flush_failures_total", "Flushes that failed.", stats.flush_failures),
        ("flushed_bytes_total", "Bytes that flushes wrote.", stats.flushed_bytes),
        ("compactions_total", "Compactions done.", stats.compactions),
        ("compaction_failures_total", "Compactions that failed.", stats.compaction_failures),
        ("compacted_bytes_total", "Bytes that compactions wrote.", stats.compacted_bytes_written),
        ("cache_hits_total", "Blocks found in the cache.", stats.cache_hits),
        ("cache_misses_total", "Blocks read from files.", stats.cache_misses),
        (
            "log_bytes_total",
            "Bytes written to the log.",
            stats.wal.as_ref().map_or(0, |log| log.written_bytes),
        ),
        ("log_syncs_total", "Syncs of the log.", stats.wal.as_ref().map_or(0, |log| log.syncs)),
        (
            "catalog_failures_total",
            "Changes of the catalog that could not be written.",
            stats.catalog_failures,
        ),
        (
            "log_write_failures_total",
            "Writes of the log that failed.",
            stats.wal.as_ref().map_or(0, |log| log.failed_writes),
        ),
        (
            "log_sync_failures_total",
            "Syncs of the log that failed.",
            stats.wal.as_ref().map_or(0, |log| log.failed_syncs),
        ),
    ];
    let gauges = [
        ("rowsets", "Rowsets.", stats.rowsets),
        ("rowset_bytes", "Bytes of rowsets.", stats.rowset_bytes),
        ("rowset_rows", "Rows in rowsets, versions counted apart.", stats.rowset_rows),
        ("memtable_rows", "Rows not in rowsets yet.", stats.memtable_rows),
        ("log_bytes", "Bytes of the log now.", stats.wal.as_ref().map_or(0, |log| log.size_bytes)),
    ];
    let kinds =
        counters.iter().map(|each| (each, "counter")).chain(gauges.iter().map(|each| (each, "gauge")));
    let written = kinds.into_iter().try_for_each(|((name, help, value), kind)| {
        writeln!(text, "# HELP nyala_{name} {help}\n# TYPE nyala_{name} {kind}\nnyala_{name} {value}")
    });
    written.expect("writing to memory does not fail");
}
