//! What a log holds, in order of keys. As much as fits is in memory; when more comes, it is moved to a temporary file and
//! is a run of its own, older than the next one.

use super::entry::LogTarget;
use super::segment;
use super::written::Written;
use crate::damage::{Damage, DamageList};
use crate::tsm::tombstone::Tombstones;
use crate::values::{Kind, Points, Values};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The memory of a run.
const RUN_BYTES_MAX: usize = 96 << 20;
/// What a key takes beside its bytes and points.
const KEY_BYTES: usize = 128;

/// The points of a key in a run: sorted, without those that were deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedKey {
    /// The key.
    pub key: Vec<u8>,
    /// Its points.
    pub points: Points,
}

/// Points of the log in order of keys. Those of a later run are newer.
#[derive(Debug)]
pub struct Run {
    source: Source,
    deleted: Tombstones,
}

#[derive(Debug)]
enum Source {
    Memory(std::vec::IntoIter<LoggedKey>),
    File(BufReader<File>),
}

/// Reads the segments of a log in order, and puts what does not fit into memory into `spill_dir`.
pub fn read_log(
    segments: &[PathBuf],
    spill_dir: &Path,
    damage: &mut DamageList,
    mut on_read: impl FnMut(u64),
) -> Vec<Run> {
    let mut log = Log { spill_dir, runs: Vec::new(), points: HashMap::new(), bytes: 0, failure: None };
    for path in segments {
        let (read_bytes, found) = segment::read(path, &mut log);
        on_read(read_bytes);
        found.into_iter().for_each(|found| damage.add(found));
        if let Some(error) = log.failure.take() {
            damage.add(Damage::new(
                path,
                read_bytes,
                format!("moving the log to {}: {error}", spill_dir.display()),
            ));
        }
    }
    log.finish()
}

/// A log that is being read.
struct Log<'a> {
    spill_dir: &'a Path,
    runs: Vec<Run>,
    points: HashMap<(Vec<u8>, Kind), Written>,
    bytes: usize,
    failure: Option<io::Error>,
}

impl LogTarget for Log<'_> {
    fn begin(&mut self, entry_bytes: usize) {
        if self.bytes > RUN_BYTES_MAX {
            self.spill();
        }
        // Vectors grow by doubling.
        self.bytes += 2 * entry_bytes;
    }

    fn points(&mut self, key: &[u8], kind: Kind) -> &mut Points {
        let written = self.points.entry((key.to_owned(), kind)).or_insert_with(|| {
            self.bytes += key.len() + KEY_BYTES;
            Written::new(kind)
        });
        &mut written.points
    }

    fn delete(&mut self, key: &[u8], first_ns: i64, last_ns: i64) {
        if self.bytes > RUN_BYTES_MAX {
            self.spill();
        }
        for run in &mut self.runs {
            if let Err(message) = run.deleted.add(key, first_ns, last_ns) {
                self.failure.get_or_insert_with(|| io::Error::other(message));
            }
        }
        for kind in [Kind::Float, Kind::Integer, Kind::Boolean, Kind::String, Kind::Unsigned] {
            if let Some(written) = self.points.get_mut(&(key.to_owned(), kind)) {
                self.bytes += written.delete(first_ns, last_ns);
            }
        }
    }
}

impl Log<'_> {
    fn take_sorted(&mut self) -> Vec<LoggedKey> {
        self.bytes = 0;
        let taken = std::mem::take(&mut self.points).into_iter();
        let mut sorted: Vec<LoggedKey> = taken
            .map(|((key, _), written)| LoggedKey { key, points: written.left() })
            .filter(|logged| !logged.points.is_empty())
            .collect();
        sorted.sort_unstable_by(|left, right| {
            (&left.key, left.points.values.kind()).cmp(&(&right.key, right.points.values.kind()))
        });
        sorted.iter_mut().for_each(|logged| logged.points.sort());
        sorted
    }

    fn spill(&mut self) {
        let sorted = self.take_sorted();
        match spill(&sorted, self.spill_dir) {
            Ok(file) => self.runs.push(Run { source: Source::File(file), deleted: Tombstones::default() }),
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }

    fn finish(mut self) -> Vec<Run> {
        let last = self.take_sorted();
        let mut runs = self.runs;
        runs.push(Run { source: Source::Memory(last.into_iter()), deleted: Tombstones::default() });
        runs.iter_mut().for_each(|run| run.deleted.sort());
        runs
    }
}

impl Run {
    /// The next key.
    pub fn next_key(&mut self) -> io::Result<Option<LoggedKey>> {
        let next = match &mut self.source {
            Source::Memory(keys) => keys.next(),
            Source::File(file) => read_key(file)?,
        };
        Ok(next.map(|mut logged| {
            logged.points.remove_times(&self.deleted.of_key(&logged.key));
            logged
        }))
    }
}

fn spill(keys: &[LoggedKey], directory: &Path) -> io::Result<BufReader<File>> {
    let mut output = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(directory)?);
    for LoggedKey { key, points } in keys {
        let kind = points.values.kind() as u8;
        output.write_all(&[kind])?;
        output.write_all(&(key.len() as u32).to_le_bytes())?;
        output.write_all(&(points.len() as u32).to_le_bytes())?;
        output.write_all(key)?;
        for time_ns in &points.times_ns {
            output.write_all(&time_ns.to_le_bytes())?;
        }
        match &points.values {
            Values::Float(values) => {
                values.iter().try_for_each(|value| output.write_all(&value.to_le_bytes()))?
            }
            Values::Integer(values) => {
                values.iter().try_for_each(|value| output.write_all(&value.to_le_bytes()))?
            }
            Values::Unsigned(values) => {
                values.iter().try_for_each(|value| output.write_all(&value.to_le_bytes()))?
            }
            Values::Boolean(values) => {
                values.iter().try_for_each(|value| output.write_all(&[u8::from(*value)]))?
            }
            Values::String(strings) => {
                strings.ends.iter().try_for_each(|end| output.write_all(&end.to_le_bytes()))?;
                output.write_all(&strings.bytes)?;
            }
        }
    }
    let mut file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Reads what [`spill`] wrote, which nobody else can reach.
fn read_key(input: &mut BufReader<File>) -> io::Result<Option<LoggedKey>> {
    let mut kind = [0];
    if input.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let kinds = [Kind::Float, Kind::Integer, Kind::Boolean, Kind::String, Kind::Unsigned];
    let mut points = Points::new(kinds[usize::from(kind[0])]);
    let (key_bytes, count) = (u32::from_le_bytes(array(input)?), u32::from_le_bytes(array(input)?));
    let mut key = vec![0; key_bytes as usize];
    input.read_exact(&mut key)?;
    for _ in 0..count {
        points.times_ns.push(i64::from_le_bytes(array(input)?));
    }
    for _ in 0..count {
        match &mut points.values {
            Values::Float(values) => values.push(f64::from_le_bytes(array(input)?)),
            Values::Integer(values) => values.push(i64::from_le_bytes(array(input)?)),
            Values::Unsigned(values) => values.push(u64::from_le_bytes(array(input)?)),
            Values::Boolean(values) => values.push(array(input)? == [1]),
            Values::String(strings) => strings.ends.push(u32::from_le_bytes(array(input)?)),
        }
    }
    if let Values::String(strings) = &mut points.values {
        strings.bytes.resize(strings.ends.last().map_or(0, |end| *end as usize), 0);
        input.read_exact(&mut strings.bytes)?;
    }
    Ok(Some(LoggedKey { key, points }))
}

fn array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map(|()| bytes)
}
