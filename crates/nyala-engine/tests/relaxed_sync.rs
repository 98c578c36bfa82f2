//! Cuts the power at every change of the disk, under every sync policy. Afterwards the store has what the policy
//! promises, reports no damage, and does not confuse new records with lost ones.
//!
//! Under a relaxed policy the log may lose its end, while edits of the manifest are durable at once. So the store must
//! have all changes of tables up to the cut, and all writes up to some moment after the last flush.
//! `NYALA_BATTERY_SEEDS` does more of it.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::TableId;
use nyala_core::store::battery::{Generator, Step, compare_snapshots};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{Capabilities, Store};
use nyala_engine::fs::SimulatedFs;
use nyala_engine::{Engine, EngineOptions, SyncPolicy, block_on};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::options;

/// Changes of the disk of which one is followed by a power cut.
const CRASH_EVERY: u64 = 7;
const STEPS: usize = 50;
/// Steps of which the writes are done again after the cut.
const REWRITTEN: usize = 15;

type Tables = Vec<(TableId, TableId)>;

/// The steps that were done, and the tables after each.
struct History {
    steps: Vec<(Option<Step>, Tables)>,
    /// The last sequence after each.
    sequences: Vec<u64>,
    capabilities: Capabilities,
}

struct Crash {
    disk: SimulatedFs,
    /// Steps acknowledged before, and those that a flush had made durable.
    acknowledged: usize,
    durable: usize,
    /// Steps acknowledged when the disk had been taken: other threads go on meanwhile.
    acknowledged_after: usize,
    operation: u64,
}

fn is_of_manifest(step: &Step) -> bool {
    !matches!(step, Step::Write(_) | Step::Delete(_) | Step::Update(_))
}

impl History {
    /// A store after the first `all` steps, of whose writes only those before step `written` are there.
    fn model(&self, all: usize, written: usize) -> MemoryStore {
        let model = MemoryStore::model_of(self.capabilities);
        for (number, (step, _)) in self.steps.iter().take(all).enumerate() {
            if let Some(step) = step
                && (is_of_manifest(step) || number < written)
            {
                let _ = block_on(step.apply_alone(&model, |table| table));
            }
        }
        model
    }

    fn check(&self, place: &str, crash: &Crash, open: &impl Fn(&SimulatedFs) -> Engine) {
        let engine = open(&crash.disk);
        assert_eq!(engine.recovery.damage, [], "{place}: a power cut is no damage");
        let agrees = |engine: &Engine, model: &MemoryStore, tables: &Tables| {
            block_on(compare_snapshots(&*engine.latest(), &*model.latest(), tables))
        };
        let latest = (crash.acknowledged_after + 1).min(self.steps.len());
        let mut candidates: Vec<(usize, usize)> = (crash.acknowledged..=latest)
            .flat_map(|all| (crash.durable..=all).map(move |written| (all, written)))
            .collect();
        // What the log had is looked for first: it is that, but for steps that wrote nothing.
        let last = engine.recovery.last_sequence.max(engine.stats().flushed_sequence);
        let likely = self.sequences.partition_point(|sequence| *sequence <= last).min(crash.acknowledged);
        candidates.sort_by_key(|(_, written)| written.abs_diff(likely));
        let tables = |all: usize| all.checked_sub(1).map_or_else(Vec::new, |last| self.steps[last].1.clone());
        let found = candidates
            .into_iter()
            .map(|(all, written)| (all, self.model(all, written)))
            .find(|(all, model)| agrees(&engine, model, &tables(*all)).is_ok());
        let Some((all, model)) = found else {
            let expected = self.model(crash.acknowledged, crash.acknowledged);
            let differs = agrees(&engine, &expected, &tables(crash.acknowledged));
            panic!("{place}: as after none of the moments it may be, at the last {differs:?}");
        };
        let tables = tables(all);
        // A new write is there, also after a flush and after the next start.
        let subject = |table: TableId| {
            tables.iter().find(|(_, model)| *model == table).map_or(TableId(u32::MAX), |(own, _)| *own)
        };
        for (step, _) in self.steps.iter().rev().take(REWRITTEN) {
            if let Some(step @ Step::Write(_)) = step
                // Its tables may not be there yet, or not any more.
                && block_on(step.apply_alone(&model, |table| table)).is_ok()
            {
                let written = block_on(step.apply_alone(&engine, subject));
                written.unwrap_or_else(|error| panic!("{place}, writing again: {error}"));
            }
        }
        agrees(&engine, &model, &tables).unwrap_or_else(|error| panic!("{place}, written: {error}"));
        engine.flush().expect("flushed");
        agrees(&engine, &model, &tables).unwrap_or_else(|error| panic!("{place}, flushed: {error}"));
        engine.compact().expect("compacted");
        drop(engine);
        let engine = open(&crash.disk);
        agrees(&engine, &model, &tables).unwrap_or_else(|error| panic!("{place}, again: {error}"));
    }
}

fn run(seed: u64, sync: SyncPolicy) {
    let open = |fs: &SimulatedFs| {
        Engine::open(EngineOptions { wal_sync: sync, ..options(fs) })
            .expect("a power cut keeps no store from opening")
    };
    let fs = SimulatedFs::new();
    let mut engine = open(&fs);
    let (acknowledged, durable) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let crashes: Arc<Mutex<Vec<Crash>>> = Arc::default();
    fs.on_operation({
        let (acknowledged, durable, crashes) = (acknowledged.clone(), durable.clone(), crashes.clone());
        move |fs, operation| {
            if (operation.index.wrapping_mul(0x9e37_79b9) >> 7) % CRASH_EVERY == seed % CRASH_EVERY {
                let (before, durable) = (acknowledged.load(Ordering::SeqCst), durable.load(Ordering::SeqCst));
                let (disk, operation) = (fs.crash(seed ^ operation.index), operation.index);
                let acknowledged_after = acknowledged.load(Ordering::SeqCst);
                let crash = Crash { disk, acknowledged: before, durable, acknowledged_after, operation };
                crashes.lock().expect("not poisoned").push(crash);
            }
        }
    });
    let (model, mut generator) = (MemoryStore::model_of(engine.capabilities()), Generator::new(seed));
    let mut history =
        History { steps: Vec::new(), sequences: Vec::new(), capabilities: engine.capabilities() };
    for number in 0..STEPS {
        let mut step = (!generator.chance(8)).then(|| generator.step());
        let is_flush = step.is_none();
        match &step {
            Some(tried) => {
                let done = block_on(tried.apply_to_both(&mut generator, &engine, &model))
                    .unwrap_or_else(|error| panic!("seed {seed} step {number}: {error}"));
                // A step that was refused then might pass when an earlier one is missing.
                step = step.filter(|_| done);
            }
            None if generator.chance(3) => {
                engine.close().expect("closed");
                drop(engine);
                engine = open(&fs);
            }
            None => drop(engine.flush().expect("flushed")),
        }
        let is_durable = is_flush || sync == SyncPolicy::Always;
        history.steps.push((step, generator.table_ids()));
        history.sequences.push(engine.stats().watermark);
        acknowledged.store(number + 1, Ordering::SeqCst);
        if is_durable {
            durable.store(number + 1, Ordering::SeqCst);
        }
    }
    drop(engine);
    let crashes = std::mem::take(&mut *crashes.lock().expect("not poisoned"));
    assert!(crashes.len() > 10, "{} power cuts", crashes.len());
    for crash in crashes {
        let place = format!("seed {seed}, {sync:?}, power cut before operation {}", crash.operation);
        history.check(&place, &crash, &open);
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let count = std::env::var("NYALA_BATTERY_SEEDS").ok().and_then(|text| text.parse().ok());
    0..count.unwrap_or(default)
}

#[test]
fn a_power_cut_without_syncs_loses_only_the_end_and_hides_nothing_after() {
    seeds(2).for_each(|seed| run(seed, SyncPolicy::Never));
}

#[test]
fn a_power_cut_between_syncs_loses_only_the_end_and_hides_nothing_after() {
    seeds(1).for_each(|seed| run(seed, SyncPolicy::Interval(Duration::from_millis(1))));
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    seeds(1).for_each(|seed| run(seed, SyncPolicy::Always));
}
