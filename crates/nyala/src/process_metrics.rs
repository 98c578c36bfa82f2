//! What `/metrics` shows of the process and the program, under the names that Prometheus' own clients use.
//!
//! Resident memory is measured by `resident_memory`, which acts on it.

use crate::server::metric::Metric;
use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Clock ticks of `/proc/PID/stat` in a second: a constant of Linux for all programs (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;
/// User and system time are these fields behind the name of the program (14 and 15 of `proc(5)`, which counts from 1).
const TIME_FIELDS: std::ops::Range<usize> = 11..13;

/// The metrics of a process that started at this time. What the system does not tell is left out.
pub(crate) fn metrics(started_ns: i64) -> Vec<Metric> {
    let started = "When the process started, in seconds since 1970.";
    let started_s = u64::try_from(started_ns).unwrap_or(0) / 1_000_000_000;
    let labels = format!("version=\"{}\",commit=\"{}\"", env!("CARGO_PKG_VERSION"), env!("NYALA_COMMIT"));
    let mut metrics = vec![
        Metric::gauge("nyala_build_info", "The program: always 1, with its version and commit.", 1)
            .by_labels([(labels, 1)]),
        Metric::gauge("process_start_time_seconds", started, started_s),
    ];
    if let Some(used) = processor_time() {
        let help = "Time of processors that the process has used.";
        metrics.push(Metric::seconds("process_cpu_seconds_total", help, used));
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory that is being read.
        let open = open.count().saturating_sub(1) as u64;
        metrics.push(Metric::gauge("process_open_fds", "Open files, connections among them.", open));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        metrics.push(Metric::gauge("process_max_fds", "The most open files.", most));
    }
    metrics
}

/// The time of processors that this process has used.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may hold anything, even brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u64 = fields.get(TIME_FIELDS)?.iter().map(|field| field.parse().unwrap_or(0)).sum();
    Some(Duration::from_millis(ticks * (1000 / TICKS_PER_SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_processors_grows_with_work() {
        let before = processor_time().expect("Linux tells it");
        let begun = std::time::Instant::now();
        let mut sum = 0_u64;
        while processor_time().expect("Linux tells it") == before {
            assert!(begun.elapsed() < Duration::from_secs(60), "it stands still");
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(processor_time().expect("Linux tells it") < before + Duration::from_secs(60));
    }
}
