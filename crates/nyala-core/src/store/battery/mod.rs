//! The conformance battery: random operations on a store under test and on the naive one, side by side.
//!
//! Everything follows from a seed. Tables of both kinds are made, written with absent and NULL cells, in all
//! modes, deleted from, updated, altered and dropped; snapshots are held across later changes; scans and
//! aggregates of every shape are compared, aggregates to the bit. Between the steps the subject is disturbed in
//! its own way: flushed, compacted, reopened. An error names the seed and the step, so it can be replayed.
//!
//! [`Step`] and [`compare_stores`] are public for tests that need the same operations in another frame (a power
//! cut at every write of the disk).

mod compare;
mod generate;
mod request;
mod step;

pub use compare::{compare_snapshots, compare_stores};
pub use generate::Generator;
pub use step::{Outcome, Step};

use super::memory::MemoryStore;
use super::{Feature, Freshness, Snapshot, SnapshotRef, Store, StoreRef};
use crate::error::{ErrorKind, Result};
use crate::ids::TableId;
use async_trait::async_trait;
use compare::{compare_aggregate, compare_bounds, compare_partitions, compare_scan, compare_sliding};

/// What may be done to a store between operations without a reader noticing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Move what is in memory to disk.
    Flush,
    /// Rewrite what is on disk.
    Compact,
    /// Close and open again. Snapshots held are dropped before.
    Reopen,
}

/// A store under test.
#[async_trait]
pub trait Subject: Send {
    /// The store as it is now; asked for again after every disturbance.
    fn store(&self) -> StoreRef;

    /// Disturbs the store; what does not apply does nothing.
    async fn disturb(&mut self, disturbance: Disturbance) -> Result<()>;
}

/// What a run does.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Where everything random comes from.
    pub seed: u64,
    /// How many steps.
    pub steps: usize,
}

/// Snapshots of both stores taken at the same moment.
struct Held {
    subject: SnapshotRef,
    model: SnapshotRef,
    tables: Vec<(TableId, TableId)>,
    taken_at: usize,
}

/// Runs the battery; the error says where the stores differ.
pub async fn run(subject: &mut dyn Subject, settings: Settings) -> std::result::Result<(), String> {
    let mut generator = Generator::new(settings.seed);
    let model = MemoryStore::model_of(subject.store().capabilities());
    let mut held: Vec<Held> = Vec::new();
    for number in 0..settings.steps {
        let place =
            |what: &str, error: String| format!("seed {} step {number}: {what}: {error}", settings.seed);
        let store = subject.store();
        match generator.below(100) {
            0..12 => {
                let disturbance = match generator.below(8) {
                    0..4 => Disturbance::Flush,
                    4..6 => Disturbance::Compact,
                    _ => Disturbance::Reopen,
                };
                if disturbance == Disturbance::Reopen {
                    held.clear();
                }
                drop(store);
                let outcome = subject.disturb(disturbance).await;
                outcome.map_err(|error| place(&format!("{disturbance:?}"), error.to_string()))?;
            }
            12..17 if held.len() < 3 => held.push(Held {
                subject: latest(&*store).await.map_err(|error| place("snapshot", error))?,
                model: model.latest(),
                tables: generator.table_ids(),
                taken_at: number,
            }),
            17..22 if !held.is_empty() => {
                let at = generator.below(held.len() as u64) as usize;
                let snapshots = if generator.chance(2) { held.swap_remove(at) } else { held.remove(at) };
                let what = format!("snapshot of step {}", snapshots.taken_at);
                let Held { subject, model, tables, .. } = snapshots;
                let outcome = compare_snapshots(&*subject, &*model, &tables).await;
                outcome.map_err(|error| place(&what, error))?;
            }
            22..45 => {
                let subject = latest(&*store).await.map_err(|error| place("snapshot", error))?;
                if !store.capabilities().features.has(Feature::History) {
                    let past = store.snapshot(Freshness::Past(generator.time())).await;
                    let kind = past.err().map(|error| error.kind());
                    assert_eq!(kind, Some(ErrorKind::Unsupported), "a past that the store does not keep");
                }
                check_reads(&mut generator, &*subject, &*model.latest())
                    .await
                    .map_err(|error| place("reads", error))?;
                check_partitions(&generator, &*store, &model)
                    .await
                    .map_err(|error| place("partitions", error))?;
            }
            _ => {
                let step = generator.step();
                let outcome = step.apply_to_both(&mut generator, &*store, &model).await;
                outcome.map_err(|error| place(&format!("{step:?}"), error))?;
            }
        }
    }
    let store = subject.store();
    compare_stores(&*store, &model, &generator.table_ids())
        .await
        .map_err(|error| format!("seed {} at the end: {error}", settings.seed))
}

async fn latest(store: &dyn Store) -> std::result::Result<SnapshotRef, String> {
    store.snapshot(Freshness::Latest).await.map_err(|error| error.to_string())
}

async fn check_partitions(
    generator: &Generator,
    subject: &dyn Store,
    model: &dyn Store,
) -> std::result::Result<(), String> {
    for table in generator.tables.iter().filter(|table| !table.width_changed) {
        compare_partitions(subject, table.subject, model, table.model).await?;
    }
    Ok(())
}

/// Random reads of one table of both.
pub async fn check_reads(
    generator: &mut Generator,
    subject: &dyn Snapshot,
    model: &dyn Snapshot,
) -> std::result::Result<(), String> {
    let Some(table) = generator.any_table() else { return Ok(()) };
    for _ in 0..4 {
        let request = generator.scan(&table);
        compare_scan(subject, model, table.model, &request).await?;
    }
    if table.schema.is_series_keyed() {
        for _ in 0..3 {
            let request = generator.aggregate(&table);
            compare_aggregate(subject, model, table.model, &request).await?;
        }
        let (request, windows) = (generator.aggregate(&table), generator.sliding());
        compare_sliding(subject, model, table.model, &request, windows).await?;
        let within = generator.time_range();
        compare_bounds(subject, table.subject, model, table.model, within).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emulate::complete_by_pieces;
    use super::super::{Atomicity, Capabilities, Features};
    use super::*;
    use std::sync::Arc;

    struct Naive(StoreRef);

    #[async_trait]
    impl Subject for Naive {
        fn store(&self) -> StoreRef {
            self.0.clone()
        }

        async fn disturb(&mut self, _: Disturbance) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_naive_store_agrees_with_itself() {
        for seed in 0..4 {
            let mut subject = Naive(Arc::new(MemoryStore::default()));
            run(&mut subject, Settings { seed, steps: 150 }).await.expect("the same store twice");
        }
    }

    /// Each feature missing in turn, then all that can be emulated, then also atomic batches.
    #[tokio::test]
    async fn what_a_store_lacks_is_emulated_or_refused() {
        let all = MemoryStore::default().capabilities();
        let without = |feature| Capabilities { features: all.features.without(feature), ..all };
        let mut lacking: Vec<_> = Feature::all().map(without).collect();
        let emulated = Feature::all().filter(|feature| feature.is_emulated());
        let features = emulated.fold(all.features, Features::without);
        lacking.push(Capabilities { features, ..all });
        lacking.push(Capabilities { features, atomicity: Atomicity::Row, ..all });
        let seeds = std::env::var("NYALA_BATTERY_SEEDS").ok().and_then(|text| text.parse().ok());
        for seed in 0..seeds.unwrap_or(3) {
            for capabilities in &lacking {
                let store = Arc::new(MemoryStore::with_capabilities(*capabilities));
                let mut subject = Naive(complete_by_pieces(store, 1 + seed as usize % 16));
                let agreed = run(&mut subject, Settings { seed, steps: 150 }).await;
                agreed.unwrap_or_else(|error| panic!("with {:?}: {error}", capabilities.features));
            }
        }
    }
}
