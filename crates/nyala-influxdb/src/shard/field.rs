//! The points of a field of a series, out of all files, in ascending order of time.
//!
//! Blocks are sorted by their first time. When a block was decoded, the points before the first time of the next block
//! are final: nothing that comes later can precede or replace them. So only blocks that overlap are in memory together.

use super::{Reading, left_out};
use crate::damage::Damage;
use crate::tsm::block;
use crate::tsm::file::BlockPlace;
use crate::values::{Kind, Points};
use std::collections::VecDeque;

/// The most memory of blocks of a field that overlap. InfluxDB's own have a few at most.
const OVERLAP_BYTES_MAX: usize = 128 << 20;

/// Where points come from.
pub(super) enum Source {
    /// A block of a file.
    File { index: usize, place: BlockPlace },
    /// The log.
    Memory(Points),
}

impl Source {
    fn first_ns(&self) -> i64 {
        match self {
            Source::File { place, .. } => place.first_ns,
            Source::Memory(points) => points.times_ns[0],
        }
    }
}

/// Points that were decoded and are not final yet.
struct Decoded {
    /// Points of a higher rank are newer.
    rank: usize,
    points: Points,
    /// How many of them were used.
    used: usize,
}

/// The points of a field.
pub(super) struct FieldPoints {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    /// By first time.
    sources: VecDeque<(usize, Source)>,
    /// The ranges of times that were deleted, of each file that has some.
    deleted: Vec<(usize, Vec<(i64, i64)>)>,
    decoded: Vec<Decoded>,
    /// Points that are final.
    pub(super) ready: Points,
    /// How many of them were used.
    pub(super) used: usize,
}

impl FieldPoints {
    pub(super) fn new(name: &[u8], kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            sources: VecDeque::new(),
            deleted: Vec::new(),
            decoded: Vec::new(),
            ready: Points::new(kind),
            used: 0,
        }
    }

    pub(super) fn add(&mut self, rank: usize, source: Source) {
        self.sources.push_back((rank, source));
    }

    pub(super) fn delete(&mut self, rank: usize, ranges: Vec<(i64, i64)>) {
        if !ranges.is_empty() {
            self.deleted.push((rank, ranges));
        }
    }

    /// Sorts what was added, before points are asked for.
    pub(super) fn sort(&mut self) {
        self.sources.make_contiguous().sort_by_key(|(rank, source)| (source.first_ns(), *rank));
    }

    /// Approximate bytes of the points that are in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let bytes = |points: &Points| 8 * points.len() + points.values.memory_bytes();
        bytes(&self.ready) + self.decoded.iter().map(|decoded| bytes(&decoded.points)).sum::<usize>()
    }

    /// The times that are ready and not used yet.
    pub(super) fn waiting(&self) -> &[i64] {
        &self.ready.times_ns[self.used..]
    }

    /// Makes points ready, unless some are or there are no more.
    pub(super) fn fill(&mut self, reading: &mut Reading<'_>) {
        if self.used < self.ready.len() {
            return;
        }
        self.ready.clear();
        self.used = 0;
        while self.ready.is_empty() {
            match self.sources.pop_front() {
                Some((rank, source)) => self.decode(rank, source, reading),
                None if self.decoded.is_empty() => return,
                None => {}
            }
            let next_ns = self.sources.front().map(|(_, source)| source.first_ns());
            self.make_ready(next_ns);
        }
    }

    fn decode(&mut self, rank: usize, source: Source, reading: &mut Reading<'_>) {
        let points = match source {
            Source::Memory(points) => points,
            Source::File { index, place } => {
                let mut points = Points::new(self.kind);
                // The memory of points that were used up is used again.
                if self.decoded.is_empty() {
                    std::mem::swap(&mut points, &mut self.ready);
                    points.clear();
                }
                match read_block(reading, index, &place, &mut points) {
                    Ok(()) => {}
                    Err(damage) => {
                        reading.damage.add(damage);
                        return;
                    }
                }
                if let Some((_, ranges)) = self.deleted.iter().find(|(of, _)| *of == rank) {
                    points.remove_times(ranges);
                }
                points.keep_times(&reading.times_ns);
                points
            }
        };
        let held: usize = self.decoded.iter().map(|decoded| decoded.points.values.memory_bytes()).sum();
        if held + points.values.memory_bytes() > OVERLAP_BYTES_MAX {
            let path = reading.files.first().map(|open| open.file.path().to_owned()).unwrap_or_default();
            let name = self.name.escape_ascii();
            let message = format!("so many blocks of the field {name} overlap that one of them was left out");
            reading.damage.add(Damage::new(&path, 0, message));
            return;
        }
        if !points.is_empty() {
            self.decoded.push(Decoded { rank, points, used: 0 });
        }
    }

    /// Moves the points before a time, or all, to those that are ready.
    fn make_ready(&mut self, before_ns: Option<i64>) {
        if let [only] = &mut self.decoded[..]
            && only.used == 0
            && before_ns
                .is_none_or(|before_ns| only.points.times_ns.last().is_some_and(|last| *last < before_ns))
        {
            std::mem::swap(&mut self.ready, &mut only.points);
            self.decoded.clear();
            return;
        }
        self.decoded.sort_by_key(|decoded| decoded.rank);
        for decoded in &mut self.decoded {
            let times_ns = &decoded.points.times_ns[decoded.used..];
            let count = before_ns
                .map_or(times_ns.len(), |before_ns| times_ns.partition_point(|time_ns| *time_ns < before_ns));
            let end = decoded.used + count;
            if self.ready.is_empty() {
                self.ready.extend(&decoded.points, decoded.used..end);
            } else if count > 0 {
                self.ready = merged(&self.ready, &decoded.points, decoded.used..end);
            }
            decoded.used = end;
        }
        self.decoded.retain(|decoded| decoded.used < decoded.points.len());
    }
}

/// Points of both, in order of time. Where both have a time, the newer one counts.
fn merged(older: &Points, newer: &Points, newer_range: std::ops::Range<usize>) -> Points {
    let mut merged = Points::new(older.values.kind());
    let (mut left, mut right) = (0, newer_range.start);
    while left < older.len() && right < newer_range.end {
        let (left_ns, right_ns) = (older.times_ns[left], newer.times_ns[right]);
        if left_ns < right_ns {
            let count = older.times_ns[left..].iter().take_while(|time_ns| **time_ns < right_ns).count();
            merged.extend(older, left..left + count);
            left += count;
        } else {
            let count = newer.times_ns[right..newer_range.end]
                .iter()
                .take_while(|time_ns| **time_ns <= left_ns)
                .count();
            merged.extend(newer, right..right + count);
            right += count;
            left += usize::from(newer.times_ns[right - 1] == left_ns);
        }
    }
    merged.extend(older, left..older.len());
    merged.extend(newer, right..newer_range.end);
    merged
}

fn read_block(
    reading: &mut Reading<'_>,
    index: usize,
    place: &BlockPlace,
    points: &mut Points,
) -> Result<(), Damage> {
    reading.read_bytes += u64::from(place.bytes);
    let file = &mut reading.files[index].file;
    let bytes = file.block(place)?;
    let decoded = block::decode(bytes, &mut reading.scratch, points);
    let damage = |message: String| {
        Damage::new(file.path(), place.offset, format!("{message}: the values of a block are lost"))
    };
    decoded.map_err(|problem| damage(problem.into_owned()))?;
    let infinite = points.remove_not_finite();
    if infinite > 0 {
        reading.damage.add(Damage::new(file.path(), place.offset, left_out(infinite)));
    }
    points.sort();
    let is_within = |time_ns: Option<&i64>| {
        time_ns.is_none_or(|time_ns| (place.first_ns..=place.last_ns).contains(time_ns))
    };
    match is_within(points.times_ns.first()) && is_within(points.times_ns.last()) {
        true => Ok(()),
        false => Err(damage("the times of a block are not those that the index names".to_owned())),
    }
}
