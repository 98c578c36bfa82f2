//! Runs the conformance battery on the engine and a simulated disk, with kills and power cuts at changes of the disk,
//! under every sync policy. See `support/seeds.rs` for how to repeat a failure and how to run more.

#[path = "support/seeds.rs"]
mod seeds;

use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::battery::{self, Disturbance, Generator, Settings, Step, Subject, compare_snapshots};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{SnapshotRef, Store, StoreRef};
use nyala_core::{Error, Result, TableId};
use nyala_engine::fs::{FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, block_on, check};
use seeds::{POLICIES, seeds};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn options(fs: &SimulatedFs, wal_sync: SyncPolicy) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        wal_sync,
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        memory: MemoryBudget::new(256 << 20),
        // Series are short here, and so are batches.
        last_rows_from: 1,
        loaded_rows_min: 1,
        ..EngineOptions::new("/data")
    }
}

struct Disturbed {
    fs: SimulatedFs,
    policy: SyncPolicy,
    /// Beyond this much memory, rows of stages are on the disk.
    stage_bytes_max: Option<u64>,
    engine: Option<Arc<Engine>>,
}

impl Disturbed {
    fn open(policy: SyncPolicy) -> Result<Self> {
        let fs = SimulatedFs::new();
        let engine = Some(Arc::new(Engine::open(options(&fs, policy))?));
        Ok(Self { fs, policy, stage_bytes_max: None, engine })
    }

    fn reopen(&mut self) -> Result<()> {
        self.engine = None;
        let stage_bytes_max = self.stage_bytes_max;
        let options = EngineOptions { stage_bytes_max, ..options(&self.fs, self.policy) };
        self.engine = Some(Arc::new(Engine::open(options)?));
        Ok(())
    }

    fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("is open")
    }
}

#[async_trait]
impl Subject for Disturbed {
    fn store(&self) -> StoreRef {
        self.engine().clone()
    }

    async fn disturb(&mut self, disturbance: Disturbance) -> Result<()> {
        match disturbance {
            Disturbance::Flush => self.engine().flush().map(drop),
            Disturbance::Compact => self.engine().compact().map(drop),
            Disturbance::Reopen => {
                self.engine = None;
                let disk: FsRef = Arc::new(self.fs.clone());
                let report = check(&disk, Path::new("/data"), &mut |_| {})?;
                if report.damage_count > 0 {
                    return Err(Error::invalid(format!("damage: {:?}", report.damage)));
                }
                self.reopen()
            }
        }
    }
}

#[test]
fn the_engine_agrees_with_the_naive_store() {
    for seed in seeds(6) {
        let policy = POLICIES[seed as usize % POLICIES.len()];
        let mut subject = Disturbed::open(policy).expect("an empty disk");
        // Stages in memory, with a memtable or two, and with a file for each batch.
        subject.stage_bytes_max = [None, Some(20_000), Some(1)][seed as usize / POLICIES.len() % 3];
        subject.reopen().expect("nothing fails");
        let agreed = block_on(battery::run(&mut subject, Settings { seed, steps: 250 }));
        agreed.unwrap_or_else(|error| panic!("NYALA_BATTERY_SEED={seed}: {error}"));
    }
}

/// A disk as a kill or a power cut left it, and which steps were known to be done.
struct Crash {
    disk: SimulatedFs,
    operation: u64,
    /// The last step that was acknowledged. It is asked for behind the disk: other threads go on while that is taken.
    acknowledged: usize,
    /// The last step that must be there: acknowledged, and on disk as the policy promises.
    promised: usize,
    is_kill: bool,
}

/// Changes of the disk of which one is followed by a kill or a power cut. Under a relaxed policy a crash is compared
/// with many moments of the past.
fn crash_every(policy: SyncPolicy) -> u64 {
    if policy == SyncPolicy::Always { 7 } else { 29 }
}

/// Whether a step is in the log alone. Under a relaxed policy the others are on disk before what came before them, so
/// that what a power cut leaves of both is no moment of the past.
fn is_logged(step: &Step) -> bool {
    matches!(step, Step::Create(_) | Step::Write(_) | Step::Delete(_) | Step::Update(_))
}

#[test]
fn what_is_promised_survives_kills_and_power_cuts_at_any_change_of_the_disk() {
    for seed in seeds(1) {
        for policy in POLICIES {
            crash_everywhere(seed, policy);
        }
    }
}

fn crash_everywhere(seed: u64, policy: SyncPolicy) {
    let place = format!("NYALA_BATTERY_SEED={seed}, {policy:?}");
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let (acknowledged, synced) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut subject = Disturbed::open(policy).expect("an empty disk");
    let (taken, done, on_disk) = (crashes.clone(), acknowledged.clone(), synced.clone());
    subject.fs.on_operation(move |fs, operation| {
        let hash = operation.index.wrapping_mul(0x9e37_79b9) >> 7;
        let every = crash_every(policy);
        if hash % every == seed % every {
            let is_kill = (hash / every).is_multiple_of(4);
            let promised = match policy {
                SyncPolicy::Always => done.load(Ordering::SeqCst),
                _ if is_kill => done.load(Ordering::SeqCst),
                _ => on_disk.load(Ordering::SeqCst),
            };
            let disk = if is_kill { fs.snapshot() } else { fs.crash(seed ^ operation.index) };
            let (operation, acknowledged) = (operation.index, done.load(Ordering::SeqCst));
            let crash = Crash { disk, operation, acknowledged, promised, is_kill };
            taken.lock().expect("not poisoned").push(crash);
        }
    });
    let model = MemoryStore::model_of(subject.engine().capabilities());
    let mut generator = Generator::new(seed);
    let mut states = vec![(model.latest(), generator.table_ids())];
    for number in 1..70 {
        let disturbs = generator.chance(5);
        if disturbs {
            // A compaction leaves out what a deletion hides whose record is not on disk yet: what a power cut leaves
            // then is not a moment of the past either, though nothing that was promised is lost.
            let disturbances = match policy {
                SyncPolicy::Always => [Disturbance::Flush, Disturbance::Compact, Disturbance::Reopen],
                _ => [Disturbance::Flush, Disturbance::Flush, Disturbance::Reopen],
            };
            let disturbance = disturbances[generator.below(3) as usize];
            block_on(subject.disturb(disturbance)).expect("nothing fails here");
            if disturbance != Disturbance::Compact {
                synced.store(number, Ordering::SeqCst);
            }
        } else {
            let store = subject.store();
            let mut steps = (0..).map(|_| generator.step());
            let step = steps.find(|step| policy == SyncPolicy::Always || is_logged(step));
            let step = step.expect("there is no end");
            block_on(step.apply_to_both(&mut generator, &*store, &model))
                .unwrap_or_else(|error| panic!("{place} step {number}: {error}"));
        }
        acknowledged.store(number, Ordering::SeqCst);
        states.push((model.latest(), generator.table_ids()));
    }
    drop(subject);
    let crashes = std::mem::take(&mut *crashes.lock().expect("not poisoned"));
    assert!(crashes.len() > 1, "{place}: {} crashes", crashes.len());
    for crash in crashes {
        check_crash(&place, policy, &crash, &states);
    }
}

fn check_crash(
    place: &str,
    policy: SyncPolicy,
    crash: &Crash,
    states: &[(SnapshotRef, Vec<(TableId, TableId)>)],
) {
    let Crash { disk, operation, acknowledged, promised, is_kill } = crash;
    let what = if *is_kill { "a kill" } else { "a power cut" };
    let place = format!(
        "{place}, {what} before operation {operation}, {acknowledged} acknowledged, {promised} promised"
    );
    let engine = Engine::open(options(disk, policy)).unwrap_or_else(|error| panic!("{place}: {error}"));
    let agrees = |engine: &Engine, step: usize| {
        let (model, tables) = &states[step.min(states.len() - 1)];
        block_on(compare_snapshots(&*engine.latest(), &**model, tables))
    };
    // The last step may have happened without its answer.
    let steps = || (*promised..=acknowledged + 1).rev();
    let found = steps().find(|step| agrees(&engine, *step).is_ok()).unwrap_or_else(|| {
        let differs = |step| agrees(&engine, step).err().map(|error| format!("step {step}: {error}"));
        panic!("{place}: {:#?}", steps().filter_map(differs).collect::<Vec<_>>());
    });
    assert_eq!(engine.recovery.damage_count, 0, "{place}: it is no damage");
    engine.flush().unwrap_or_else(|error| panic!("{place}: {error}"));
    engine.compact().unwrap_or_else(|error| panic!("{place}: {error}"));
    agrees(&engine, found).unwrap_or_else(|error| panic!("{place}, flushed: {error}"));
    drop(engine);
    let engine =
        Engine::open(options(disk, policy)).unwrap_or_else(|error| panic!("{place}, again: {error}"));
    agrees(&engine, found).unwrap_or_else(|error| panic!("{place}, again: {error}"));
}
