//! Puts the parts together.

use crate::config::Config;
use crate::descriptors;
use crate::resident;
use crate::server::health::{self, Check, Checks, HealthLog};
use crate::server::http::access::Access;
use crate::server::http::rooms::Rooms;
use crate::server::http::{Context, Databases, HttpLimits};
use crate::server::metrics::Metrics;
use crate::server::report::{self, ContinuousCounts};
use crate::server::slots::Slots;
use crate::server::stage::Stage;
use crate::server::tls::Certificates;
use crate::server::{ConnectionLimits, Connections, Server};
use crate::storage::{self, Storage};
use crate::subscriber::Subscriptions;
use futures::FutureExt;
use nyala_core::env::{ClockRef, SystemClock};
use nyala_core::memory::{COMPONENTS, Component, MemoryBudget};
use nyala_core::store::emulate;
use nyala_core::{Error, Result};
use nyala_db::catalog::Catalog;
use nyala_db::feed::Feed;
use nyala_db::idle::IdleRules;
use nyala_db::retention::Enforced;
use nyala_db::users::Rights;
use nyala_db::write::LineWriter;
use nyala_exec::QueryMemory;
use nyala_exec::running::RunningQueries;
use nyala_query::continuous::{Outcome, Runner};
use nyala_query::report::{Reporter, Topic};
use std::fmt::Write;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// What the process takes before it holds any data: code, stacks, the allocator's own.
const PROCESS_BYTES: usize = 24 << 20;
/// How often expired partitions are looked for, and the size of the series indexes is taken.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);
/// The same where series are idle sooner than that.
const UPKEEP_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// How often the disk is looked at, and tried again what failed.
const HEALTH_INTERVAL: Duration = Duration::from_secs(2);

/// How often it is looked whether a continuous query is due.
const CONTINUOUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long work in the pool may go on at a stop that waited for its clients in vain.
const WORK_TIMEOUT_MIN: Duration = Duration::from_millis(500);

/// A running nyala.
pub struct Running {
    shutdown_timeout: Duration,
    server: Server,
    work: tokio::runtime::Runtime,
    storage: Arc<dyn Storage>,
    context: Arc<Context>,
}

impl Running {
    /// Opens the store and begins to serve.
    pub fn start(config: &Config) -> Result<Self> {
        descriptors::raise_limit();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let work = tokio::runtime::Builder::new_multi_thread()
            .worker_threads((2 * cores).max(4))
            .thread_name("work")
            .enable_all()
            .build()?;
        let clock: ClockRef = Arc::new(SystemClock);
        let memory = MemoryBudget::new(data_memory_bytes(config) as u64);
        let opened: Arc<OnceLock<Opened>> = Arc::default();
        let checks = checks(opened.clone());
        let (shown, seen, budget) = (opened.clone(), checks.clone(), memory.clone());
        let storage_metrics = move |text: &mut String| {
            if let Some(Opened { storage, damaged_places }) = shown.get() {
                storage.metrics(text);
                memory_metrics(&budget, text);
                recovery_metric(*damaged_places, text);
                health::metrics(&seen(), text);
            }
        };
        let indexed: Arc<OnceLock<Arc<Catalog>>> = Arc::default();
        let known = indexed.clone();
        let series_metrics = move |text: &mut String| {
            if let Some(catalog) = known.get() {
                series_metrics(catalog, text);
            }
        };
        let memory_bytes = data_memory_bytes(config);
        let most = descriptors::connections_max();
        let connections = Arc::new(Connections::within(memory_bytes, most, config.bind_socket.is_some()));
        let counted = connections.clone();
        let connection_metrics = move |text: &mut String| connection_metrics(&counted, text);
        let metrics = Arc::new(Metrics::new(vec![
            Box::new(storage_metrics),
            Box::new(series_metrics),
            Box::new(resident_metric),
            Box::new(connection_metrics),
        ]));
        let continuous: Arc<ContinuousCounts> = Arc::default();
        let subscriptions: Arc<OnceLock<Arc<Subscriptions>>> = Arc::default();
        let started_ns = clock.now_ns();
        let context = Arc::new(Context {
            databases: OnceLock::new(),
            started_ns,
            clock: clock.clone(),
            work: work.handle().clone(),
            limits: HttpLimits {
                body_bytes: config.max_body_size.0,
                query_bytes: data_memory_bytes(config) / 4,
                rows: config.max_row_limit,
            },
            running: Arc::new(RunningQueries::new(config.query_limits())),
            access: match config.auth_enabled {
                true => Access::Users { secret: config.shared_secret.clone() },
                false => Access::Open,
            },
            reporter: reporter(config, &metrics, &continuous, &subscriptions, (&opened, &memory), &clock)?,
            sites: config.sites().map_err(Error::invalid)?,
            audit: Arc::default(),
            metrics,
            watch: Default::default(),
            stage: Stage::default(),
            checks: checks.clone(),
            requests: AtomicU64::new(0),
        });
        // Listening comes first, so that whoever waits for a recovery is told so.
        let certificates = config.certificates().map_err(Error::invalid)?.map(Arc::new);
        work.spawn(renew_certificates(certificates.clone()));
        let shutdown_timeout = config.shutdown_timeout.0;
        let limits = ConnectionLimits { keep_alive_timeout: config.keep_alive_timeout.0, shutdown_timeout };
        let server = Server::start(
            config.http_bind,
            config.bind_socket.as_deref(),
            cores,
            &connections,
            limits,
            context.clone(),
            certificates,
        )
        .map_err(|error| Error::from(error).context(format!("listening on {}", config.http_bind)))?;
        let (storage, catalog, damaged_places) = match open_databases(config, &work, &context, &memory) {
            Ok(opened) => opened,
            Err(error) => {
                server.stop();
                return Err(error);
            }
        };
        // Nothing was in either before.
        let _ = opened.set(Opened { storage: storage.clone(), damaged_places });
        let _ = indexed.set(catalog.clone());
        let upkeep_interval = match config.series_idle_after.0 {
            Duration::ZERO => UPKEEP_INTERVAL,
            idle_after => (idle_after / 2).clamp(UPKEEP_INTERVAL_MIN, UPKEEP_INTERVAL),
        };
        work.spawn(upkeep(catalog.clone(), memory.clone(), clock, upkeep_interval));
        work.spawn(watch_health(storage.clone(), checks));
        let (feed, written) = Feed::new(memory.clone());
        let all = Subscriptions::new(catalog.clone(), feed.counts().clone(), memory.clone());
        let all = Arc::new(all);
        work.spawn(all.clone().run(written));
        let _ = subscriptions.set(all);
        let writer = LineWriter::new(catalog.clone(), memory.clone(), series_limit_bytes(config));
        let writer = Arc::new(writer.with_feed(feed));
        let (rooms, body_rooms) = (Rooms::for_answers(&memory), Rooms::for_bodies(&memory));
        let all_rooms = [rooms.clone(), body_rooms.clone()];
        work.spawn(resident::watch(memory.clone(), PROCESS_BYTES as u64, all_rooms));
        let _ = context.databases.set(Databases { catalog, writer, memory, rooms, body_rooms });
        work.spawn(run_continuous_queries(context.clone(), continuous));
        context.stage.ready();
        Ok(Self { shutdown_timeout, server, work, storage, context })
    }

    /// The address of the HTTP interface.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Lets requests end, flushes, closes.
    pub fn stop(self) -> Result<()> {
        let begun = Instant::now();
        self.context.stage.stopping();
        self.server.stop();
        let left = self.shutdown_timeout.saturating_sub(begun.elapsed());
        self.work.shutdown_timeout(left.max(WORK_TIMEOUT_MIN));
        self.storage.stop()
    }
}

/// Opens store and databases; says meanwhile how far it is, and in the end how much of them is damaged or lost.
fn open_databases(
    config: &Config,
    work: &tokio::runtime::Runtime,
    context: &Context,
    memory: &Arc<MemoryBudget>,
) -> Result<(Arc<dyn Storage>, Arc<Catalog>, u64)> {
    let mut watch = |replayed_bytes| context.stage.recovering(replayed_bytes);
    let storage = storage::open(config, memory, &mut watch)?;
    let losses = storage.losses();
    for loss in &losses {
        tracing::error!(loss, "what was stored is damaged or lost; `nyala check --accept` ends this message");
    }
    let rules = IdleRules {
        after_ns: i64::try_from(config.series_idle_after.0.as_nanos()).unwrap_or(i64::MAX),
        // New series find room though queries read back all they can.
        series_bytes_max: series_limit_bytes(config) / 4 * 3,
        ..IdleRules::default()
    };
    let catalog =
        Arc::new(work.block_on(Catalog::open(emulate::complete(storage.store())))?.with_idle_rules(rules));
    if let Some(damage) = catalog.damage() {
        tracing::error!(
            %damage,
            "records of databases are damaged: databases are known by their measurements, their policies keep points \
             for ever, and their continuous queries are lost; ALTER and CREATE what they were, then `nyala check \
             --accept` ends this message"
        );
    }
    let damaged_places = losses.len() as u64 + u64::from(catalog.damage().is_some());
    Ok((storage, catalog, damaged_places))
}

/// What is left of the memory limit for data.
fn data_memory_bytes(config: &Config) -> usize {
    config.memory_limit.0.saturating_sub(PROCESS_BYTES)
}

/// What the indexes of series may take.
fn series_limit_bytes(config: &Config) -> usize {
    data_memory_bytes(config) / 2
}

/// Drops what has expired, lets idle series leave memory, and tells the account of memory how large their indexes are.
async fn upkeep(catalog: Arc<Catalog>, memory: Arc<MemoryBudget>, clock: ClockRef, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    let mut index_memory = memory.charge(Component::SeriesIndex, 0);
    loop {
        ticks.tick().await;
        let Enforced { dropped, failed, error } = catalog.enforce_retention(clock.now_ns()).await;
        if dropped > 0 {
            tracing::info!(dropped, "partitions outlived their retention policy");
        }
        if let Some(error) = error {
            tracing::error!(%error, failed, "measurements keep what outlived their retention policy");
        }
        if let Err(error) = catalog.learn_presence().await {
            tracing::warn!(%error, "queries visit series without points in their time");
        }
        if let Err(error) = catalog.rest_idle_series(clock.now_ns()).await {
            tracing::warn!(%error, "series without recent points stay in memory");
        }
        index_memory.set(catalog.measure_series_memory() as u64);
    }
}

/// A store that is open, and how many places of it are damaged or lost.
struct Opened {
    storage: Arc<dyn Storage>,
    damaged_places: u64,
}

/// Tells what is not as it should be.
fn checks(opened: Arc<OnceLock<Opened>>) -> Checks {
    Arc::new(move || {
        let Some(Opened { storage, damaged_places }) = opened.get() else { return Vec::new() };
        let mut checks = storage.checks();
        if *damaged_places > 0 {
            let message = format!(
                "{damaged_places} places in the data are damaged or lost: the log of the start names them, as does \
                 `nyala check`; `nyala check --accept` ends this warning"
            );
            checks.push(Check { name: "recovery", fails: false, message });
        }
        checks
    })
}

/// Looks after the store, and logs what changes.
async fn watch_health(storage: Arc<dyn Storage>, checks: Checks) {
    let log = Arc::new(HealthLog::default());
    let mut ticks = tokio::time::interval(HEALTH_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (storage, checks, log) = (storage.clone(), checks.clone(), log.clone());
        // All of it may wait for a disk. A panic was reported by itself.
        let looked = tokio::task::spawn_blocking(move || {
            log.look(&checks());
            storage.look_after();
            log.look(&checks());
        });
        let _ = looked.await;
    }
}

/// Reads certificates again at every SIGHUP.
async fn renew_certificates(certificates: Option<Arc<Certificates>>) {
    let mut asked = match signal(SignalKind::hangup()) {
        Ok(asked) => asked,
        Err(error) => return tracing::error!(%error, "certificates are not renewed at SIGHUP"),
    };
    while asked.recv().await.is_some() {
        let Some(certificates) = &certificates else {
            tracing::info!("SIGHUP: there is no certificate to read again");
            continue;
        };
        match certificates.read_again() {
            Ok(()) => tracing::info!("new connections are greeted with the certificate as it is now"),
            Err(error) => tracing::error!(%error, "the certificate stays the one that was read before"),
        }
    }
}

/// Runs continuous queries when they are due.
async fn run_continuous_queries(context: Arc<Context>, counts: Arc<ContinuousCounts>) {
    let Some(databases) = context.databases.get() else { return };
    let mut ticks = tokio::time::interval(CONTINUOUS_INTERVAL);
    // After a long query the next looks at the time there is then.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut runner = Runner::default();
    loop {
        ticks.tick().await;
        // Whoever created a query had the rights it needs.
        let query = context.query(databases, String::new(), String::new(), Rights::Open);
        let memory = || QueryMemory::new(context.limits.query_bytes, &databases.memory);
        // One that panics was reported by the panic itself, and must not end those of all databases.
        let ran = AssertUnwindSafe(runner.run(&query, memory)).catch_unwind().await;
        let Ok(outcomes) = ran else {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        for Outcome { database, name, written } in outcomes {
            match written {
                Ok(points) => {
                    counts.done.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(database, name, points, "a continuous query ran");
                }
                Err(error) => {
                    counts.failed.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(database, name, %error, "a continuous query failed");
                }
            }
        }
    }
}

/// What tells of the parts that are put together here.
fn reporter(
    config: &Config,
    metrics: &Arc<Metrics>,
    continuous: &Arc<ContinuousCounts>,
    subscriptions: &Arc<OnceLock<Arc<Subscriptions>>>,
    (opened, memory): (&Arc<OnceLock<Opened>>, &Arc<MemoryBudget>),
    clock: &ClockRef,
) -> Result<Reporter> {
    let settings = toml::Table::try_from(config).map_err(|error| Error::invalid(error.to_string()))?;
    let (address, started_ns) = (config.http_bind.to_string(), clock.now_ns());
    let (metrics, continuous, clock) = (metrics.clone(), continuous.clone(), clock.clone());
    let (opened, memory) = (opened.clone(), memory.clone());
    let subscriptions = subscriptions.clone();
    Ok(Arc::new(move |topic| match topic {
        Topic::Statistics => {
            let storage = opened.get().into_iter();
            let of_storage = storage.flat_map(|opened| {
                let memory = report::memory(memory.total_bytes(), memory.limit_bytes());
                [memory, opened.storage.report()]
            });
            let others = [report::requests(&metrics, address.clone()), continuous.report()];
            let of_subscriptions = subscriptions.get().map(|all| all.reports()).unwrap_or_default();
            of_storage.chain(others).chain(of_subscriptions).collect()
        }
        Topic::Diagnostics => {
            let mut facts = report::facts(&clock, started_ns);
            facts.push(report::settings(&settings));
            facts
        }
    }))
}

/// What the last start found, in Prometheus' text format.
fn recovery_metric(damaged_places: u64, text: &mut String) {
    let (name, help) = ("nyala_recovery_damaged_places", "What is damaged or lost, and not accepted yet.");
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {damaged_places}")
        .expect("writing to memory does not fail");
}

/// The limit of memory, and what it is used for.
fn memory_metrics(memory: &MemoryBudget, text: &mut String) {
    let (limit, used) = ("nyala_memory_limit_bytes", "nyala_memory_bytes");
    let mut write = || -> std::fmt::Result {
        writeln!(text, "# HELP {limit} The memory limit, less what the process itself takes.")?;
        writeln!(text, "# TYPE {limit} gauge\n{limit} {}", memory.limit_bytes())?;
        writeln!(text, "# HELP {used} Memory by what it is used for.\n# TYPE {used} gauge")?;
        COMPONENTS.iter().try_for_each(|component| {
            let (name, bytes) = (component.name(), memory.used_bytes(*component));
            writeln!(text, "{used}{{component=\"{name}\"}} {bytes}")
        })
    };
    write().expect("writing to memory does not fail");
}

/// How many series there are, of measurements that somebody asked for.
fn series_metrics(catalog: &Catalog, text: &mut String) {
    let (all, away) = catalog.count_series();
    let gauges = [("series", "Series.", all), ("series_away", "Idle series that are not in memory.", away)];
    for (name, help, value) in gauges {
        writeln!(text, "# HELP nyala_{name} {help}\n# TYPE nyala_{name} gauge\nnyala_{name} {value}")
            .expect("writing to memory does not fail");
    }
}

/// Connections there are, may be and were closed, by where they come in.
fn connection_metrics(connections: &Connections, text: &mut String) {
    let listeners = [("http-bind", Some(&connections.remote)), ("bind-socket", connections.local.as_ref())];
    let mut show = |name: &str, help: &str, kind: &str, value: &dyn Fn(&Slots) -> u64| -> std::fmt::Result {
        writeln!(text, "# HELP nyala_{name} {help}\n# TYPE nyala_{name} {kind}")?;
        let mut slots = listeners.iter().filter_map(|(listener, slots)| Some((listener, slots.as_ref()?)));
        slots.try_for_each(|(listener, slots)| {
            writeln!(text, "nyala_{name}{{listener=\"{listener}\"}} {}", value(slots))
        })
    };
    let taken = show("connections", "Open connections.", "gauge", &|slots| slots.taken() as u64);
    let most = show("connections_max", "The most connections at once.", "gauge", &|slots| slots.max() as u64);
    let closed = "Connections that waited for their clients and were closed for others.";
    let closed = show("connections_closed_for_others_total", closed, "counter", &|slots| slots.closed());
    taken.and(most).and(closed).expect("writing to memory does not fail");
}

/// What the process takes, under the name that Prometheus has for it.
fn resident_metric(text: &mut String) {
    let Some(bytes) = resident::bytes() else { return };
    let name = "process_resident_memory_bytes";
    let written = writeln!(text, "# HELP {name} Resident memory size.\n# TYPE {name} gauge\n{name} {bytes}");
    written.expect("writing to memory does not fail");
}
