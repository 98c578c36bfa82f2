//! Puts the parts together: the only place that names a concrete store.

use crate::config::Config;
use crate::server::Server;
use crate::server::http::{Context, HttpLimits};
use crate::server::metrics::Metrics;
use nyala_core::Result;
use nyala_core::env::{ClockRef, SystemClock};
use nyala_core::store::StoreRef;
use nyala_core::store::memory::MemoryStore;
use nyala_db::catalog::Catalog;
use nyala_db::ingest::SeriesCacheLimits;
use nyala_db::write::LineWriter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often expired partitions are looked for.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);

/// A running nyala.
pub struct Running {
    server: Server,
    work: tokio::runtime::Runtime,
    ready: Arc<AtomicBool>,
}

impl Running {
    /// Opens the store and begins to serve.
    pub fn start(config: &Config) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let work = tokio::runtime::Builder::new_multi_thread()
            .worker_threads((2 * cores).max(4))
            .thread_name("work")
            .enable_all()
            .build()?;
        let clock: ClockRef = Arc::new(SystemClock);
        let store: StoreRef = Arc::new(MemoryStore::default());
        let catalog = Arc::new(work.block_on(Catalog::open(store))?);
        let ready = Arc::new(AtomicBool::new(true));
        let context = Context {
            catalog: catalog.clone(),
            writer: Arc::new(LineWriter::new(catalog.clone(), SeriesCacheLimits::default())),
            clock: clock.clone(),
            work: work.handle().clone(),
            limits: HttpLimits { body_bytes: config.max_body_size.0, query_bytes: config.memory_limit.0 / 4 },
            metrics: Arc::new(Metrics::new(Vec::new())),
            ready: ready.clone(),
            requests: AtomicU64::new(0),
        };
        work.spawn(enforce_retention(catalog, clock));
        let server = Server::start(config.http_bind, cores, Arc::new(context))?;
        Ok(Self { server, work, ready })
    }

    /// The address of the HTTP interface.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Lets requests end, flushes, closes.
    pub fn stop(self) {
        self.ready.store(false, Ordering::Release);
        self.server.stop();
        self.work.shutdown_timeout(Duration::from_secs(30));
    }
}

async fn enforce_retention(catalog: Arc<Catalog>, clock: ClockRef) {
    let mut ticks = tokio::time::interval(RETENTION_INTERVAL);
    loop {
        ticks.tick().await;
        match catalog.enforce_retention(clock.now_ns()).await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(dropped, "partitions outlived their retention policy"),
            Err(error) => tracing::error!(%error, "enforcing retention"),
        }
    }
}
