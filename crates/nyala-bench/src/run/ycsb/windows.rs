//! What happens in a phase over time: at the end of each window, what threads have recorded, what the process uses and what
//! the store counts.

use super::{KeyValueStore, Recorder};
use crate::measure::counters::StoreCounters;
use crate::measure::histogram::Histogram;
use crate::measure::server::{ServerProbe, Usage};
use crate::report::table::{count, milliseconds};
use crate::report::ycsb::{Percentiles, Window};
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(1);
/// Windows of a line of progress.
const WINDOWS_PER_LINE: usize = 10;

/// The windows of a phase that runs.
pub(super) struct Windows<'a> {
    phase: &'a str,
    store: &'a dyn KeyValueStore,
    recorders: &'a [Mutex<Recorder>],
    probe: ServerProbe,
    begun: Instant,
    first: Observation,
    window_begun: Instant,
    /// At the end of the last window.
    last: Observation,
    windows: Vec<Window>,
}

/// What the process uses and the store counts at a moment.
#[derive(Clone, Copy)]
struct Observation {
    usage: Usage,
    counters: StoreCounters,
}

/// What a phase was.
pub(super) struct Totals {
    pub(super) windows: Vec<Window>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) peak_resident_bytes: Option<u64>,
    pub(super) write_amplification: Option<f64>,
    pub(super) store_write_amplification: Option<f64>,
    pub(super) rejected_writes: Option<f64>,
    pub(super) filter_lookups: Option<f64>,
}

impl<'a> Windows<'a> {
    pub(super) fn begin(
        phase: &'a str,
        store: &'a dyn KeyValueStore,
        recorders: &'a [Mutex<Recorder>],
    ) -> Self {
        let probe = store.probe();
        let first = Observation::of(store, &probe);
        let begun = Instant::now();
        Self {
            phase,
            store,
            recorders,
            probe,
            begun,
            first,
            window_begun: begun,
            last: first,
            windows: Vec::new(),
        }
    }

    /// Ends the window if it is over, and tells of every tenth.
    pub(super) fn look(&mut self, out: &mut dyn Write) {
        if self.window_begun.elapsed() < WINDOW {
            return;
        }
        self.end_window();
        if self.windows.len().is_multiple_of(WINDOWS_PER_LINE) {
            let lately = &self.windows[self.windows.len() - WINDOWS_PER_LINE..];
            let rate =
                lately.iter().map(|window| window.actions_per_second).sum::<f64>() / lately.len() as f64;
            let p99s_ms = lately.iter().filter_map(|window| Some(window.latency.as_ref()?.p99_ms));
            let (phase, seconds) = (self.phase, self.begun.elapsed().as_secs());
            let worst_ms = milliseconds(p99s_ms.fold(0.0, f64::max));
            // A report that cannot be written does not end a run.
            let _ = writeln!(
                out,
                "{phase} {seconds:>5} s: {} actions/s, p99 of the worst second {worst_ms} ms",
                count(rate)
            );
        }
    }

    /// Ends the last window, unless it is too short to tell anything beside others.
    pub(super) fn end(mut self) -> Totals {
        if self.windows.is_empty() || self.window_begun.elapsed() >= WINDOW / 2 {
            self.end_window();
        } else {
            self.last = Observation::of(self.store, &self.probe);
        }
        let grown = |of: fn(&StoreCounters) -> Option<f64>| grown(of, &self.last, &self.first);
        Totals {
            cpu_seconds: self.last.usage.cpu_since(&self.first.usage),
            peak_resident_bytes: self.last.usage.peak_resident_bytes,
            write_amplification: self.write_amplification(),
            store_write_amplification: self.store_write_amplification(),
            rejected_writes: grown(|counters| counters.rejected_writes),
            filter_lookups: grown(|counters| counters.filter_lookups),
            windows: self.windows,
        }
    }

    fn end_window(&mut self) {
        let seconds = self.window_begun.elapsed().as_secs_f64();
        let mut latencies = Histogram::default();
        for recorder in self.recorders {
            if let Ok(mut recorder) = recorder.lock() {
                latencies.merge(&std::mem::take(&mut recorder.window));
            }
        }
        self.window_begun = Instant::now();
        let before = std::mem::replace(&mut self.last, Observation::of(self.store, &self.probe));
        let actions = latencies.count() as f64;
        let grown = |of: fn(&StoreCounters) -> Option<f64>| grown(of, &self.last, &before);
        let per_second = |of: fn(&StoreCounters) -> Option<f64>| grown(of).map(|count| count / seconds);
        let filter_lookups = grown(|counters| counters.filter_lookups);
        self.windows.push(Window {
            seconds: self.begun.elapsed().as_secs_f64(),
            actions_per_second: actions / seconds,
            latency: (actions > 0.0).then(|| Percentiles {
                p50_ms: latencies.percentile_ms(0.50),
                p95_ms: latencies.percentile_ms(0.95),
                p99_ms: latencies.percentile_ms(0.99),
                max_ms: latencies.max_ms(),
            }),
            cores: self.last.usage.cpu_since(&before.usage).map(|cpu_seconds| cpu_seconds / seconds),
            resident_bytes: self.last.usage.resident_bytes,
            memory_bytes: self.last.counters.memory_bytes,
            flushed_bytes_per_second: per_second(|counters| counters.flushed_bytes),
            compacted_bytes_per_second: per_second(|counters| counters.compacted_bytes),
            rejected_writes_per_second: per_second(|counters| counters.rejected_writes),
            slowed_writes_per_second: per_second(|counters| counters.slowed_writes),
            filter_lookups_per_action: filter_lookups.filter(|_| actions > 0.0).map(|count| count / actions),
            write_amplification: self.write_amplification(),
            store_write_amplification: self.store_write_amplification(),
        });
    }

    /// Bytes that the process has written to storage for each byte of rows since the phase began.
    fn write_amplification(&self) -> Option<f64> {
        self.per_byte_of_rows(self.last.usage.written_since(&self.first.usage)? as f64)
    }

    /// The same, as the store counts what it writes: without the rest of the system's pages.
    fn store_write_amplification(&self) -> Option<f64> {
        self.per_byte_of_rows(grown(StoreCounters::written_bytes, &self.last, &self.first)?)
    }

    fn per_byte_of_rows(&self, bytes: f64) -> Option<f64> {
        let recorded = self.recorders.iter().filter_map(|recorder| Some(recorder.lock().ok()?.written_bytes));
        let of_rows: u64 = recorded.sum();
        (of_rows > 0).then(|| bytes / of_rows as f64)
    }
}

impl Observation {
    fn of(store: &dyn KeyValueStore, probe: &ServerProbe) -> Self {
        Self { usage: probe.usage(), counters: store.counters() }
    }
}

/// How much a counter has grown. A server that was started again has begun anew.
fn grown(of: fn(&StoreCounters) -> Option<f64>, now: &Observation, before: &Observation) -> Option<f64> {
    Some((of(&now.counters)? - of(&before.counters)?).max(0.0))
}
