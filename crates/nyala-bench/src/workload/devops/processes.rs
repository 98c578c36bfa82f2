//! The random processes that generate the fields of influxdb-comparisons' devops use case, by measurement.

use crate::random::{Random, Ziggurat};

/// A random walk: each tick adds a normal step, then applies `bounds`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    mean: f64,
    deviation: f64,
    bounds: Bounds,
    start: f64,
}

#[derive(Clone, Copy, Debug)]
enum Bounds {
    /// No bounds.
    None,
    /// Adds the absolute value of each step, so that the value only rises.
    Rising,
    /// Clamps the value to this interval.
    Within(f64, f64),
}

impl Process {
    /// The first value of a host: random for memory, the fixed start for everything else.
    pub(super) fn start(&self, random: &mut Random) -> f64 {
        if self.start.is_nan() { random.unit() } else { self.start }
    }

    #[inline]
    pub(super) fn advance(&self, value: f64, random: &mut Random, ziggurat: &Ziggurat) -> f64 {
        let step = random.normal(ziggurat) * self.deviation + self.mean;
        match self.bounds {
            Bounds::None => value + step,
            Bounds::Rising => value + step.abs(),
            Bounds::Within(low, high) => (value + step).clamp(low, high),
        }
    }
}

const fn rising(mean: f64) -> Process {
    Process { mean, deviation: 1.0, bounds: Bounds::Rising, start: 0.0 }
}

const fn free(mean: f64) -> Process {
    Process { mean, deviation: 1.0, bounds: Bounds::None, start: 0.0 }
}

const fn within(mean: f64, high: f64, start: f64) -> Process {
    Process { mean, deviation: 1.0, bounds: Bounds::Within(0.0, high), start }
}

/// Bytes of every simulated disk.
pub(super) const DISK_BYTES: f64 = (1u64 << 40) as f64;
const REDIS_BYTES: f64 = (16u64 << 30) as f64;
/// Shares of a host's memory. NaN as start means a random start.
const MEMORY: Process =
    Process { mean: 0.0, deviation: 1.0 / 64.0, bounds: Bounds::Within(0.0, 1.0), start: f64::NAN };

/// Where a field's value comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// The cpu walk of this number, as a float.
    Cpu(usize),
    /// A process of its own, as an integer.
    Process(Process),
    /// Computed from the disk's process (free bytes): the index of the field.
    Disk(usize),
    /// Computed from the three memory processes: the index of the field.
    Memory(usize),
    /// When the host was started, which never changes.
    BootTime,
    /// Seconds since the data begin.
    Uptime,
}

/// A field's name and source.
pub(super) type Field = (&'static str, Source);

const fn of(name: &'static str, process: Process) -> Field {
    (name, Source::Process(process))
}

/// A measurement: its name, the processes from which several fields are computed, and its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    pub(super) name: &'static str,
    pub(super) shared: &'static [Process],
    pub(super) fields: &'static [Field],
}

/// Measurements in the order in which a host reports them. `postgresl` is spelled as published.
pub(super) const MEASUREMENTS: [Measurement; 9] = [
    Measurement { name: "cpu", shared: &[], fields: &CPU },
    Measurement { name: "diskio", shared: &[], fields: &DISKIO },
    Measurement { name: "disk", shared: &[within(50.0, DISK_BYTES, DISK_BYTES / 2.0)], fields: &DISK },
    Measurement { name: "kernel", shared: &[], fields: &KERNEL },
    Measurement { name: "mem", shared: &[MEMORY; 3], fields: &MEM },
    Measurement { name: "net", shared: &[], fields: &NET },
    Measurement { name: "nginx", shared: &[], fields: &NGINX },
    Measurement { name: "postgresl", shared: &[], fields: &POSTGRESQL },
    Measurement { name: "redis", shared: &[], fields: &REDIS },
];

const CPU: [Field; 10] = [
    ("usage_user", Source::Cpu(0)),
    ("usage_system", Source::Cpu(1)),
    ("usage_idle", Source::Cpu(2)),
    ("usage_nice", Source::Cpu(3)),
    ("usage_iowait", Source::Cpu(4)),
    ("usage_irq", Source::Cpu(5)),
    ("usage_softirq", Source::Cpu(6)),
    ("usage_steal", Source::Cpu(7)),
    ("usage_guest", Source::Cpu(8)),
    ("usage_guest_nice", Source::Cpu(9)),
];

const DISKIO: [Field; 7] = [
    of("reads", rising(50.0)),
    of("writes", rising(50.0)),
    of("read_bytes", rising(100.0)),
    of("write_bytes", rising(100.0)),
    of("read_time", rising(5.0)),
    of("write_time", rising(5.0)),
    of("io_time", rising(5.0)),
];

const DISK: [Field; 7] = [
    ("total", Source::Disk(0)),
    ("free", Source::Disk(1)),
    ("used", Source::Disk(2)),
    ("used_percent", Source::Disk(3)),
    ("inodes_total", Source::Disk(4)),
    ("inodes_free", Source::Disk(5)),
    ("inodes_used", Source::Disk(6)),
];

const KERNEL: [Field; 6] = [
    ("boot_time", Source::BootTime),
    of("interrupts", rising(5.0)),
    of("context_switches", rising(5.0)),
    of("processes_forked", rising(5.0)),
    of("disk_pages_in", rising(5.0)),
    of("disk_pages_out", rising(5.0)),
];

const MEM: [Field; 9] = [
    ("total", Source::Memory(0)),
    ("available", Source::Memory(1)),
    ("used", Source::Memory(2)),
    ("free", Source::Memory(3)),
    ("cached", Source::Memory(4)),
    ("buffered", Source::Memory(5)),
    ("used_percent", Source::Memory(6)),
    ("available_percent", Source::Memory(7)),
    ("buffered_percent", Source::Memory(8)),
];

const NET: [Field; 8] = [
    of("bytes_sent", rising(50.0)),
    of("bytes_recv", rising(50.0)),
    of("packets_sent", rising(50.0)),
    of("packets_recv", rising(50.0)),
    of("err_in", rising(5.0)),
    of("err_out", rising(5.0)),
    of("drop_in", rising(5.0)),
    of("drop_out", rising(5.0)),
];

const NGINX: [Field; 7] = [
    of("accepts", rising(5.0)),
    of("active", within(5.0, 100.0, 0.0)),
    of("handled", rising(5.0)),
    of("reading", within(5.0, 100.0, 0.0)),
    of("requests", rising(5.0)),
    of("waiting", within(5.0, 100.0, 0.0)),
    of("writing", within(5.0, 100.0, 0.0)),
];

const TO_THOUSAND: Process = within(5.0, 1000.0, 0.0);

const POSTGRESQL: [Field; 16] = [
    of("numbackends", TO_THOUSAND),
    of("xact_commit", TO_THOUSAND),
    of("xact_rollback", TO_THOUSAND),
    of("blks_read", TO_THOUSAND),
    of("blks_hit", TO_THOUSAND),
    of("tup_returned", TO_THOUSAND),
    of("tup_fetched", TO_THOUSAND),
    of("tup_inserted", TO_THOUSAND),
    of("tup_updated", TO_THOUSAND),
    of("tup_deleted", TO_THOUSAND),
    of("conflicts", TO_THOUSAND),
    of("temp_files", TO_THOUSAND),
    of("temp_bytes", within(1024.0, (1u64 << 30) as f64, 0.0)),
    of("deadlocks", TO_THOUSAND),
    of("blk_read_time", TO_THOUSAND),
    of("blk_write_time", TO_THOUSAND),
];

const REDIS_MEMORY: Process = within(50.0, REDIS_BYTES, REDIS_BYTES / 2.0);

const REDIS: [Field; 31] = [
    ("uptime_in_seconds", Source::Uptime),
    of("total_connections_received", rising(5.0)),
    of("expired_keys", rising(50.0)),
    of("evicted_keys", rising(50.0)),
    of("keyspace_hits", rising(50.0)),
    of("keyspace_misses", rising(50.0)),
    of("instantaneous_ops_per_sec", free(1.0)),
    of("instantaneous_input_kbps", free(1.0)),
    of("instantaneous_output_kbps", free(1.0)),
    of("connected_clients", within(50.0, 10_000.0, 0.0)),
    of("used_memory", REDIS_MEMORY),
    of("used_memory_rss", REDIS_MEMORY),
    of("used_memory_peak", REDIS_MEMORY),
    of("used_memory_lua", REDIS_MEMORY),
    of("rdb_changes_since_last_save", within(50.0, 10_000.0, 0.0)),
    of("sync_full", TO_THOUSAND),
    of("sync_partial_ok", TO_THOUSAND),
    of("sync_partial_err", TO_THOUSAND),
    of("pubsub_channels", TO_THOUSAND),
    of("pubsub_patterns", TO_THOUSAND),
    of("latest_fork_usec", TO_THOUSAND),
    of("connected_slaves", TO_THOUSAND),
    of("master_repl_offset", TO_THOUSAND),
    of("repl_backlog_active", TO_THOUSAND),
    of("repl_backlog_size", TO_THOUSAND),
    of("repl_backlog_histlen", TO_THOUSAND),
    of("mem_fragmentation_ratio", within(5.0, 100.0, 0.0)),
    of("used_cpu_sys", TO_THOUSAND),
    of("used_cpu_user", TO_THOUSAND),
    of("used_cpu_sys_children", TO_THOUSAND),
    of("used_cpu_user_children", TO_THOUSAND),
];

/// Processes of all measurements in order: of each, the shared ones, then those of single fields.
pub(super) fn all() -> Vec<Process> {
    let of_measurement = |measurement: &Measurement| {
        let shown = measurement.fields.iter().filter_map(|(_, source)| match source {
            Source::Process(process) => Some(*process),
            _ => None,
        });
        measurement.shared.iter().copied().chain(shown).collect::<Vec<_>>()
    };
    MEASUREMENTS.iter().flat_map(of_measurement).collect()
}
