//! A shard as InfluxDB reads it: of points with the same key and time, the one in the newest file counts, and the log is
//! newer than all files.
//!
//! All files are read side by side in the order of their keys. The keys of a series are next to each other in each file.
//! `field` makes one ascending list of points of the blocks of a field, `rows` puts the fields of a series side by side.

mod field;
mod rows;

use crate::backup;
use crate::damage::{Damage, DamageList};
use crate::directory::ShardFiles;
use crate::key;
use crate::tsm::block::Scratch;
use crate::tsm::file::{BlockPlace, IndexedKey, TsmFile};
use crate::tsm::tombstone::Tombstones;
use crate::values::{Kind, Points, Values};
use crate::wal::run::{LoggedKey, Run, read_log};
use field::{FieldPoints, Source};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

/// The fields of a series that are read side by side. Each has some blocks in memory.
const FIELDS_AT_ONCE: usize = 256;
/// The blocks of a series that are known at once.
const BLOCKS_AT_ONCE: usize = 1 << 21;

/// The values of one field in the rows of [`RowTarget::rows`].
#[derive(Debug, Clone)]
pub struct FieldValues<'a> {
    /// The name of the field.
    pub field: &'a [u8],
    /// Where its values are …
    pub values: &'a Values,
    /// … among these. There is one for each row that has the field.
    pub range: Range<usize>,
    /// Which rows have the field; `None`: all.
    pub present: Option<&'a [bool]>,
}

/// Receives the rows of a shard.
pub trait RowTarget {
    /// Why it takes no more rows.
    type Error;

    /// Rows of a series, in ascending order of time. The series key is escaped as in line protocol.
    fn rows(
        &mut self,
        series: &[u8],
        times_ns: &[i64],
        fields: &[FieldValues<'_>],
    ) -> Result<(), Self::Error>;

    /// So many bytes of files were read.
    fn read(&mut self, bytes: u64);
}

/// A TSM file that is read.
pub(crate) struct OpenFile {
    pub(crate) file: TsmFile,
    tombstones: Tombstones,
    next: Option<IndexedKey>,
}

/// A part of the log that is read.
struct OpenRun {
    run: Run,
    next: Option<LoggedKey>,
}

/// What all fields of a shard share.
pub(crate) struct Reading<'a> {
    pub(crate) files: Vec<OpenFile>,
    pub(crate) damage: &'a mut DamageList,
    pub(crate) scratch: Scratch,
    /// The times that are read.
    pub(crate) times_ns: RangeInclusive<i64>,
    /// Bytes of blocks that were read since the target was told.
    pub(crate) read_bytes: u64,
}

/// Reads the points of a shard that are within a range of times.
pub fn read_shard<T: RowTarget>(
    shard: &ShardFiles,
    times_ns: RangeInclusive<i64>,
    spill_dir: &Path,
    damage: &mut DamageList,
    target: &mut T,
) -> Result<(), T::Error> {
    let Some(archive) = &shard.archive else {
        return read_files(shard, 1.0, times_ns, spill_dir, damage, target);
    };
    match backup::unpack(shard, archive, spill_dir, damage) {
        Ok(unpacked) => {
            // Progress is counted in bytes of the archive.
            let scale = shard.bytes as f64 / unpacked.files.bytes.max(1) as f64;
            let mut inner = DamageList::default();
            let read = read_files(&unpacked.files, scale, times_ns, spill_dir, &mut inner, target);
            damage.append(unpacked.named(inner));
            read
        }
        Err(found) => {
            damage.add(found);
            Ok(())
        }
    }
}

/// Reads the points of files; `scale` is how many bytes are told of a byte that is read.
fn read_files<T: RowTarget>(
    shard: &ShardFiles,
    scale: f64,
    times_ns: RangeInclusive<i64>,
    spill_dir: &Path,
    damage: &mut DamageList,
    target: &mut T,
) -> Result<(), T::Error> {
    let runs = read_log(&shard.log, spill_dir, damage, |bytes| target.read(bytes));
    let mut runs: Vec<OpenRun> = runs.into_iter().map(|run| OpenRun { run, next: None }).collect();
    let mut files = Vec::new();
    for path in &shard.files {
        let (tombstones, found) = Tombstones::open(&path.with_extension("tombstone"));
        found.into_iter().for_each(|found| damage.add(found));
        match TsmFile::open(path) {
            Ok(file) => files.push(OpenFile { file, tombstones, next: None }),
            Err(found) => damage.add(found),
        }
    }
    let mut reading = Reading { files, damage, scratch: Scratch::default(), times_ns, read_bytes: 0 };
    for index in 0..reading.files.len() {
        reading.advance_file(index);
    }
    for run in &mut runs {
        run.advance(reading.damage, &shard.log);
    }
    while let Some(series) = reading.first_series(&runs) {
        let mut fields = reading.fields_of(&series, &mut runs, &shard.log);
        rows::read_rows(&series, &mut fields, &mut reading, target)?;
        target.read((std::mem::take(&mut reading.read_bytes) as f64 * scale) as u64);
    }
    Ok(())
}

impl OpenRun {
    fn advance(&mut self, damage: &mut DamageList, log: &[PathBuf]) {
        self.next = loop {
            let path = log.first().map_or(Path::new("wal"), |path| path.as_path());
            match self.run.next_key() {
                Ok(Some(next)) if key::split(&next.key).is_none() => {
                    damage.add(without_field(path, &next.key))
                }
                Ok(mut next) => {
                    let infinite = next.as_mut().map_or(0, |next| next.points.remove_not_finite());
                    if infinite > 0 {
                        damage.add(Damage::new(path, 0, left_out(infinite)));
                    }
                    break next;
                }
                Err(error) => {
                    let message = format!("reading what was moved to a temporary file: {error}");
                    damage.add(Damage::new(path, 0, message));
                    break None;
                }
            }
        };
    }
}

/// What is said of floats that InfluxDB refuses.
fn left_out(infinite: usize) -> String {
    format!("{infinite} floats that are infinite or no numbers were left out")
}

fn without_field(path: &Path, key: &[u8]) -> Damage {
    Damage::new(path, 0, format!("the key {} has no field: its values are lost", key.escape_ascii()))
}

impl Reading<'_> {
    fn advance_file(&mut self, index: usize) {
        let open = &mut self.files[index];
        open.next = loop {
            match open.file.next_key() {
                Ok(Some(next)) if key::split(&next.key).is_none() => {
                    self.damage.add(without_field(open.file.path(), &next.key));
                }
                Ok(next) => break next,
                Err(found) => {
                    self.damage.add(found);
                    break None;
                }
            }
        };
    }

    /// The first of all keys that are left.
    fn first_key(&self, runs: &[OpenRun]) -> Option<Vec<u8>> {
        let of_files = self.files.iter().filter_map(|open| Some(&open.next.as_ref()?.key));
        let of_runs = runs.iter().filter_map(|open| Some(&open.next.as_ref()?.key));
        of_files.chain(of_runs).min().cloned()
    }

    /// The series of that key.
    fn first_series(&self, runs: &[OpenRun]) -> Option<Vec<u8>> {
        let first = self.first_key(runs)?;
        let (series, _) = key::split(&first)?;
        Some(series.to_owned())
    }

    /// The next fields of a series: all of them, unless they are very many.
    fn fields_of(&mut self, series: &[u8], runs: &mut [OpenRun], log: &[PathBuf]) -> Vec<FieldPoints> {
        let mut fields: Vec<FieldPoints> = Vec::new();
        let mut blocks = 0;
        // Fields come in the order of their names, so those that are left out are complete the next time.
        while fields.len() < FIELDS_AT_ONCE && blocks < BLOCKS_AT_ONCE {
            let Some(first) = self.first_key(runs) else { break };
            let Some((_, field)) = key::split(&first).filter(|(of, _)| *of == series) else { break };
            let field = field.to_owned();
            for index in 0..self.files.len() {
                let open = &mut self.files[index];
                let Some(next) = open.next.take_if(|next| next.key == first) else { continue };
                let deleted = open.tombstones.of_key(&first);
                let (first_ns, last_ns) = (*self.times_ns.start(), *self.times_ns.end());
                let is_needed = |place: &BlockPlace| {
                    place.last_ns >= first_ns && place.first_ns <= last_ns && !is_within(&deleted, place)
                };
                let needed: Vec<BlockPlace> = next.blocks.iter().copied().filter(is_needed).collect();
                let skipped = next.blocks.iter().filter(|place| !is_needed(place));
                self.read_bytes += skipped.map(|place| u64::from(place.bytes)).sum::<u64>();
                blocks += needed.len();
                let of_field = find_or_add(&mut fields, &field, next.kind);
                for place in needed {
                    of_field.add(index, Source::File { index, place });
                }
                of_field.delete(index, deleted);
                self.advance_file(index);
            }
            let rank_of_runs = self.files.len();
            for (index, open) in runs.iter_mut().enumerate() {
                while let Some(mut next) = open.next.take_if(|next| next.key == first) {
                    next.points.keep_times(&self.times_ns);
                    if !next.points.is_empty() {
                        let of_field = find_or_add(&mut fields, &field, next.points.values.kind());
                        of_field.add(rank_of_runs + index, Source::Memory(next.points));
                    }
                    open.advance(self.damage, log);
                }
            }
        }
        fields.iter_mut().for_each(FieldPoints::sort);
        fields
    }
}

/// Whether all times of a block are within one of some ranges, which ascend.
fn is_within(ranges: &[(i64, i64)], place: &BlockPlace) -> bool {
    let after = ranges.partition_point(|(first_ns, _)| *first_ns <= place.first_ns);
    after > 0 && ranges[after - 1].1 >= place.last_ns
}

/// A field may have several types in damaged shards only. They are treated as fields of their own.
fn find_or_add<'a>(fields: &'a mut Vec<FieldPoints>, name: &[u8], kind: Kind) -> &'a mut FieldPoints {
    let known = fields.iter().rposition(|field| field.name == name && field.kind == kind);
    let index = known.unwrap_or_else(|| {
        fields.push(FieldPoints::new(name, kind));
        fields.len() - 1
    });
    &mut fields[index]
}

impl Points {
    /// Removes the points outside of a range of times. The times ascend.
    pub(crate) fn keep_times(&mut self, range: &RangeInclusive<i64>) {
        let start = self.times_ns.partition_point(|time_ns| time_ns < range.start());
        let end = self.times_ns.partition_point(|time_ns| time_ns <= range.end());
        if (start, end) != (0, self.len()) {
            let mut kept = Self::new(self.values.kind());
            kept.extend(self, start..end.max(start));
            *self = kept;
        }
    }
}
