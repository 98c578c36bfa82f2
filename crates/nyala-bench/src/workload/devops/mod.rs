//! The devops use case of influxdb-comparisons: nine measurements per host, with about a hundred fields.
//!
//! In each interval every host reports its nine measurements, hosts in order. The walks of `cpu` have their own random
//! stream, so that verification can compute a host's history of `cpu` alone.

mod lines;
mod processes;

use super::cpu::model::{CpuModel, HostRow, HostsConfig};
use super::cpu::{FIELD_COUNT, Walk};
use super::{BatchSize, Workload};
use crate::random::{Random, Ziggurat};
use crate::time::Span;
use lines::{HostLines, put_float};
use processes::{MEASUREMENTS, Process};
use std::sync::Mutex;

/// 2018-01-01T00:00:00Z, where the suite's data begins.
pub const DEVOPS_START: i64 = 1_514_764_800;

/// Random streams of a seed for processes other than those of `cpu`.
const PROCESS_STREAMS: u64 = 6 << 40;

/// What verification knows of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevopsModel(pub HostsConfig);

/// Fields of a report.
pub fn values_per_report() -> u64 {
    MEASUREMENTS.iter().map(|measurement| measurement.fields.len() as u64).sum()
}

#[derive(Debug)]
struct HostState {
    cpu: Walk,
    random: Random,
    process_values: Vec<f64>,
}

/// The reports of one batch.
#[derive(Debug, Default)]
pub struct DevopsBatch {
    first_report: u64,
    cpu: Vec<[f64; FIELD_COUNT]>,
    /// The values of all reports, one after the other.
    process_values: Vec<f64>,
}

/// The workload: the processes of all hosts behind a lock, and the constant parts of their lines.
#[derive(Debug)]
pub struct DevopsWorkload {
    config: HostsConfig,
    batch_reports: u64,
    processes: Vec<Process>,
    lines: Vec<HostLines>,
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    hosts: Vec<HostState>,
    next_report: u64,
}

impl DevopsWorkload {
    /// The whole data set, in batches of about `batch_rows` lines.
    pub fn new(config: HostsConfig, batch_rows: usize) -> DevopsWorkload {
        let processes = processes::all();
        let host = |number| {
            let mut random = Random::new(config.seed, PROCESS_STREAMS + number);
            let process_values = processes.iter().map(|process| process.start(&mut random)).collect();
            HostState { cpu: Walk::new(config.seed, number), random, process_values }
        };
        let hosts = (0..config.hosts).map(host).collect();
        DevopsWorkload {
            config,
            batch_reports: (batch_rows / MEASUREMENTS.len()).max(1) as u64,
            lines: (0..config.hosts).map(|number| HostLines::new(config.seed, number)).collect(),
            shared: Mutex::new(Shared { hosts, next_report: 0 }),
            processes,
        }
    }
}

impl Workload for DevopsWorkload {
    type Batch = DevopsBatch;

    fn total_rows(&self) -> Option<u64> {
        Some(self.config.reports() * MEASUREMENTS.len() as u64)
    }

    fn claim(&self, batch: &mut DevopsBatch) -> Option<BatchSize> {
        let ziggurat = Ziggurat::shared();
        let mut shared = self.shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let first = shared.next_report;
        let reports = (self.config.reports() - first).min(self.batch_reports);
        if reports == 0 {
            return None;
        }
        shared.next_report += reports;
        batch.first_report = first;
        batch.cpu.clear();
        batch.process_values.clear();
        for report in first..first + reports {
            let host = &mut shared.hosts[(report % self.config.hosts) as usize];
            batch.cpu.push(host.cpu.values);
            host.cpu.advance(ziggurat);
            batch.process_values.extend_from_slice(&host.process_values);
            for (value, process) in host.process_values.iter_mut().zip(&self.processes) {
                *value = process.advance(*value, &mut host.random, ziggurat);
            }
        }
        Some(BatchSize { rows: reports * MEASUREMENTS.len() as u64, values: reports * values_per_report() })
    }

    fn write(&self, batch: &DevopsBatch, body: &mut Vec<u8>) {
        body.clear();
        let (mut tick, mut time) = (u64::MAX, String::new());
        let process_values = batch.process_values.chunks_exact(self.processes.len());
        for ((number, cpu), process_values) in (batch.first_report..).zip(&batch.cpu).zip(process_values) {
            if number / self.config.hosts != tick {
                tick = number / self.config.hosts;
                time = format!(" {}000000000\n", self.config.time_of(tick));
            }
            let uptime = tick as i64 * self.config.interval_seconds;
            let lines = &self.lines[(number % self.config.hosts) as usize];
            lines.write(cpu, process_values, uptime, &time, body);
        }
    }
}

impl CpuModel for DevopsModel {
    fn config(&self) -> &HostsConfig {
        &self.0
    }

    fn rows(&self, host: u64, span: Span) -> Vec<HostRow> {
        self.0.walked(host, span, through_text)
    }
}

/// A value after it was written as text and parsed again.
fn through_text(value: f64) -> f64 {
    let mut text = Vec::with_capacity(24);
    put_float(&mut text, value);
    let text = String::from_utf8(text).expect("numbers are ASCII");
    text.parse().expect("what is written is a number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn config() -> HostsConfig {
        let span = Span { start: DEVOPS_START, end: DEVOPS_START + 100 };
        HostsConfig { hosts: 3, span, interval_seconds: 10, seed: 1 }
    }

    fn text(batch_rows: usize) -> String {
        let workload = DevopsWorkload::new(config(), batch_rows);
        let (mut batch, mut body, mut all) = (DevopsBatch::default(), Vec::new(), Vec::new());
        let (mut rows, mut values) = (0, 0);
        while let Some(size) = workload.claim(&mut batch) {
            workload.write(&batch, &mut body);
            all.extend_from_slice(&body);
            rows += size.rows;
            values += size.values;
        }
        assert_eq!((rows, values), (3 * 10 * 9, 3 * 10 * values_per_report()));
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn every_measurement_has_its_fields_and_tags() {
        let text = text(100);
        assert_eq!(text, self::text(9), "batches do not change the data");
        assert_eq!(values_per_report(), 101);
        let mut fields: HashMap<&str, usize> = HashMap::new();
        for line in text.lines() {
            let parts: Vec<&str> = line.split(' ').collect();
            assert_eq!(parts.len(), 3, "{line}");
            let name = parts[0].split(',').next().unwrap();
            fields.insert(name, parts[1].split(',').count());
            for field in parts[1].split(',') {
                let (_, value) = field.split_once('=').unwrap();
                match value.strip_suffix('i') {
                    Some(integer) => drop(integer.parse::<i64>().unwrap()),
                    None => assert!((0.0..=100.0).contains(&value.parse::<f64>().unwrap()), "{field}"),
                }
            }
        }
        let expected = [
            ("cpu", 10),
            ("diskio", 7),
            ("disk", 7),
            ("kernel", 6),
            ("mem", 9),
            ("net", 8),
            ("nginx", 7),
            ("postgresl", 16),
            ("redis", 31),
        ];
        assert_eq!(fields, expected.into_iter().collect());
        assert!(
            text.contains(",path=/dev/sda") && text.contains(",server=redis_") && text.contains(",serial=")
        );
        assert!(text.lines().last().unwrap().contains(" uptime_in_seconds=90i,"));
    }

    #[test]
    fn cpu_rows_are_the_models() {
        let config = config();
        let lines = text(100);
        let lines: Vec<&str> = lines.lines().filter(|line| line.starts_with("cpu,")).collect();
        for host in 0..3 {
            for (tick, (time, values)) in DevopsModel(config).rows(host, config.span).into_iter().enumerate()
            {
                let line = lines[tick * 3 + host as usize];
                assert!(line.starts_with(&format!("cpu,hostname=host_{host},")));
                assert!(line.ends_with(&format!(" {time}000000000")));
                let first = line.split_once("usage_user=").unwrap().1.split(',').next().unwrap();
                assert_eq!(first.parse::<f64>().unwrap(), values[0]);
            }
        }
    }

    #[test]
    fn floats_have_sixteen_decimals() {
        for value in [0.0, 100.0, 0.1, 57.123_456_789_012_345, 99.999_999_999_999_99, 1e-17] {
            let mut text = Vec::new();
            put_float(&mut text, value);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.split_once('.').unwrap().1.len(), 16);
            assert!(
                (text.parse::<f64>().unwrap() - value).abs() < 2e-16 + value * 1e-16,
                "{text} of {value}"
            );
        }
    }
}
