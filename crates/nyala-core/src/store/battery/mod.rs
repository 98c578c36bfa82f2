//! The conformance battery: random operations on a store under test (the subject) and on the naive store (the model),
//! side by side.
//!
//! Everything depends only on a seed. Tables of both kinds are created, written in all modes with absent and NULL
//! cells, deleted from, updated, altered and dropped. Snapshots are held across later changes. Scans and aggregates of
//! every shape are compared, aggregates bit by bit. Meanwhile stages are open, and copies follow the subject's changes.
//! Between the steps the subject is disturbed in its own way: flushed, compacted, reopened. An error names the seed and
//! the step, so it can be replayed.
//!
//! [`Step`] and [`compare_stores`] are public for tests that use the same operations differently (for example with a
//! power cut at every write to the disk).

mod around;
mod compare;
mod follower;
mod following;
mod generate;
mod hints;
mod request;
mod stages;
mod step;

pub use compare::{compare_aggregate, compare_scan, compare_snapshots, compare_stores};
pub use generate::Generator;
pub use step::{Outcome, Step};

use super::memory::MemoryStore;
use super::{ChangesRequest, Feature, Freshness, Snapshot, SnapshotRef, Store, StoreRef};
use crate::error::{ErrorKind, Result};
use crate::ids::{Sequence, TableId};
use around::Changes;
use async_trait::async_trait;
use compare::{compare_bounds, compare_partitions, compare_sliding};
use following::Followers;
use hints::{compare_parts, compare_prefiltered};
use stages::Stages;

/// What may be done to a store between operations without a reader noticing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Move what is in memory to disk.
    Flush,
    /// Rewrite what is on disk, and forget the past.
    Compact,
    /// Close and reopen the store. Snapshots and stages are dropped first.
    Reopen,
}

/// A store under test.
#[async_trait]
pub trait Subject: Send {
    /// The store. It is requested again after every disturbance.
    fn store(&self) -> StoreRef;

    /// Disturbs the store. A disturbance that does not apply does nothing.
    async fn disturb(&mut self, disturbance: Disturbance) -> Result<()>;
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The source of all randomness.
    pub seed: u64,
    /// The number of steps.
    pub steps: usize,
}

/// Snapshots of both stores taken at the same moment.
struct Held {
    subject: SnapshotRef,
    model: SnapshotRef,
    tables: Vec<(TableId, TableId)>,
    taken_at: usize,
}

/// Runs the battery. The error says where the stores differ.
pub async fn run(subject: &mut dyn Subject, settings: Settings) -> std::result::Result<(), String> {
    let mut generator = Generator::new(settings.seed);
    let model = MemoryStore::model_of(subject.store().capabilities());
    let mut held: Vec<Held> = Vec::new();
    let (mut stages, mut followers) = (Stages::default(), Followers::default());
    let mut changes = Changes::default();
    for number in 0..settings.steps {
        let place =
            |what: &str, error: String| format!("seed {} step {number}: {what}: {error}", settings.seed);
        let store = subject.store();
        let features = store.capabilities().features;
        let mut changed = false;
        match generator.below(100) {
            0..12 => {
                let disturbance = match generator.below(8) {
                    0..4 => Disturbance::Flush,
                    4..6 => Disturbance::Compact,
                    _ => Disturbance::Reopen,
                };
                if disturbance == Disturbance::Reopen {
                    held.clear();
                    stages.clear();
                }
                if disturbance == Disturbance::Compact {
                    changes.clear();
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
                check_refusals(&*store).await.map_err(|error| place("what is missing", error))?;
                check_reads(&mut generator, &*subject, &*model.latest())
                    .await
                    .map_err(|error| place("reads", error))?;
                check_partitions(&generator, &*store, &model)
                    .await
                    .map_err(|error| place("partitions", error))?;
                let checked = changes.check(&mut generator, &*store).await;
                checked.map_err(|error| place("around a change", error))?;
            }
            45..60 if features.has(Feature::StagedWrites) => {
                let before =
                    changes.before(&*store, &model).await.map_err(|error| place("snapshot", error))?;
                let outcome = stages.step(&mut generator, &*store, &model).await;
                changed = outcome.map_err(|error| place("stages", error))?;
                let noted = changes.note(before, &generator, &*store, &model).await;
                noted.map_err(|error| place("snapshot", error))?;
            }
            60..68 if features.has(Feature::ChangeFeed) => {
                let outcome = followers.step(&mut generator, &*store, &model).await;
                outcome.map_err(|error| place("a follower", error))?;
            }
            _ => {
                let step = generator.step();
                if matches!(step, Step::DropPartitions(..)) && !features.has(Feature::PinnedPartitions) {
                    held.clear();
                }
                let before =
                    changes.before(&*store, &model).await.map_err(|error| place("snapshot", error))?;
                let outcome = step.apply_to_both(&mut generator, &*store, &model).await;
                changed = outcome.map_err(|error| place(&format!("{step:?}"), error))?;
                match step {
                    Step::Write(_) | Step::Delete(_) | Step::Update(_) => {
                        let noted = changes.note(before, &generator, &*store, &model).await;
                        noted.map_err(|error| place("snapshot", error))?;
                    }
                    Step::Create(_) => {}
                    // The past of what was dropped may be gone with it.
                    Step::Alter(_) | Step::DropTables(_) | Step::DropPartitions(..) => changes.clear(),
                }
            }
        }
        if changed && features.has(Feature::ChangeFeed) {
            let store = subject.store();
            followers.note(&*store, &model).await.map_err(|error| place("snapshot", error))?;
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

/// Checks that the store refuses what it says it cannot do, and changes after a future position.
async fn check_refusals(store: &dyn Store) -> std::result::Result<(), String> {
    let future = ChangesRequest { tables: None, after: Sequence(u64::MAX) };
    let answers = [
        (Feature::History, store.snapshot(Freshness::Past(0)).await.map(drop), None),
        (Feature::History, store.around(Sequence(u64::MAX)).await.map(drop), Some(ErrorKind::Invalid)),
        (Feature::StagedWrites, store.stage().await.map(drop), None),
        (Feature::ChangeFeed, store.changes(future).await.map(drop), Some(ErrorKind::Invalid)),
    ];
    for (feature, answer, otherwise) in answers {
        let kind = answer.err().map(|error| error.kind());
        let has = store.capabilities().features.has(feature);
        let expected = if has { otherwise } else { Some(ErrorKind::Unsupported) };
        // The store may no longer know that moment of the past.
        if kind != expected && !(has && feature == Feature::History) {
            return Err(format!("asked for {feature}, the store says {kind:?}, not {expected:?}"));
        }
    }
    Ok(())
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

/// Compares random reads of one table.
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
    if !table.schema.is_series_keyed() {
        compare_prefiltered(generator, (subject, model), &table).await?;
        compare_parts(generator, (subject, model), &table).await?;
    } else {
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
    use super::super::emulate::complete_by_chunks;
    use super::super::{Atomicity, Capabilities, Features};
    use super::*;
    use crate::env::ManualClock;
    use std::sync::Arc;

    /// A naive store, possibly with an emulation above it.
    struct Naive {
        naive: Arc<MemoryStore>,
        store: StoreRef,
    }

    impl Naive {
        /// A store that has a past if its capabilities need one.
        fn new(capabilities: Capabilities, chunk_rows: usize) -> Self {
            let naive = Arc::new(MemoryStore::with_history(capabilities, Arc::new(ManualClock::new(0))));
            Self { store: complete_by_chunks(naive.clone(), chunk_rows), naive }
        }
    }

    #[async_trait]
    impl Subject for Naive {
        fn store(&self) -> StoreRef {
            self.store.clone()
        }

        async fn disturb(&mut self, disturbance: Disturbance) -> Result<()> {
            if disturbance == Disturbance::Compact {
                self.naive.forget_history();
            }
            Ok(())
        }
    }

    fn everything() -> Capabilities {
        Capabilities { features: Features::ALL, ..MemoryStore::default().capabilities() }
    }

    /// The value of `NYALA_BATTERY_SEEDS`, or this number.
    fn seeds(default: u64) -> std::ops::Range<u64> {
        let seeds = std::env::var("NYALA_BATTERY_SEEDS").ok().and_then(|text| text.parse().ok());
        0..seeds.unwrap_or(default)
    }

    #[tokio::test]
    async fn the_naive_store_agrees_with_itself() {
        for seed in seeds(4) {
            let agreed = run(&mut Naive::new(everything(), 1), Settings { seed, steps: 150 }).await;
            agreed.expect("the same store twice");
        }
    }

    /// Each feature missing in turn, then all emulated features, then atomic batches too.
    #[tokio::test]
    async fn missing_features_are_emulated_or_refused() {
        let all = everything();
        let without = |feature| Capabilities { features: all.features.without(feature), ..all };
        let mut lacking: Vec<_> = Feature::all().map(without).collect();
        let emulated = Feature::all().filter(|feature| feature.is_emulated());
        let features = emulated.fold(all.features, Features::without);
        lacking.push(Capabilities { features, ..all });
        lacking.push(Capabilities { features, atomicity: Atomicity::Row, ..all });
        for seed in seeds(3) {
            for capabilities in &lacking {
                let mut subject = Naive::new(*capabilities, 1 + seed as usize % 16);
                let agreed = run(&mut subject, Settings { seed, steps: 150 }).await;
                agreed.unwrap_or_else(|error| panic!("with {:?}: {error}", capabilities.features));
            }
        }
    }
}
