//! The conformance battery over the engine on a simulated disk, and a power cut at every change of the disk.

use async_trait::async_trait;
use nyala_core::store::battery::{self, Disturbance, Generator, Settings, Subject, compare_snapshots};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{SnapshotRef, Store, StoreRef};
use nyala_core::{Result, TableId};
use nyala_engine::fs::{FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on, check};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn options(fs: &SimulatedFs) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        maintenance_threads: 0,
        wal_segment_bytes: 1 << 20,
        memory_limit_bytes: 256 << 20,
        // Series are short here.
        last_rows_from: 1,
        ..EngineOptions::new("/data")
    }
}

struct Disturbed {
    fs: SimulatedFs,
    engine: Option<Arc<Engine>>,
}

impl Disturbed {
    fn open() -> Result<Self> {
        let fs = SimulatedFs::new();
        let engine = Some(Arc::new(Engine::open(options(&fs))?));
        Ok(Self { fs, engine })
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
                assert_eq!(report.damage_count, 0, "{:?}", report.damage);
                self.engine = Some(Arc::new(Engine::open(options(&self.fs))?));
                Ok(())
            }
        }
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let count =
        std::env::var("NYALA_BATTERY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    0..count
}

#[test]
fn the_engine_agrees_with_the_naive_store() {
    for seed in seeds(12) {
        let mut subject = Disturbed::open().expect("an empty disk");
        block_on(battery::run(&mut subject, Settings { seed, steps: 250 })).expect("same answers");
    }
}

/// A disk as a power cut left it, and the last step that was acknowledged before.
struct Crash {
    disk: SimulatedFs,
    acknowledged: usize,
    operation: u64,
}

/// Changes of the disk of which one is followed by a power cut.
const CRASH_EVERY: u64 = 7;

#[test]
fn acknowledged_steps_survive_a_power_cut_at_any_change_of_the_disk() {
    for seed in seeds(3) {
        let crashes = Arc::new(Mutex::new(Vec::new()));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut subject = Disturbed::open().expect("an empty disk");
        let (taken, done) = (crashes.clone(), acknowledged.clone());
        subject.fs.on_operation(move |fs, operation| {
            if (operation.index.wrapping_mul(0x9e37_79b9) >> 7) % CRASH_EVERY == seed % CRASH_EVERY {
                let acknowledged = done.load(Ordering::SeqCst);
                let disk = fs.crash(seed ^ operation.index);
                taken.lock().expect("not poisoned").push(Crash {
                    disk,
                    acknowledged,
                    operation: operation.index,
                });
            }
        });
        let model = MemoryStore::default();
        let mut generator = Generator::new(seed);
        let mut states = vec![(model.snapshot(), generator.table_ids())];
        for number in 1..70 {
            if generator.chance(5) {
                let disturbances = [Disturbance::Flush, Disturbance::Compact, Disturbance::Reopen];
                let disturbance = disturbances[generator.below(3) as usize];
                block_on(subject.disturb(disturbance)).expect("nothing fails here");
            } else {
                let step = generator.step();
                let store = subject.store();
                block_on(step.apply_to_both(&mut generator, &*store, &model))
                    .unwrap_or_else(|error| panic!("seed {seed} step {number}: {error}"));
            }
            acknowledged.store(number, Ordering::SeqCst);
            states.push((model.snapshot(), generator.table_ids()));
        }
        drop(subject);
        let crashes = std::mem::take(&mut *crashes.lock().expect("not poisoned"));
        assert!(crashes.len() > 10, "{} power cuts", crashes.len());
        for crash in crashes {
            check_crash(seed, &crash, &states);
        }
    }
}

fn check_crash(seed: u64, crash: &Crash, states: &[(SnapshotRef, Vec<(TableId, TableId)>)]) {
    let Crash { disk, acknowledged, operation } = crash;
    let place = format!("seed {seed}, power cut before operation {operation}, {acknowledged} acknowledged");
    let engine = Engine::open(options(disk)).unwrap_or_else(|error| panic!("{place}: {error}"));
    let agrees = |engine: &Engine, step: usize| {
        let (model, tables) = &states[step.min(states.len() - 1)];
        block_on(compare_snapshots(&*engine.snapshot(), &**model, tables))
    };
    let found = match (agrees(&engine, *acknowledged), agrees(&engine, acknowledged + 1)) {
        (Ok(()), _) => *acknowledged,
        (_, Ok(())) => acknowledged + 1,
        (before, after) => panic!("{place}: not as before ({before:?}) and not as after ({after:?})"),
    };
    assert_eq!(engine.recovery().damage_count, 0, "{place}: a power cut is no damage");
    engine.flush().unwrap_or_else(|error| panic!("{place}: {error}"));
    engine.compact().unwrap_or_else(|error| panic!("{place}: {error}"));
    agrees(&engine, found).unwrap_or_else(|error| panic!("{place}, flushed: {error}"));
    drop(engine);
    let engine = Engine::open(options(disk)).unwrap_or_else(|error| panic!("{place}, again: {error}"));
    agrees(&engine, found).unwrap_or_else(|error| panic!("{place}, again: {error}"));
}
