//! The past: a snapshot of a moment shows what the naive store had then, whatever was flushed, compacted, restarted or cut
//! off since. See `support/seeds.rs` for how to repeat a failure and how to run more.

#[path = "support/seeds.rs"]
mod seeds;
#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::env::ManualClock;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::battery::{Generator, Step, compare_snapshots};
use nyala_core::store::memory::MemoryStore;
use nyala_core::store::{Delete, Freshness, RowSelection, SeriesSet, Store};
use nyala_core::{ErrorKind, Result, Sequence, TableId, TimeRange};
use nyala_engine::fs::{FsRef, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, SyncPolicy, accept, block_on, check};
use seeds::{POLICIES, seeds};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{create, points, rows_of};

const MS: i64 = 1_000_000;
const STEPS: usize = 120;

struct Subject {
    fs: SimulatedFs,
    clock: Arc<ManualClock>,
    policy: SyncPolicy,
    now_ns: i64,
}

impl Subject {
    fn open(&self, fs: &SimulatedFs, history: Duration) -> Result<Arc<Engine>> {
        Engine::open(EngineOptions {
            fs: Arc::new(fs.clone()),
            clock: self.clock.clone(),
            maintenance_threads: 0,
            wal_sync: self.policy,
            wal_segment_bytes: 1 << 20,
            memory: MemoryBudget::new(256 << 20),
            rowset_bytes_max: 4 << 10,
            last_rows_from: 1,
            history,
            ..EngineOptions::new("/data")
        })
        .map(Arc::new)
    }

    fn wait(&mut self, ms: i64) {
        self.now_ns += ms * MS;
        self.clock.set(self.now_ns);
    }
}

/// A moment, and the tables that there were, in both stores.
struct Moment {
    /// `None`: a later change has the same time.
    time_ns: Option<i64>,
    /// The last sequence of both stores, if the moment has a change.
    sequences: Option<(Sequence, Sequence)>,
    tables: Vec<(TableId, TableId)>,
}

fn keeps_tables(step: &Step) -> bool {
    matches!(step, Step::Create(_) | Step::Write(_) | Step::Delete(_) | Step::Update(_))
}

fn compare(engine: &Engine, model: &MemoryStore, moment: &Moment, place: &str) {
    if let Some(time_ns) = moment.time_ns {
        let past = |store: &dyn Store| {
            block_on(store.snapshot(Freshness::Past(time_ns)))
                .unwrap_or_else(|error| panic!("{place}, at {time_ns}: {error}"))
        };
        let (found, expected) = (past(engine), past(model));
        block_on(compare_snapshots(&*found, &*expected, &moment.tables))
            .unwrap_or_else(|error| panic!("{place}, at {time_ns}: {error}"));
    }
    let Some((of_engine, of_model)) = moment.sequences else { return };
    let around = |store: &dyn Store, sequence| {
        block_on(store.around(sequence)).unwrap_or_else(|error| panic!("{place}, at {sequence}: {error}"))
    };
    let (found, expected) = (around(engine, of_engine), around(model, of_model));
    for (found, expected) in [(found.before, expected.before), (found.after, expected.after)] {
        block_on(compare_snapshots(&*found, &*expected, &moment.tables))
            .unwrap_or_else(|error| panic!("{place}, around {of_engine}: {error}"));
    }
}

fn undamaged(fs: &SimulatedFs, place: &str) {
    let disk: FsRef = Arc::new(fs.clone());
    let report = check(&disk, Path::new("/data"), &mut |_| {}).expect("can be read");
    assert_eq!(report.damage_count, 0, "{place}: {:?}", report.damage);
}

#[test]
fn moments_of_the_past_are_read_as_they_were() {
    for seed in seeds(3) {
        let place = format!("NYALA_BATTERY_SEED={seed}");
        // So short that moments are told apart by the millisecond.
        let kept = Duration::from_secs(200);
        let policy = POLICIES[seed as usize % POLICIES.len()];
        let mut subject = Subject { fs: SimulatedFs::new(), clock: Arc::default(), policy, now_ns: 0 };
        subject.wait(1000);
        let mut engine = subject.open(&subject.fs, kept).expect("an empty disk");
        let crashes = Arc::new(Mutex::new(Vec::new()));
        let taken = crashes.clone();
        subject.fs.on_operation(move |fs, operation| {
            if operation.index.wrapping_mul(0x9e37_79b9) % 101 == seed % 101 {
                taken.lock().expect("not poisoned").push(fs.crash(seed ^ operation.index));
            }
        });
        let model = MemoryStore::with_history(engine.capabilities(), subject.clock.clone());
        let mut generator = Generator::new(seed);
        let mut moments: Vec<Moment> = Vec::new();
        let mut known_at_crash = Vec::new();
        for number in 0..STEPS {
            // Some changes follow within a millisecond.
            subject.wait((generator.below(20) as i64 - 3).max(0));
            let reached = engine.latest().sequence();
            match generator.below(12) {
                0 => drop(engine.flush().expect("nothing fails")),
                1 => drop(engine.compact().expect("nothing fails")),
                2 => {
                    drop(engine);
                    undamaged(&subject.fs, &place);
                    engine = subject.open(&subject.fs, kept).expect("it was closed");
                }
                _ => {
                    let step = (0..).map(|_| generator.step()).find(keeps_tables).expect("there is no end");
                    block_on(step.apply_to_both(&mut generator, &*engine, &model))
                        .unwrap_or_else(|error| panic!("{place} step {number}: {error}"));
                }
            }
            let sequence = engine.latest().sequence();
            let sequences = (sequence > reached).then(|| (sequence, model.latest().sequence()));
            let time_ns = Some(subject.now_ns);
            if let Some(last) = moments.last_mut().filter(|last| last.time_ns == time_ns) {
                last.time_ns = None;
            }
            moments.push(Moment { time_ns, sequences, tables: generator.table_ids() });
            let crashes = crashes.lock().expect("not poisoned").len();
            known_at_crash.resize(crashes, moments.len() - 1);
            for _ in 0..2 {
                let moment = &moments[generator.below(moments.len() as u64) as usize];
                compare(&engine, &model, moment, &format!("{place} step {number}"));
            }
        }
        for moment in &moments {
            compare(&engine, &model, moment, &place);
        }
        drop(engine);
        if policy != SyncPolicy::Always {
            // A power cut may take what was acknowledged.
            continue;
        }
        for (disk, known) in crashes.lock().expect("not poisoned").drain(..).zip(known_at_crash) {
            let place = format!("{place} after a power cut at step {known}");
            let engine = subject.open(&disk, kept).unwrap_or_else(|error| panic!("{place}: {error}"));
            for moment in moments[..known].iter().rev().step_by(7) {
                compare(&engine, &model, moment, &place);
            }
        }
    }
}

#[test]
fn what_is_too_old_is_forgotten_and_its_space_given_back() {
    for seed in seeds(2) {
        let second = Duration::from_secs(1);
        let policy = POLICIES[seed as usize % POLICIES.len()];
        let mut subject = Subject { fs: SimulatedFs::new(), clock: Arc::default(), policy, now_ns: 0 };
        let mut engine = subject.open(&subject.fs, second).expect("an empty disk");
        let model = MemoryStore::with_history(engine.capabilities(), subject.clock.clone());
        let mut generator = Generator::new(seed);
        let files = |fs: &SimulatedFs| {
            let disk: FsRef = Arc::new(fs.clone());
            disk.list(Path::new("/data/rowsets")).expect("is there").len()
        };
        let (mut most_past_bytes, mut created) = (0, Vec::new());
        for number in 0..STEPS {
            let place = format!("NYALA_BATTERY_SEED={seed} step {number}");
            subject.wait(20 + generator.below(60) as i64);
            let step = (0..).map(|_| generator.step()).find(keeps_tables).expect("there is no end");
            block_on(step.apply_to_both(&mut generator, &*engine, &model)).expect(&place);
            if generator.chance(4) {
                engine.flush().expect("nothing fails");
                engine.compact().expect("nothing fails");
            }
            if generator.chance(15) {
                drop(engine);
                engine = subject.open(&subject.fs, second).expect("it was closed");
            }
            most_past_bytes = most_past_bytes.max(engine.stats().past_bytes);
            engine.forget_past().expect("nothing fails");
            created.push((subject.now_ns, generator.table_ids()));
            let moment = |ms: i64| {
                let time_ns = (subject.now_ns - ms * MS).max(0);
                let then = created.iter().rfind(|(at_ns, _)| *at_ns <= time_ns);
                let tables = then.map_or_else(Vec::new, |(_, tables)| tables.clone());
                Moment { time_ns: Some(time_ns), sequences: None, tables }
            };
            for ms in [0, 300, 990] {
                compare(&engine, &model, &moment(ms), &place);
            }
        }
        let tables = generator.table_ids();
        subject.wait(5000);
        engine.flush().expect("nothing fails");
        engine.compact().expect("nothing fails");
        subject.wait(5000);
        // A new moment is known with the next record.
        let step = (0..).map(|_| generator.step()).find(|step| matches!(step, Step::Write(_)));
        block_on(step.expect("there is no end").apply_to_both(&mut generator, &*engine, &model))
            .expect("writes");
        subject.wait(5000);
        engine.forget_past().expect("nothing fails");
        let error = block_on(engine.snapshot(Freshness::Past(100 * MS))).err().expect("is forgotten");
        assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
        assert!(most_past_bytes > 0, "there was something to forget");
        let stats = engine.stats();
        assert_eq!((files(&subject.fs), stats.past_bytes), (stats.rowsets as usize, 0), "only the present");
        let moment = Moment { time_ns: Some(subject.now_ns), sequences: None, tables: tables.clone() };
        compare(&engine, &model, &moment, "the present");
        // Without a past, nothing of it stays.
        drop(engine);
        let engine = subject.open(&subject.fs, Duration::ZERO).expect("it was closed");
        assert!(!engine.capabilities().features.has(nyala_core::store::Feature::History));
        block_on(compare_snapshots(&*engine.latest(), &*model.latest(), &tables)).expect("the present");
        drop(engine);
        undamaged(&subject.fs, "without a past");
    }
}

#[test]
fn what_was_deleted_stays_deleted_in_the_past_while_a_file_still_has_it() {
    // Rows are deleted while they are in memory, or when they are in a rowset that is merged later.
    for is_flushed in [false, true] {
        let second = Duration::from_secs(1);
        let mut subject =
            Subject { fs: SimulatedFs::new(), clock: Arc::default(), policy: SyncPolicy::Always, now_ns: 0 };
        subject.wait(1000);
        let mut engine = subject.open(&subject.fs, second).expect("an empty disk");
        let table = create(&engine).expect("there is none");
        let write = |engine: &Engine, time_ns| {
            block_on(engine.write(points(table, &[(1, time_ns, Some(0))]))).expect("writes")
        };
        write(&engine, 10);
        write(&engine, 20);
        if is_flushed {
            engine.flush().expect("nothing fails");
        }
        subject.wait(100);
        let rows = RowSelection::Series { series: SeriesSet::All, time: TimeRange::new(0, 15) };
        block_on(engine.delete(Delete { table, rows, predicates: Vec::new() })).expect("deletes");
        subject.wait(200);
        write(&engine, 30);
        subject.wait(200);
        write(&engine, 40);
        engine.flush().expect("nothing fails");
        if is_flushed {
            engine.compact().expect("nothing fails");
        }
        let check = |engine: &Engine, first_ms: i64, place: &str| {
            let moments = [(1260, &[20][..]), (1310, &[20, 30]), (1500, &[20, 30, 40])];
            for (ms, expected) in moments.into_iter().filter(|(ms, _)| *ms >= first_ms) {
                let then = block_on(engine.snapshot(Freshness::Past(ms * MS))).expect("is known");
                let found = rows_of(&then, table).expect("can be read");
                let times: Vec<i64> = found.iter().map(|row| row.1).collect();
                assert_eq!(times, expected, "{place}, at {ms} ms, flushed before: {is_flushed}");
            }
        };
        check(&engine, 1260, "before anything is forgotten");
        // The deletion is older than what is kept, its files are not.
        subject.wait(750);
        engine.forget_past().expect("nothing fails");
        check(&engine, 1260, "after the time before the deletion is not kept any more");
        drop(engine);
        engine = subject.open(&subject.fs, second).expect("it was closed");
        check(&engine, 1260, "after a restart");
        write(&engine, 50);
        engine.flush().expect("nothing fails");
        engine.compact().expect("nothing fails");
        engine.forget_past().expect("nothing fails");
        check(&engine, 1260, "after a merge");
        // Nothing can be forgotten, so the manifest is left alone. The log may still mark its end.
        subject.wait(100);
        let changes = Arc::new(AtomicU64::new(0));
        let counted = changes.clone();
        subject.fs.on_operation(move |_, operation| {
            counted.fetch_add(u64::from(!operation.path.starts_with("/data/wal")), Ordering::SeqCst);
        });
        let forget = |engine: &Engine| {
            let before = changes.load(Ordering::SeqCst);
            engine.forget_past().expect("nothing fails");
            changes.load(Ordering::SeqCst) - before
        };
        assert_eq!(forget(&engine), 0, "flushed before: {is_flushed}");
        check(&engine, 1310, "after more time");
        // With the last file goes the deleted range, and with it the last reason to change the manifest.
        subject.clock.set(8000 * MS);
        assert!(forget(&engine) > 0, "flushed before: {is_flushed}");
        write(&engine, 60);
        subject.clock.set(13_000 * MS);
        assert_eq!(forget(&engine), 0, "flushed before: {is_flushed}");
        let disk: FsRef = Arc::new(subject.fs.clone());
        assert_eq!(disk.list(Path::new("/data/rowsets")).expect("is there").len(), 1);
    }
}

#[test]
fn a_lost_file_of_the_past_is_told_and_costs_nothing_of_the_present() {
    let mut subject =
        Subject { fs: SimulatedFs::new(), clock: Arc::default(), policy: SyncPolicy::Always, now_ns: 0 };
    let kept = Duration::from_secs(200);
    let engine = subject.open(&subject.fs, kept).expect("an empty disk");
    let model = MemoryStore::with_history(engine.capabilities(), subject.clock.clone());
    let mut generator = Generator::new(7);
    for number in 0..40 {
        subject.wait(10);
        let step = (0..).map(|_| generator.step()).find(keeps_tables).expect("there is no end");
        block_on(step.apply_to_both(&mut generator, &*engine, &model)).expect("writes");
        if number % 8 == 0 {
            engine.flush().expect("nothing fails");
        }
    }
    let disk: FsRef = Arc::new(subject.fs.clone());
    let dir = Path::new("/data/rowsets");
    let names = || disk.list(dir).expect("is there").into_iter().map(|entry| entry.name);
    let before: Vec<String> = names().collect();
    engine.compact().expect("nothing fails");
    assert!(before.iter().all(|name| names().any(|other| other == *name)), "what was compacted is kept");
    drop(engine);
    let lost = names().find(|name| name.ends_with(".versions")).expect("rows were overwritten");
    disk.remove(&dir.join(&lost)).expect("is there");
    let engine = subject.open(&subject.fs, kept).expect("the present is whole");
    assert!(engine.losses()[0].contains("with the past of table"), "{:?}", engine.losses());
    block_on(compare_snapshots(&*engine.latest(), &*model.latest(), &generator.table_ids()))
        .expect("the present");
    drop(engine);
    let accepted = accept(&disk, Path::new("/data"), &[]).expect("can be accepted");
    assert!(accepted[0].contains(&lost), "{accepted:?}");
    let engine = subject.open(&subject.fs, kept).expect("it was accepted");
    assert_eq!(engine.losses(), Vec::<String>::new());
}

#[test]
fn a_clock_that_is_set_back_far_begins_the_history_anew() {
    let mut subject =
        Subject { fs: SimulatedFs::new(), clock: Arc::default(), policy: SyncPolicy::Always, now_ns: 0 };
    let kept = Duration::from_secs(200);
    let mut engine = subject.open(&subject.fs, kept).expect("an empty disk");
    let model = MemoryStore::with_history(engine.capabilities(), subject.clock.clone());
    let mut generator = Generator::new(3);
    let mut write = |engine: &Engine| {
        let step = (0..).map(|_| generator.step()).find(keeps_tables).expect("there is no end");
        block_on(step.apply_to_both(&mut generator, engine, &model)).expect("writes");
    };
    (0..5).for_each(|_| write(&engine));
    subject.wait(1_000_000_000);
    (0..5).for_each(|_| write(&engine));
    subject.wait(-999_000_000);
    engine.flush().expect("nothing fails");
    engine.forget_past().expect("nothing fails");
    for _ in 0..3 {
        let now_ns = subject.now_ns;
        let before = block_on(engine.snapshot(Freshness::Past(now_ns))).expect("is known").sequence();
        subject.wait(10);
        write(&engine);
        let at = |time_ns| block_on(engine.snapshot(Freshness::Past(time_ns))).expect("is known").sequence();
        assert_eq!(at(now_ns), before, "times go on");
        assert!(at(subject.now_ns) >= before);
        drop(engine);
        engine = subject.open(&subject.fs, kept).expect("it was closed");
    }
}
