//! Puts store, databases and server together, and starts the background tasks.

use crate::background;
#[cfg(feature = "sql")]
use crate::config::BindAddress;
use crate::config::{AuditedLogIns, Config};
use crate::descriptors;
use crate::leadership::Lead;
use crate::process_metrics;
use crate::resident_memory;
use crate::server::audit::{Audit, AuditFile};
use crate::server::connection_threads::STACK_BYTES;
use crate::server::copies::Copies;
#[cfg(feature = "sql")]
use crate::server::flight::{self, Flight};
use crate::server::health::{self, Check, Checks};
use crate::server::http::access::Access;
use crate::server::http::buffer_pool::BufferPool;
use crate::server::http::{Context, Databases, HttpLimits};
#[cfg(feature = "sql")]
use crate::server::influxql_tables::InfluxqlTables;
use crate::server::inputs::{BoundInputs, Inputs};
use crate::server::lifecycle::Lifecycle;
use crate::server::metric::{self, Metric};
use crate::server::metrics::{MetricSource, Metrics};
#[cfg(feature = "sql")]
use crate::server::postgres::{self, Postgres};
use crate::server::slow_queries::SlowQueries;
use crate::server::statistics::{self, ContinuousCounts};
use crate::server::tls;
use crate::server::{ConnectionLimits, Connections, Server};
use crate::storage::{self, Past, Storage};
#[cfg(feature = "sql")]
use crate::storage::{exchange, spill};
use crate::subscriber::Subscriptions;
use crate::traces;
use nyala_core::env::{ClockRef, SystemClock};
use nyala_core::memory::{COMPONENTS, MemoryBudget};
use nyala_core::store::emulate;
use nyala_core::{Error, Result};
use nyala_db::catalog::Catalog;
use nyala_db::feed::Feed;
use nyala_db::handover::Handover;
use nyala_db::idle::IdleRules;
use nyala_db::users::{QuotaKind, Users};
use nyala_db::write::LineWriter;
use nyala_exec::running::RunningQueries;
use nyala_query::report::{Reporter, Topic};
#[cfg(feature = "sql")]
use nyala_sql::spill::SpillSpace;
#[cfg(feature = "sql")]
use std::io;
#[cfg(feature = "sql")]
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The memory of the process before it holds any data: code, stacks, the allocator's own.
pub(crate) const PROCESS_BYTES: usize = 26 << 20;
/// The least time that work in the thread pool gets at a shutdown, even when clients used up the shutdown timeout.
const WORK_TIMEOUT_MIN: Duration = Duration::from_millis(500);

/// A running server.
pub struct Running {
    shutdown_timeout: Duration,
    pub server: Server,
    #[cfg(feature = "sql")]
    pub postgres: Option<Postgres>,
    #[cfg(feature = "sql")]
    pub flight: Option<Flight>,
    work: tokio::runtime::Runtime,
    inputs: Inputs,
    storage: Arc<dyn Storage>,
    context: Arc<Context>,
    lead: Arc<Lead>,
    lead_kept: tokio::task::JoinHandle<()>,
}

impl Running {
    /// Opens the store and begins to serve. Health checks are told so by [`Running::ready`].
    pub fn start(config: &Config, past: Past) -> Result<Self> {
        descriptors::raise_limit();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let work = tokio::runtime::Builder::new_multi_thread()
            .worker_threads((2 * cores).max(4))
            .thread_name("work")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        let clock: ClockRef = Arc::new(SystemClock);
        let memory = MemoryBudget::new(data_memory_bytes(config) as u64);
        let opened: Arc<OnceLock<Opened>> = Arc::default();
        let audit = Arc::new(Audit::new(audit_file(config, &clock).map_err(Error::invalid)?));
        let checks = checks(opened.clone(), audit.clone());
        let memory_bytes = data_memory_bytes(config);
        let most = descriptors::connections_max();
        #[cfg(feature = "sql")]
        let (most, postgres_most, flight_most) = {
            let postgres_most = postgres::connections_max(memory_bytes, most);
            let flight_most = flight::connections_max(memory_bytes, most);
            (most - postgres_most - flight_most, postgres_most, flight_most)
        };
        let connections = Arc::new(Connections::within(memory_bytes, most, config.bind_socket.is_some()));
        let certificates = config.certificates().map_err(Error::invalid)?.map(Arc::new);
        let inputs = BoundInputs::bind(config.inputs().map_err(Error::invalid)?)?;
        let started_ns = clock.now_ns();
        let mut sources = metric_sources(&opened, &checks, &memory, &connections, started_ns);
        let measured = certificates.clone();
        sources.push(Box::new(move || measured.iter().filter_map(|own| own.metric()).collect()));
        sources.push(Box::new(inputs.metrics()));
        let audited = audit.clone();
        sources.push(Box::new(move || audited.metrics()));
        #[cfg(feature = "sql")]
        let files = exchange::folders(config)?;
        let running = running_queries(config, &mut sources);
        // Made when the data directory is locked.
        #[cfg(feature = "sql")]
        let spill: Arc<OnceLock<Arc<SpillSpace>>> = Arc::default();
        #[cfg(feature = "sql")]
        let (postgres, flight) = {
            let measured = spill.clone();
            sources.push(Box::new(move || spill::metric(measured.get()).into_iter().collect()));
            let options = |bind| postgres::Options {
                bind,
                needs_log_in: config.auth_enabled,
                message_bytes_max: config.max_body_size.0,
                connections_max: postgres_most,
                cores,
                shutdown_timeout: config.shutdown_timeout.0,
                certificates: certificates.clone(),
                audit: audit.clone(),
                memory: memory.clone(),
            };
            let start = |bind| Postgres::start(options(bind), work.handle());
            let postgres = listen(config.postgres_address(), "postgres-bind", "PostgreSQL", start)?;
            sources.extend(postgres.iter().map(|postgres| Box::new(postgres.metrics()) as MetricSource));
            let options = |bind| flight::Options {
                bind,
                message_bytes_max: config.max_body_size.0,
                connections_max: flight_most,
                cores,
                keep_alive_timeout: config.keep_alive_timeout.0,
                shutdown_timeout: config.shutdown_timeout.0,
                certificates: certificates.clone(),
                audit: audit.clone(),
                memory: memory.clone(),
            };
            let start = |bind| Flight::start(options(bind), work.handle());
            let flight = listen(config.flight_address(), "flight-bind", "Arrow Flight SQL", start)?;
            sources.extend(flight.iter().map(|flight| Box::new(flight.metrics()) as MetricSource));
            (postgres, flight)
        };
        let metrics = Arc::new(Metrics::new(sources));
        let continuous: Arc<ContinuousCounts> = Arc::default();
        let subscriptions: Arc<OnceLock<Arc<Subscriptions>>> = Arc::default();
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
            running: Arc::new(running),
            access: match config.auth_enabled {
                true => Access::Users { secret: config.shared_secret.clone() },
                false => Access::Open,
            },
            reporter: reporter(config, &metrics, &continuous, &subscriptions, (&opened, &memory), &clock)?,
            allowed_sites: config.allowed_sites().map_err(Error::invalid)?,
            audit,
            metrics,
            watch: Default::default(),
            lifecycle: Lifecycle::default(),
            checks: checks.clone(),
            otlp: inputs.otlp(),
            requests: AtomicU64::new(0),
            #[cfg(feature = "sql")]
            load_attempts: Arc::default(),
        });
        // The server listens before it recovers, so that clients are told to wait.
        work.spawn(tls::renew_at_hangups(certificates.clone()));
        work.spawn(background::open_audit_log_again(context.audit.clone()));
        let shutdown_timeout = config.shutdown_timeout.0;
        let limits = ConnectionLimits { keep_alive_timeout: config.keep_alive_timeout.0, shutdown_timeout };
        let server = Server::start(
            config.http_bind.0,
            config.bind_socket.as_deref(),
            cores,
            &connections,
            limits,
            context.clone(),
            certificates,
        )
        .map_err(|error| Error::from(error).context(format!("listening on {}", config.http_bind)))?;
        let now_open = match open_databases(config, past, &work, &context, &memory) {
            Ok(now_open) => now_open,
            Err(error) => {
                server.stop();
                return Err(error);
            }
        };
        let Opened { storage, catalog, lead, copies, handover, .. } = now_open.clone();
        // The cell was empty.
        let _ = opened.set(now_open);
        let upkeep_interval = match config.series_idle_after.0 {
            Duration::ZERO => background::UPKEEP_INTERVAL,
            idle_after => {
                (idle_after / 2).clamp(background::UPKEEP_INTERVAL_MIN, background::UPKEEP_INTERVAL)
            }
        };
        let keeper = lead.clone();
        let lead_kept = work.spawn(async move { keeper.keep().await });
        work.spawn(background::follow_others(catalog.clone()));
        work.spawn(background::upkeep(catalog.clone(), lead.clone(), memory.clone(), clock, upkeep_interval));
        work.spawn(background::watch_health(storage.clone(), checks));
        work.spawn(copies.clone().keep_clear());
        let (feed, written) = Feed::new(memory.clone());
        let all = Subscriptions::new(catalog.clone(), feed.counts().clone(), memory.clone());
        let all = Arc::new(all);
        work.spawn(all.clone().run(written));
        let _ = subscriptions.set(all);
        let writer = LineWriter::new(catalog.clone(), memory.clone(), series_limit_bytes(config));
        let writer = Arc::new(writer.with_feed(feed));
        let answer_buffers = BufferPool::for_answers(&memory);
        let body_buffers = BufferPool::for_bodies(&memory);
        let pools = [answer_buffers.clone(), body_buffers.clone()];
        work.spawn(resident_memory::watch(memory.clone(), PROCESS_BYTES as u64, pools));
        #[cfg(feature = "sql")]
        let sql = Arc::new(nyala_sql::SqlServer {
            catalog: catalog.clone(),
            writer: writer.clone(),
            running: context.running.clone(),
            memory: memory.clone(),
            statement_bytes: context.limits.query_bytes,
            spill: spill.get_or_init(|| Arc::new(spill::space(config, context.limits.query_bytes))).clone(),
            clock: context.clock.clone(),
            influxql: Arc::new(InfluxqlTables { writer: writer.clone(), reporter: context.reporter.clone() }),
            plans: nyala_sql::PlanCache::default(),
            advisory_locks: Arc::default(),
            sessions: Arc::default(),
            files: files.clone(),
            started_ns: context.clock.now_ns(),
            changed: {
                let audit = context.audit.clone();
                Arc::new(move |author: &nyala_db::changes::Author, change| audit.executed_sql(author, change))
            },
            audited: context.audit.has_file().then(|| {
                let audit = context.audit.clone();
                Arc::new(move |author: &nyala_db::changes::Author| audit.audited_sql(author, None)) as _
            }),
            denied: {
                let audit = context.audit.clone();
                Arc::new(move |author: &nyala_db::changes::Author, words: &str| {
                    audit.denied_sql(author, words)
                })
            },
        });
        #[cfg(feature = "sql")]
        if let Some(postgres) = &postgres {
            postgres.ready(sql.clone());
        }
        #[cfg(feature = "sql")]
        if let Some(flight) = &flight {
            flight.ready(sql.clone(), context.clone());
        }
        let databases = Databases {
            catalog,
            writer,
            #[cfg(feature = "sql")]
            sql,
            copies,
            handover,
            memory,
            answer_buffers,
            body_buffers,
        };
        let _ = context.databases.set(databases);
        let inputs = inputs.serve(&context)?;
        work.spawn(background::run_continuous_queries(context.clone(), lead.clone(), continuous));
        Ok(Self {
            shutdown_timeout,
            server,
            #[cfg(feature = "sql")]
            postgres,
            #[cfg(feature = "sql")]
            flight,
            work,
            inputs,
            storage,
            context,
            lead,
            lead_kept,
        })
    }

    /// From now on health checks say that queries and writes are answered.
    pub fn ready(&self) {
        self.context.lifecycle.ready();
    }

    /// Lets requests end, then flushes and closes the store.
    pub fn stop(self) -> Result<()> {
        let begun = Instant::now();
        self.context.lifecycle.stopping();
        #[cfg(feature = "sql")]
        self.postgres.iter().for_each(Postgres::stopping);
        #[cfg(feature = "sql")]
        self.flight.iter().for_each(Flight::stopping);
        self.inputs.stopping();
        self.server.stop();
        #[cfg(feature = "sql")]
        if let Some(postgres) = self.postgres {
            postgres.stop();
        }
        #[cfg(feature = "sql")]
        if let Some(flight) = self.flight {
            flight.stop();
        }
        let left = || self.shutdown_timeout.saturating_sub(begun.elapsed()).max(WORK_TIMEOUT_MIN);
        self.inputs.stop(left());
        self.lead_kept.abort();
        // A heartbeat that has just taken the lead would keep it beyond `leave`.
        let _ = self.work.block_on(self.lead_kept);
        self.work.block_on(self.lead.leave());
        if let Some(databases) = self.context.databases.get()
            && let Err(error) = self.work.block_on(databases.catalog.relations().give_numbers_back())
        {
            tracing::warn!(%error, "numbers of sequences that nobody was given are left out");
        }
        self.work.shutdown_timeout(left());
        self.storage.stop()
    }
}

/// Begins to listen for clients of another protocol, unless that is off. Where nobody asked for it, another program may have the
/// port.
#[cfg(feature = "sql")]
fn listen<T>(
    address: Option<(BindAddress, bool)>,
    setting: &str,
    clients: &str,
    start: impl FnOnce(SocketAddr) -> io::Result<T>,
) -> Result<Option<T>> {
    let Some((address, is_asked_for)) = address else { return Ok(None) };
    match start(address.0) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if is_asked_for => {
            Err(Error::from(error).context(format!("listening on {address} ({setting})")))
        }
        Err(error) => {
            tracing::warn!(%error, %address, "no clients of {clients} are served: say another --{setting}");
            Ok(None)
        }
    }
}

/// Opens store and databases, and reports the progress of the recovery.
fn open_databases(
    config: &Config,
    past: Past,
    work: &tokio::runtime::Runtime,
    context: &Context,
    memory: &Arc<MemoryBudget>,
) -> Result<Opened> {
    let mut watch = |replayed_bytes| context.lifecycle.recovering(replayed_bytes);
    let storage = storage::open(config, past, memory, work.handle(), &mut watch)?;
    let losses = storage.losses();
    for loss in &losses {
        tracing::error!(loss, "stored data is damaged or lost; `nyala check --accept` ends this message");
    }
    let rules = IdleRules {
        after_ns: i64::try_from(config.series_idle_after.0.as_nanos()).unwrap_or(i64::MAX),
        // New series find memory even when queries bring back as many idle series as they can.
        series_bytes_max: series_limit_bytes(config) / 4 * 3,
        ..IdleRules::default()
    };
    let store = emulate::complete(storage.store());
    // Writers on other servers would not be held off.
    let handover = match store.capabilities().is_shared {
        true => None,
        false => Some(Handover::open(store.clone())),
    };
    let store = handover.as_ref().map_or(store, Handover::store);
    let catalog = Arc::new(work.block_on(Catalog::open(store))?.with_idle_rules(rules));
    catalog.users().set_scram_iterations(config.scram_iterations);
    catalog.users().log_ins().set_free(config.log_in_failures);
    if let Some(damage) = catalog.damage() {
        tracing::error!(
            %damage,
            "records of databases are damaged: databases are known by their measurements, their policies keep points \
             for ever, and their continuous queries are lost; ALTER and CREATE what they were, then `nyala check \
             --accept` ends this message"
        );
    }
    let damaged_places = losses.len() as u64 + u64::from(catalog.damage().is_some());
    let lead = Lead::open(catalog.store(), handover.clone(), config, context.started_ns);
    let lead = Arc::new(work.block_on(lead)?);
    handover.iter().for_each(|handover| handover.refuse_if_left());
    let copied = storage.clone();
    let copy_to = Box::new(move |dir: &Path| copied.copy_to(dir));
    let copies = Arc::new(Copies::new(config.data_dir.clone(), copy_to, context.clock.clone()));
    Ok(Opened { storage, catalog, lead, copies, handover, damaged_places })
}

/// The list of running queries, which tells of slow ones if they are asked for.
fn running_queries(config: &Config, sources: &mut Vec<MetricSource>) -> RunningQueries {
    let running = RunningQueries::new(config.query_limits());
    let Some(slow) = SlowQueries::new(config.slow_query_threshold.0).map(Arc::new) else { return running };
    let counted = slow.clone();
    sources.push(Box::new(move || vec![counted.metric()]));
    running.telling(move |query| slow.ended(query))
}

/// The memory limit without the process's own memory.
fn data_memory_bytes(config: &Config) -> usize {
    config.memory_limit.0.saturating_sub(PROCESS_BYTES)
}

/// The most memory of series indexes.
fn series_limit_bytes(config: &Config) -> usize {
    data_memory_bytes(config) / 2
}

/// What is there once the store is open.
#[derive(Clone)]
struct Opened {
    storage: Arc<dyn Storage>,
    catalog: Arc<Catalog>,
    lead: Arc<Lead>,
    copies: Arc<Copies>,
    /// If the server has its store for itself.
    handover: Option<Arc<Handover>>,
    /// How many places of the store are damaged or lost.
    damaged_places: u64,
}

/// The file of the audit log, if there is to be one.
fn audit_file(config: &Config, clock: &ClockRef) -> std::result::Result<Option<AuditFile>, String> {
    let has_successes = config.audit_log_ins == AuditedLogIns::All;
    let open = |path: &PathBuf| AuditFile::open(path.clone(), has_successes, clock.clone());
    config.audit_log.as_ref().map(open).transpose()
}

/// Lists the problems of the store.
fn checks(opened: Arc<OnceLock<Opened>>, audit: Arc<Audit>) -> Checks {
    Arc::new(move || {
        let Some(Opened { storage, handover, damaged_places, .. }) = opened.get() else { return Vec::new() };
        let mut checks = storage.checks();
        if let Some(to) = handover.as_ref().and_then(|handover| handover.left_to()) {
            let message = format!("writes are not taken: everything was moved to {to}");
            checks.push(Check { name: "writes", fails: true, message });
        }
        checks.extend(audit.check());
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

/// What `/metrics` shows beside requests: metrics of the store, once it is open, and of the process.
fn metric_sources(
    opened: &Arc<OnceLock<Opened>>,
    checks: &Checks,
    memory: &Arc<MemoryBudget>,
    connections: &Arc<Connections>,
    started_ns: i64,
) -> Vec<MetricSource> {
    let (opened, checks) = (opened.clone(), checks.clone());
    let (memory, connections) = (memory.clone(), connections.clone());
    let of_storage = move || {
        let Some(Opened { storage, catalog, lead, copies, damaged_places, .. }) = opened.get() else {
            return Vec::new();
        };
        let mut metrics = storage.metrics();
        metrics.extend(series_metrics(catalog));
        metrics.extend(lead.metrics());
        metrics.extend(copies.metrics());
        metrics.extend(access_metrics(catalog.users()));
        metrics.extend(memory_metrics(&memory));
        let damaged = "What is damaged or lost, and not accepted yet.";
        metrics.push(Metric::gauge("nyala_recovery_damaged_places", damaged, *damaged_places));
        metrics.push(health::metric(&checks()));
        metrics
    };
    vec![
        Box::new(of_storage),
        Box::new(|| resident_memory::metric().into_iter().collect()),
        Box::new(move || process_metrics::metrics(started_ns)),
        Box::new(move || connections.metrics()),
        Box::new(traces::metrics),
    ]
}

/// What was refused before anything was looked at.
fn access_metrics(users: &Users) -> [Metric; 2] {
    let slowed = "Log-ins that were refused because too many of that user or address had failed.";
    let refused = "Requests that were refused because of a quota of their user.";
    let by_quota =
        QuotaKind::ALL.map(|kind| (format!("quota=\"{}\"", kind.name()), users.quota_refusals().count(kind)));
    [
        Metric::counter("nyala_log_ins_slowed_down_total", slowed, users.log_ins().refused()),
        Metric::counter("nyala_quota_refused_total", refused, 0).by_labels(by_quota),
    ]
}

/// The memory limit, and what memory is used for.
fn memory_metrics(memory: &MemoryBudget) -> [Metric; 2] {
    let limit = "The memory limit, less what the process itself takes.";
    let by_use = COMPONENTS
        .iter()
        .map(|component| (format!("component=\"{}\"", component.name()), memory.used_bytes(*component)));
    [
        Metric::gauge("nyala_memory_limit_bytes", limit, memory.limit_bytes()),
        Metric::gauge("nyala_memory_bytes", "Memory by what it is used for.", 0).by_labels(by_use),
    ]
}

/// The number of series of the measurements that were used since the start.
fn series_metrics(catalog: &Catalog) -> [Metric; 2] {
    let (all, away) = catalog.count_series();
    [
        Metric::gauge("nyala_series", "Series.", all as u64),
        Metric::gauge("nyala_series_away", "Idle series that are not in memory.", away as u64),
    ]
}

/// Makes the reports of `SHOW STATS` and `SHOW DIAGNOSTICS` about the parts that are put together here.
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
                let memory = statistics::memory(memory.total_bytes(), memory.limit_bytes());
                [memory, metric::statistics("engine", &opened.storage.metrics())]
            });
            let others = [statistics::requests(&metrics.requests, address.clone()), continuous.report()];
            let of_subscriptions = subscriptions.get().map(|all| all.reports()).unwrap_or_default();
            of_storage.chain(others).chain(of_subscriptions).collect()
        }
        Topic::Diagnostics => {
            let mut facts = statistics::facts(&clock, started_ns);
            facts.push(statistics::settings(&settings));
            facts.extend(opened.get().into_iter().flat_map(|opened| opened.lead.reports()));
            facts
        }
    }))
}
