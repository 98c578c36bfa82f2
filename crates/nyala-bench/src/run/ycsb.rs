//! Runs YCSB on a store: threads load rows and then do what a workload draws, while throughput and latencies are recorded
//! in windows.
//!
//! A store is whatever implements [`KeyValueStore`]: the engine at its contract, a peer in a program of its own, or a server
//! behind a protocol. All of them do the same actions.

mod windows;

use crate::measure::counters::StoreCounters;
use crate::measure::histogram::{Histogram, peaks};
use crate::measure::server::ServerProbe;
use crate::report::ycsb::YcsbResult;
use crate::workload::ycsb::{Action, ActionKind, Client, Popularity, RowShape, Workload};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use windows::Windows;

/// A table of rows by key. An error ends the run.
pub trait KeyValueStore: Sync {
    /// Writes whole rows, durably: keys and the values of all fields.
    fn write(&self, rows: &[(String, Vec<String>)]) -> Result<(), String>;

    /// Writes whole rows that are new, durably.
    fn insert(&self, rows: &[(String, Vec<String>)]) -> Result<(), String> {
        self.write(rows)
    }

    /// Changes a field of a row, durably.
    fn update(&self, key: &str, field: u32, value: &str) -> Result<(), String>;

    /// Reads all fields of a row; returns whether it exists.
    fn read(&self, key: &str) -> Result<bool, String>;

    /// Reads the first fields of rows from a key on; returns how many rows there were.
    fn scan(&self, from: &str, rows: usize, fields: u32) -> Result<usize, String>;

    /// The process whose CPU, memory and writes are measured: this one, unless the store is a server.
    fn probe(&self) -> ServerProbe {
        ServerProbe { pid: Some(std::process::id()), data_dir: None }
    }

    /// What it counts about itself, asked for in every window.
    fn counters(&self) -> StoreCounters {
        StoreCounters::default()
    }

    /// Numbers that only this store has, by name, for the report.
    fn statistics(&self) -> Vec<(String, f64)>;
}

/// What to run.
#[derive(Clone, Debug)]
pub struct YcsbOptions {
    /// What rows look like.
    pub shape: RowShape,
    /// How many are loaded.
    pub rows: u64,
    /// Rows that are written at once when loading.
    pub batch: u64,
    /// Threads.
    pub threads: u64,
    /// How long each workload runs.
    pub seconds: u64,
    /// Which rows are asked for, if not those that the workload says.
    pub popularity: Option<Popularity>,
}

/// A table of rows on a store.
pub struct Ycsb<'a> {
    store: &'a dyn KeyValueStore,
    options: YcsbOptions,
    /// Rows that exist.
    rows: AtomicU64,
}

/// What a thread does until it is told to stop.
type Work<'a> = dyn Fn(&Mutex<Recorder>, &AtomicBool) -> Result<(), String> + Sync + 'a;

/// What a thread records.
#[derive(Default)]
struct Recorder {
    /// Of the window at hand.
    window: Histogram,
    /// By what was done; requests, not rows.
    all: BTreeMap<ActionKind, Histogram>,
    /// Bytes of rows that it wrote.
    written_bytes: u64,
}

impl<'a> Ycsb<'a> {
    /// An empty table.
    pub fn new(store: &'a dyn KeyValueStore, options: YcsbOptions) -> Self {
        Self { store, options, rows: AtomicU64::new(0) }
    }

    /// Says that the rows were loaded before.
    pub fn assume_loaded(&self) {
        self.rows.store(self.options.rows, Ordering::Relaxed);
    }

    /// Loads the rows. Progress goes to `out`.
    pub fn load(&self, out: &mut dyn Write) -> Result<YcsbResult, String> {
        let YcsbOptions { shape, rows, batch, .. } = &self.options;
        let next = AtomicU64::new(0);
        let result = self.run("load", Some(*rows), out, &|recorder, stop| {
            while !stop.load(Ordering::Relaxed) {
                let first = next.fetch_add(*batch, Ordering::Relaxed);
                if first >= *rows {
                    return Ok(());
                }
                let row = |row| {
                    (shape.key(row), (0..shape.fields).map(|field| shape.value(row, field, 0)).collect())
                };
                let written: Vec<_> = (first..(first + batch).min(*rows)).map(row).collect();
                let begun = Instant::now();
                self.store.insert(&written)?;
                let (latency, count) = (begun.elapsed(), written.len() as u64);
                record(recorder, ActionKind::Insert, latency, count, count * shape.row_bytes())?;
            }
            Ok(())
        })?;
        self.assume_loaded();
        Ok(result)
    }

    /// Runs a workload for the time that the options say.
    pub fn run_workload(&self, workload: Workload, out: &mut dyn Write) -> Result<YcsbResult, String> {
        let YcsbOptions { shape, popularity, .. } = self.options;
        let numbers = AtomicU64::new(1);
        let phase = format!("{workload:?}").to_lowercase();
        self.run(&phase, None, out, &|recorder, stop| {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            let mut client = Client::new(workload, popularity, shape, &self.rows, number);
            while !stop.load(Ordering::Relaxed) {
                let action = client.draw();
                let kind = action.kind();
                let begun = Instant::now();
                let written_bytes = self.act(action)?;
                record(recorder, kind, begun.elapsed(), 1, written_bytes)?;
            }
            Ok(())
        })
    }

    /// Does an action; returns how many bytes of rows it wrote.
    fn act(&self, action: Action) -> Result<u64, String> {
        match action {
            Action::Read { key, exists } => match (self.store.read(&key)?, exists) {
                (false, true) if self.options.rows > 0 => Err(format!("row {key} is lost")),
                _ => Ok(0),
            },
            Action::Update { key, field, value, reads } => {
                if reads {
                    self.store.read(&key)?;
                }
                self.store.update(&key, field, &value)?;
                Ok((key.len() + value.len()) as u64)
            }
            Action::Write { key, values, is_new } => {
                let row = [(key, values)];
                if is_new {
                    self.store.insert(&row)?
                } else {
                    self.store.write(&row)?
                }
                Ok(self.options.shape.row_bytes())
            }
            Action::Scan { from, rows, fields } => self.store.scan(&from, rows, fields).map(|_| 0),
        }
    }

    /// Runs threads until they have loaded some rows, or until the time is over.
    fn run(
        &self,
        phase: &str,
        loaded_rows: Option<u64>,
        out: &mut dyn Write,
        work: &Work<'_>,
    ) -> Result<YcsbResult, String> {
        let statistics = self.store.statistics();
        let stop = AtomicBool::new(false);
        let recorders: Vec<Mutex<Recorder>> = (0..self.options.threads).map(|_| Mutex::default()).collect();
        let mut windows = Windows::begin(phase, self.store, &recorders);
        let begun = Instant::now();
        let outcomes = std::thread::scope(|scope| {
            let threads: Vec<_> = recorders
                .iter()
                .map(|recorder| {
                    scope.spawn(|| {
                        let outcome = work(recorder, &stop);
                        // An error ends all of them.
                        if outcome.is_err() {
                            stop.store(true, Ordering::Relaxed);
                        }
                        outcome
                    })
                })
                .collect();
            while !threads.iter().all(|thread| thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(20));
                windows.look(out);
                if loaded_rows.is_none() && begun.elapsed().as_secs() >= self.options.seconds {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_owned())))
                .collect::<Vec<_>>()
        });
        let seconds = begun.elapsed().as_secs_f64();
        outcomes.into_iter().collect::<Result<(), String>>()?;
        let totals = windows.end();
        let all = histograms_of(recorders);
        let actions = loaded_rows.unwrap_or_else(|| all.values().map(Histogram::count).sum());
        let grown = self.store.statistics().into_iter().zip(statistics);
        let densities: BTreeMap<ActionKind, Vec<[f64; 2]>> =
            all.iter().map(|(kind, latencies)| (*kind, latencies.density())).collect();
        Ok(YcsbResult {
            phase: phase.to_owned(),
            actions,
            seconds,
            cpu_seconds: totals.cpu_seconds.unwrap_or(0.0),
            write_amplification: totals.write_amplification,
            store_write_amplification: totals.store_write_amplification,
            peak_resident_bytes: totals.peak_resident_bytes.unwrap_or(0),
            rejected_writes: totals.rejected_writes,
            filter_lookups_per_action: totals.filter_lookups.map(|count| count / actions.max(1) as f64),
            windows: totals.windows,
            latencies: all
                .iter()
                .filter_map(|(kind, latencies)| Some((*kind, latencies.summary()?)))
                .collect(),
            peaks: densities.iter().map(|(kind, density)| (*kind, peaks(density))).collect(),
            densities,
            statistics: grown
                .map(|((name, now), (_, then))| (name, (now - then) / actions.max(1) as f64))
                .collect(),
        })
    }
}

fn record(
    recorder: &Mutex<Recorder>,
    kind: ActionKind,
    latency: Duration,
    actions: u64,
    written_bytes: u64,
) -> Result<(), String> {
    let mut recorder = recorder.lock().map_err(|_| "a thread panicked")?;
    recorder.window.add(latency, actions);
    recorder.all.entry(kind).or_default().add(latency, 1);
    recorder.written_bytes += written_bytes;
    Ok(())
}

fn histograms_of(recorders: Vec<Mutex<Recorder>>) -> BTreeMap<ActionKind, Histogram> {
    let mut all: BTreeMap<ActionKind, Histogram> = BTreeMap::new();
    for recorder in recorders.into_iter().filter_map(|recorder| recorder.into_inner().ok()) {
        for (kind, latencies) in recorder.all {
            all.entry(kind).or_default().merge(&latencies);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::RwLock;

    #[derive(Default)]
    struct Naive(RwLock<BTreeMap<String, Vec<String>>>);

    impl KeyValueStore for Naive {
        fn write(&self, rows: &[(String, Vec<String>)]) -> Result<(), String> {
            self.0.write().expect("no panic").extend(rows.iter().cloned());
            Ok(())
        }

        fn update(&self, key: &str, field: u32, value: &str) -> Result<(), String> {
            let mut rows = self.0.write().expect("no panic");
            rows.get_mut(key).ok_or("no such row")?[field as usize] = value.to_owned();
            Ok(())
        }

        fn read(&self, key: &str) -> Result<bool, String> {
            Ok(self.0.read().expect("no panic").contains_key(key))
        }

        fn scan(&self, from: &str, rows: usize, _fields: u32) -> Result<usize, String> {
            Ok(self.0.read().expect("no panic").range(from.to_owned()..).take(rows).count())
        }

        fn statistics(&self) -> Vec<(String, f64)> {
            vec![("rows".to_owned(), self.0.read().expect("no panic").len() as f64)]
        }
    }

    #[test]
    fn all_workloads_run_on_a_map() {
        let store = Naive::default();
        let shape = RowShape { fields: 2, field_bytes: 10, ordered: false, seed: 1 };
        let options = YcsbOptions { shape, rows: 1000, batch: 7, threads: 2, seconds: 0, popularity: None };
        let ycsb = Ycsb::new(&store, options);
        let loaded = ycsb.load(&mut std::io::sink()).expect("loads");
        assert_eq!((loaded.actions, store.0.read().expect("no panic").len()), (1000, 1000));
        assert_eq!(loaded.statistics, [("rows".to_owned(), 1.0)]);
        use Workload::{A, B, C, Columns, D, E, F, Lookup, Missing, Upsert};
        for workload in [A, B, C, D, E, F, Lookup, Missing, Upsert, Columns] {
            let result = ycsb.run_workload(workload, &mut std::io::sink()).expect("runs");
            assert!(result.text().contains("actions/s"), "{workload:?}");
            assert!(!result.windows.is_empty(), "a phase has a window however short it is");
        }
    }
}
