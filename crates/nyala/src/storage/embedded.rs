//! The embedded engine as the store.

use super::disk::Disk;
use super::{Past, Storage};
use crate::backup::copies::CopiedStore;
use crate::config::{Config, Encoding, WalSync};
use crate::server::health::Check;
use crate::server::metric::Metric;
use nyala_core::Result;
use nyala_core::env::{Clock, ManualClock, SystemClock};
use nyala_core::memory::MemoryBudget;
use nyala_core::store::StoreRef;
use nyala_db::relations::is_of_relation;
use nyala_engine::fs::{FsRef, RealFs};
use nyala_engine::wal::{SyncPolicy, WalStats};
use nyala_engine::{Engine, EngineOptions, EngineStats, Preference, StoreCopy};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The engine, and the disk of its data.
pub(super) struct Embedded {
    engine: Arc<Engine>,
    data_dir: PathBuf,
    log_limit_bytes: u64,
    disk: Disk,
}

impl Embedded {
    pub(super) fn open(
        config: &Config,
        past: Past,
        memory: &Arc<MemoryBudget>,
        on_replay: &mut dyn FnMut(u64),
    ) -> Result<Self> {
        let options = EngineOptions { leaves_past: past == Past::Left, ..options(config, memory.clone()) };
        Ok(Self {
            engine: Arc::new(Engine::open_watched(options, on_replay)?),
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
        let of_failure = |(name, why): (&'static str, String)| match name {
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
        let mut checks: Vec<Check> = self.engine.failures().into_iter().map(of_failure).collect();
        if self.disk.is_nearly_full(self.log_limit_bytes) {
            let message = format!("the disk is nearly full: {}", self.disk);
            checks.push(Check { name: "disk", fails: false, message });
        }
        checks
    }

    fn maintain(&self) {
        if let Err(error) = self.disk.measure(&self.data_dir) {
            tracing::debug!(%error, "cannot find out how much space the disk has");
        }
        self.engine.retry_failed();
    }

    fn copy_to(&self, dir: &Path) -> Result<CopiedStore> {
        self.engine.copy_to(dir).map(copied)
    }

    fn metrics(&self) -> Vec<Metric> {
        let stats = self.engine.stats();
        let mut metrics = metrics_of(&stats);
        metrics.extend(stats.wal.as_ref().map(sync_durations));
        metrics.extend([
            Metric::gauge("nyala_disk_bytes", "The size of the disk of the data.", self.disk.size_bytes()),
            Metric::gauge(
                "nyala_disk_free_bytes",
                "What may still be written to it.",
                self.disk.free_bytes(),
            ),
        ]);
        metrics
    }

    fn stop(&self) -> Result<()> {
        self.engine.close()
    }
}

/// Opens a copy, to read it as it was at the time when it was made and for so long before. Nothing that it shares with other
/// directories is changed.
pub fn open_copy(
    dir: &Path,
    memory: &Arc<MemoryBudget>,
    time_ns: i64,
    history: Duration,
) -> Result<Arc<dyn Storage>> {
    open(EngineOptions { history, ..to_read(dir, memory, time_ns) })
}

/// Opens a data directory that no process has open, to read it: nothing is merged or forgotten meanwhile, and nobody else opens
/// it.
pub fn open_to_read(dir: &Path, memory: &Arc<MemoryBudget>) -> Result<Arc<dyn Storage>> {
    let options = EngineOptions { leaves_past: true, ..to_read(dir, memory, SystemClock.now_ns()) };
    open(options)
}

/// A directory that is only read.
fn to_read(dir: &Path, memory: &Arc<MemoryBudget>, time_ns: i64) -> EngineOptions {
    EngineOptions {
        memory: memory.clone(),
        // What is not to be kept for ever is not to be forgotten meanwhile either.
        clock: Arc::new(ManualClock::new(time_ns)),
        wal_sync: SyncPolicy::Never,
        maintenance_threads: 0,
        ..EngineOptions::new(dir)
    }
}

fn open(options: EngineOptions) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(Embedded {
        data_dir: options.data_dir.clone(),
        engine: Arc::new(Engine::open(options)?),
        log_limit_bytes: u64::MAX,
        disk: Disk::default(),
    }))
}

/// Makes a copy of a store that no process has open. Nothing in its directory is changed.
pub fn copy_closed(data_dir: &Path, dir: &Path, time_ns: i64) -> Result<CopiedStore> {
    let fs: FsRef = Arc::new(RealFs);
    nyala_engine::copy_closed(&fs, data_dir, dir, time_ns).map(copied)
}

fn copied(copy: StoreCopy) -> CopiedStore {
    let StoreCopy { time_ns, sequence, rowsets, rowset_bytes, log_bytes } = copy;
    CopiedStore { time_ns, sequence, rowsets, bytes: rowset_bytes + log_bytes }
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
        history: config.history.0,
        describes_others: |schema| !schema.is_series_keyed() && !is_of_relation(schema),
        ..EngineOptions::new(&config.data_dir)
    }
}

/// How long syncs of the log took.
fn sync_durations(log: &WalStats) -> Metric {
    // From 32 µs to 8 s, in powers of two.
    const BUCKETS: Range<usize> = 5..24;
    let bound = |bucket: usize| ((1_u64 << bucket) as f64 / 1e6, log.sync_times[..=bucket].iter().sum());
    let (name, sum) = ("nyala_log_sync_duration_seconds", Duration::from_nanos(log.sync_ns));
    Metric::histogram(name, "How long syncs of the log took.", log.syncs, sum, BUCKETS.map(bound))
}

/// The engine's counts and sizes, for `/metrics` and `SHOW STATS`.
fn metrics_of(stats: &EngineStats) -> Vec<Metric> {
    let (counter, gauge) = (Metric::counter, Metric::gauge);
    let log = |value: fn(&WalStats) -> u64| stats.wal.as_ref().map_or(0, value);
    vec![
        counter("nyala_batches_total", "Batches written.", stats.batches).with_statistic("batches"),
        counter("nyala_rows_written_total", "Rows written.", stats.rows_written)
            .with_statistic("rowsWritten"),
        counter("nyala_writes_refused_total", "Batches refused for want of memory.", stats.writes_refused)
            .with_statistic("writesRefused"),
        counter("nyala_write_stalls_total", "Batches slowed for want of memory.", stats.write_stalls)
            .with_statistic("writeStalls"),
        counter("nyala_flushes_total", "Flushes done.", stats.flushes).with_statistic("flushes"),
        counter("nyala_flush_failures_total", "Flushes that failed.", stats.flush_failures)
            .with_statistic("flushFailures"),
        counter("nyala_flushed_bytes_total", "Bytes that flushes wrote.", stats.flushed_bytes)
            .with_statistic("flushedBytes"),
        counter("nyala_compactions_total", "Compactions done.", stats.compactions)
            .with_statistic("compactions"),
        counter("nyala_compaction_failures_total", "Compactions that failed.", stats.compaction_failures)
            .with_statistic("compactionFailures"),
        counter(
            "nyala_compacted_bytes_total",
            "Bytes that compactions wrote.",
            stats.compacted_bytes_written,
        )
        .with_statistic("compactedBytes"),
        counter("nyala_cache_hits_total", "Blocks found in the cache.", stats.cache_hits)
            .with_statistic("cacheHits"),
        counter("nyala_cache_misses_total", "Blocks read from files.", stats.cache_misses)
            .with_statistic("cacheMisses"),
        counter("nyala_filter_lookups_total", "Questions to Bloom filters of keys.", stats.filter_lookups)
            .with_statistic("filterLookups"),
        counter(
            "nyala_filter_rejections_total",
            "Questions to Bloom filters that were answered with no.",
            stats.filter_rejections,
        )
        .with_statistic("filterRejections"),
        counter("nyala_log_bytes_total", "Bytes written to the log.", log(|log| log.written_bytes)),
        counter("nyala_log_syncs_total", "Syncs of the log.", log(|log| log.syncs))
            .with_statistic("logSyncs"),
        counter(
            "nyala_catalog_failures_total",
            "Changes of the catalog that could not be written.",
            stats.catalog_failures,
        ),
        counter(
            "nyala_log_write_failures_total",
            "Writes of the log that failed.",
            log(|log| log.failed_writes),
        ),
        counter(
            "nyala_log_sync_failures_total",
            "Syncs of the log that failed.",
            log(|log| log.failed_syncs),
        ),
        gauge("nyala_rowsets", "Rowsets.", stats.rowsets).with_statistic("rowsets"),
        gauge("nyala_rowset_bytes", "Bytes of rowsets.", stats.rowset_bytes).with_statistic("rowsetBytes"),
        gauge("nyala_history_bytes", "Bytes of files kept for reading the past.", stats.past_bytes)
            .with_statistic("historyBytes"),
        gauge("nyala_rowset_rows", "Rows in rowsets, versions counted apart.", stats.rowset_rows)
            .with_statistic("rowsetRows"),
        gauge("nyala_memtable_rows", "Rows not in rowsets yet.", stats.memtable_rows)
            .with_statistic("memtableRows"),
        gauge("nyala_log_bytes", "Bytes of the log now.", log(|log| log.size_bytes))
            .with_statistic("logBytes"),
    ]
}
