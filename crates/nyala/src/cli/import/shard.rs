//! Imports one shard: a thread reads rows and collects them in batches of columns, another one writes them.

use super::destination::Destination;
use super::journal::Done;
use super::report::Outcome;
use super::source::Source;
use nyala_db::ingest::{ColumnBatch, FieldSlice, ValueSlice};
use nyala_db::write::ColumnReport;
use nyala_influxdb::DamageList;
use nyala_influxdb::directory::ShardFiles;
use nyala_influxdb::shard::{FieldValues, RowTarget, read_shard};
use nyala_influxdb::values::Values;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Batches that are read while one is written.
const WAITING_MAX: usize = 1;
/// The most bad rows of a shard that are described.
const PROBLEMS_MAX: usize = 10;

/// Imports a shard. The error says why it is not done.
pub(super) fn import_shard(
    source: &Source,
    shard: &ShardFiles,
    destination: &Destination,
    spill_dir: &Path,
    outcome: &mut Outcome,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<Done, String> {
    let mut damage = DamageList::default();
    let (sender, receiver) = sync_channel::<ColumnBatch>(WAITING_MAX);
    let (read, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || -> Result<Done, String> {
            let mut done = Done::default();
            for mut batch in receiver {
                let report = destination.write(&shard.database, &shard.policy, &mut batch)?;
                done.add(report);
            }
            Ok(done)
        });
        let mut rows = Rows {
            batch: ColumnBatch::default(),
            sender,
            read_bytes: 0,
            read_values: 0,
            problems: Vec::new(),
            problem_count: 0,
            watch,
        };
        let times_ns = source.times_ns.clone();
        let read = read_shard(shard, times_ns, spill_dir, &mut damage, &mut rows).and_then(|()| rows.send());
        let problems = (rows.problems, rows.problem_count);
        // The writer ends when nobody sends any more.
        drop(rows.sender);
        (read.map(|()| problems), writer.join())
    });
    let mut done = written.map_err(|_| "the thread that writes panicked".to_owned())??;
    let (problems, problem_count) =
        read.map_err(|Stopped| "the thread that writes ended early".to_owned())?;
    let place = format!("shard {} of {}.{}", shard.id, shard.database, shard.policy);
    outcome.refused.extend(problems.into_iter().map(|problem| format!("{place}: {problem}")));
    done.bad_rows = problem_count;
    done.damage = damage.count;
    outcome.add_damage(damage);
    Ok(done)
}

/// The writer takes no more batches. Its error says why.
struct Stopped;

/// Collects rows.
struct Rows<'a> {
    batch: ColumnBatch,
    sender: SyncSender<ColumnBatch>,
    read_bytes: u64,
    read_values: u64,
    problems: Vec<String>,
    problem_count: u64,
    watch: &'a mut dyn FnMut(u64, u64),
}

impl Rows<'_> {
    fn send(&mut self) -> Result<(), Stopped> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.sender.send(std::mem::take(&mut self.batch)).map_err(|_| Stopped)
    }
}

impl RowTarget for Rows<'_> {
    type Error = Stopped;

    fn rows(&mut self, series: &[u8], times_ns: &[i64], fields: &[FieldValues<'_>]) -> Result<(), Stopped> {
        let columns: Vec<FieldSlice<'_>> = fields.iter().map(slice_of).collect();
        match self.batch.append(series, times_ns, &columns) {
            Ok(()) => self.read_values += fields.iter().map(|field| field.range.len() as u64).sum::<u64>(),
            Err(problem) => {
                self.problem_count += times_ns.len() as u64;
                if self.problems.len() < PROBLEMS_MAX {
                    self.problems.push(format!("{} rows were not imported: {problem}", times_ns.len()));
                }
            }
        }
        if self.batch.is_full() { self.send() } else { Ok(()) }
    }

    fn read(&mut self, bytes: u64) {
        self.read_bytes += bytes;
        (self.watch)(self.read_bytes, self.read_values);
    }
}

fn slice_of<'a>(field: &FieldValues<'a>) -> FieldSlice<'a> {
    let range = field.range.clone();
    let values = match field.values {
        Values::Float(values) => ValueSlice::Float(&values[range]),
        Values::Integer(values) => ValueSlice::Integer(&values[range]),
        Values::Unsigned(values) => ValueSlice::Unsigned(&values[range]),
        Values::Boolean(values) => ValueSlice::Boolean(&values[range]),
        Values::String(strings) => {
            let start = strings.start(range.start);
            ValueSlice::String(&strings.ends[range], &strings.bytes, start)
        }
    };
    FieldSlice { name: field.field, values, present: field.present }
}

impl Done {
    fn add(&mut self, report: ColumnReport) {
        let ColumnReport { points, values } = report;
        for (measurement, count) in values {
            *self.values.entry(measurement).or_default() += count;
        }
        self.points += points.written;
        self.expired += points.expired;
        if let Some(dropped) = &points.dropped {
            self.dropped += dropped.count;
            self.dropped_reason.get_or_insert_with(|| dropped.reason.clone());
        }
        if points.conflict {
            self.dropped_reason.get_or_insert_with(|| "field type conflict".to_owned());
        }
        self.conflict |= points.conflict;
    }
}
