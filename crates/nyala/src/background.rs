//! What a server does without being asked: it follows other servers, drops what has expired, watches its health, and runs
//! continuous queries. Each function runs until it is dropped.

use crate::leadership::Lead;
use crate::server::audit::Audit;
use crate::server::health::{Checks, HealthLog};
use crate::server::http::Context;
use crate::server::statistics::ContinuousCounts;
use crate::storage::Storage;
use futures::FutureExt;
use nyala_core::env::ClockRef;
use nyala_core::memory::{Component, MemoryBudget};
use nyala_db::catalog::Catalog;
use nyala_db::retention::RetentionOutcome;
use nyala_db::users::Principal;
use nyala_exec::QueryMemory;
use nyala_query::continuous::{Outcome, Runner};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often a server of a shared store looks what others have changed, without being asked.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// One in so many of these looks reads everything that may have changed without a word.
const FOLLOWED_THOROUGHLY: u64 = 30;
/// How often expired partitions are dropped and series indexes are measured.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(30);
/// The same when series become idle sooner than that.
pub const UPKEEP_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// How often the disk is checked, and failed work is tried again.
const HEALTH_INTERVAL: Duration = Duration::from_secs(2);

/// How often due continuous queries are looked for.
const CONTINUOUS_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the audit log again at every SIGHUP: others may have renamed its file.
pub async fn open_audit_log_again(audit: Arc<Audit>) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::error!(%error, "the audit log is not opened again at SIGHUP"),
    };
    while hangups.recv().await.is_some() {
        audit.open_again();
    }
}

/// Keeps up with the other servers of a shared store, so that requests find little that is new.
pub async fn follow_others(catalog: Arc<Catalog>) {
    let mut ticks = tokio::time::interval(FOLLOW_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut has_failed = false;
    for number in 1_u64.. {
        ticks.tick().await;
        let followed = match number.is_multiple_of(FOLLOWED_THOROUGHLY) {
            true => catalog.follow_thoroughly().await,
            false => catalog.follow().await,
        };
        if let Some(error) = followed.as_ref().err().filter(|_| !has_failed) {
            tracing::warn!(%error, "cannot read what other servers have changed: queries fail until it can be read");
        }
        has_failed = followed.is_err();
    }
}

/// Drops expired partitions, moves idle series out of memory, and charges the memory of series indexes.
pub async fn upkeep(
    catalog: Arc<Catalog>,
    lead: Arc<Lead>,
    memory: Arc<MemoryBudget>,
    clock: ClockRef,
    interval: Duration,
) {
    let mut ticks = tokio::time::interval(interval);
    let mut index_memory = memory.charge(Component::SeriesIndex, 0);
    loop {
        ticks.tick().await;
        let RetentionOutcome { dropped, failed, error } = match lead.is_held() {
            true => catalog.enforce_retention(clock.now_ns()).await,
            false => RetentionOutcome::default(),
        };
        if dropped > 0 {
            tracing::info!(dropped, "dropped partitions older than their retention policy");
        }
        if let Some(error) = error {
            tracing::error!(%error, failed, "expired partitions of some measurements could not be dropped");
        }
        if lead.is_held()
            && let Err(error) = catalog.drop_past_columns(clock.now_ns()).await
        {
            tracing::warn!(%error, "cannot remove columns that were dropped: they still take space");
        }
        if let Err(error) = catalog.learn_presence().await {
            tracing::warn!(%error, "cannot update which series have points at which time: queries visit more series than needed");
        }
        if lead.is_held()
            && let Err(error) = catalog.evict_idle_series(clock.now_ns()).await
        {
            tracing::warn!(%error, "cannot move idle series out of memory");
        }
        index_memory.set(catalog.measure_series_memory() as u64);
    }
}

/// Checks and maintains the store, and logs changes of its health.
pub async fn watch_health(storage: Arc<dyn Storage>, checks: Checks) {
    let log = Arc::new(HealthLog::default());
    let mut ticks = tokio::time::interval(HEALTH_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (storage, checks, log) = (storage.clone(), checks.clone(), log.clone());
        // All of this may wait for a disk. A panic is logged by the panic itself.
        let done = tokio::task::spawn_blocking(move || {
            log.update(&checks());
            storage.maintain();
            log.update(&checks());
        });
        let _ = done.await;
    }
}

/// Runs continuous queries when they are due.
pub async fn run_continuous_queries(context: Arc<Context>, lead: Arc<Lead>, counts: Arc<ContinuousCounts>) {
    let Some(databases) = context.databases.get() else { return };
    let mut ticks = tokio::time::interval(CONTINUOUS_INTERVAL);
    // After a long query, missed ticks are not made up.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut runner = Runner::default();
    loop {
        ticks.tick().await;
        if !lead.is_held() {
            // Another server runs them: how far they have come is read again.
            runner = Runner::default();
            continue;
        }
        // The user who created the query had the rights it needs.
        let query = context.query(databases, String::new(), String::new(), Principal::Open);
        let memory = || QueryMemory::new(context.limits.query_bytes, &databases.memory);
        // A query that panics must not end the others. The panic itself was logged.
        let run = AssertUnwindSafe(runner.run(&query, memory)).catch_unwind();
        let ran = tokio::select! {
            ran = run => Some(ran),
            // Its results would replace newer ones of the new leader.
            () = lead.lost() => None,
        };
        let Some(ran) = ran else {
            runner = Runner::default();
            continue;
        };
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
