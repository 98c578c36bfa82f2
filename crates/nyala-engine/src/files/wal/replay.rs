//! Reading the log: for recovery, and to verify it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use nyala_core::Result;

use super::segment::{self, Closed};
use crate::files::framed_log::{
    Authority, Damage, FILE_HEADER_BYTES, FileHeader, FrameKind, Scanned, Scanner,
};
use crate::files::fs::{Access, FileSystem, FsRef, SimulatedFs};

/// Damaged places that a report lists; more are only counted.
const MAX_DAMAGE_LISTED: usize = 1000;

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its sequence.
    pub sequence: u64,
    /// The payload. It shares memory with its neighbours (a few MB): decode it, do not keep it.
    pub payload: Bytes,
}

/// What a replay found.
#[derive(Debug, Clone, Default)]
pub struct ReplayReport {
    /// Records handed out.
    pub records: u64,
    /// Their bytes.
    pub payload_bytes: u64,
    /// The last sequence in the log, 0 in an empty one.
    pub last_sequence: u64,
    /// Segments in the directory.
    pub segments: u64,
    /// The number of the last one, 0 in an empty log.
    pub last_segment: u64,
    /// Acknowledged data that is lost, the first thousand places.
    pub damage: Vec<Damage>,
    /// All damaged places.
    pub damage_count: u64,
    /// Where an unfinished write follows the last record, as a crash leaves it. Nothing acknowledged is lost.
    pub torn: Option<(PathBuf, u64)>,
}

/// Where writing goes on.
#[derive(Debug, Default)]
pub(super) struct LogEnd {
    pub(super) closed: VecDeque<Closed>,
    pub(super) last: Option<LastSegment>,
    pub(super) last_sequence: u64,
    /// The lowest that may be given out.
    pub(super) next_sequence: u64,
}

/// The segment written last.
#[derive(Debug)]
pub(super) struct LastSegment {
    pub(super) number: u64,
    /// How much of it counts.
    pub(super) length: u64,
    /// How much of it is known to have been synced.
    pub(super) synced: u64,
}

/// Calls `visit` with all records from sequence `from` on, in order. An error of `visit` ends the replay.
///
/// Damage does not: it is reported, and the replay goes on with the next record that can be read. Memory is
/// bounded by a few MB and the longest record, beyond what `visit` keeps.
pub fn replay(
    fs: &FsRef,
    dir: &Path,
    from: u64,
    visit: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<ReplayReport> {
    Ok(read(fs, dir, from, visit)?.0)
}

/// Reads the log from sequence `from` on and says what is wrong with it. Older records are of no use any more, and
/// a crash may have left segments of them, so they are not looked at.
pub fn verify(fs: &FsRef, dir: &Path, from: u64) -> Result<ReplayReport> {
    replay(fs, dir, from, &mut |_| Ok(()))
}

/// The lowest sequence that the log of a directory can still hold, by its first readable header.
pub fn first_sequence(fs: &FsRef, dir: &Path) -> Result<u64> {
    let mut unread = ReplayReport::default();
    let header = match segment::list(fs, dir)?.first() {
        Some(first) => read_header(fs, dir, *first, &mut unread)?,
        None => None,
    };
    Ok(header.map_or(1, |header| header.previous_last_sequence + 1))
}

/// What the headers of a log say without its records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogHeaders {
    /// The number of the last segment, 0 in an empty log.
    pub(crate) last_segment: u64,
    /// No manifest that belongs to the log is older than this revision.
    pub(crate) revision: u64,
}

/// Reads the headers of a log; those that are damaged are left to the replay.
pub(crate) fn headers(fs: &FsRef, dir: &Path) -> Result<LogHeaders> {
    let mut found = LogHeaders::default();
    if !fs.exists(dir)? {
        return Ok(found);
    }
    for number in segment::list(fs, dir)? {
        found.last_segment = number;
        if let Some(header) = read_header(fs, dir, number, &mut ReplayReport::default())? {
            found.revision = found.revision.max(header.revision);
        }
    }
    Ok(found)
}

impl ReplayReport {
    pub(crate) fn add_damage(&mut self, damage: Damage) {
        self.damage_count += 1;
        if self.damage.len() < MAX_DAMAGE_LISTED {
            self.damage.push(damage);
        }
    }
}

pub(super) fn read(
    fs: &FsRef,
    dir: &Path,
    from: u64,
    visit: &mut dyn FnMut(Record) -> Result<()>,
) -> Result<(ReplayReport, LogEnd)> {
    let numbers = segment::list(fs, dir)?;
    let last_segment = numbers.last().copied().unwrap_or(0);
    let mut report = ReplayReport { segments: numbers.len() as u64, last_segment, ..ReplayReport::default() };
    let mut end = LogEnd::default();
    let mut header = match numbers.first() {
        Some(&first) => read_header(fs, dir, first, &mut report)?,
        None => None,
    };
    for (index, &number) in numbers.iter().enumerate() {
        let follows = index > 0 && numbers[index - 1] + 1 == number;
        let made_length = header.map_or(0, |header: FileHeader| header.made_length);
        if let Some(header) = &header {
            // If the segment before is here, its own walk tells what it lacks.
            if !follows && header.previous_last_sequence >= from.max(end.last_sequence + 1) {
                report.add_damage(Damage {
                    file: segment::path(dir, number),
                    offset: 0,
                    message: format!(
                        "the records from {} to {} are missing with the segment before",
                        from.max(end.last_sequence + 1),
                        header.previous_last_sequence
                    ),
                });
            }
            end.last_sequence = end.last_sequence.max(header.previous_last_sequence);
            end.next_sequence = end.next_sequence.max(header.first_sequence);
        }
        let next = numbers.get(index + 1).copied();
        let next_header = match next {
            Some(next) => read_header(fs, dir, next, &mut report)?,
            None => None,
        };
        let authority = match &next_header {
            Some(next_header) if next == Some(number + 1) => Authority::Until {
                length: next_header.previous_length,
                last_sequence: next_header.previous_last_sequence,
            },
            _ => Authority::Open,
        };
        header = next_header;
        let path = segment::path(dir, number);
        if let Authority::Until { length, last_sequence } = authority
            && last_sequence < from
        {
            end.last_sequence = end.last_sequence.max(last_sequence);
            let last_sequence = end.last_sequence;
            end.closed.push_back(Closed { number, last_sequence, length, is_cut: true });
            continue;
        }
        let file = fs.open(&path, Access::Read)?;
        let length = file.length()?;
        let mut scanner = Scanner::new(file, number, end.last_sequence, authority)?;
        while let Some(scanned) = scanner.next() {
            match scanned {
                Scanned::Frame { kind: FrameKind::Record, sequence, payload } => {
                    if sequence >= from {
                        report.records += 1;
                        report.payload_bytes += payload.len() as u64;
                        visit(Record { sequence, payload })?;
                    }
                }
                Scanned::Frame { .. } => report.add_damage(Damage {
                    file: path.clone(),
                    offset: scanner.position,
                    message: "before this is a frame that does not belong in a log".to_owned(),
                }),
                Scanned::Damage(damage) => report.add_damage(damage),
            }
        }
        end.last_sequence = end.last_sequence.max(scanner.last_sequence);
        if let Authority::Until { last_sequence, .. } = authority {
            end.last_sequence = end.last_sequence.max(last_sequence);
        }
        if next.is_none() {
            // Only a segment that another one follows is ever shortened.
            if length < made_length {
                let message = format!(
                    "the file is {length} bytes long, not {made_length}: records behind {} are missing if there were any",
                    end.last_sequence
                );
                report.add_damage(Damage { file: path.clone(), offset: length, message });
            }
            if scanner.torn {
                report.torn = Some((path, scanner.position));
            }
            end.last = Some(LastSegment { number, length: scanner.position, synced: scanner.synced() });
        } else {
            end.closed.push_back(Closed {
                number,
                last_sequence: end.last_sequence,
                length: scanner.position,
                is_cut: true,
            });
        }
    }
    report.last_sequence = end.last_sequence;
    end.next_sequence = end.next_sequence.max(end.last_sequence + 1);
    Ok((report, end))
}

/// The header of a segment; nothing if it is damaged, which is reported.
fn read_header(fs: &FsRef, dir: &Path, number: u64, report: &mut ReplayReport) -> Result<Option<FileHeader>> {
    let path = segment::path(dir, number);
    let mut bytes = [0; FILE_HEADER_BYTES as usize];
    let read = fs.open(&path, Access::Read)?.read_exact_at(&mut bytes, 0);
    let message = match read {
        Ok(()) => match FileHeader::decode(&bytes, segment::MAGIC, number)? {
            Ok(header) => return Ok(Some(header)),
            Err(message) => message,
        },
        Err(error) => error.message().to_owned(),
    };
    report.add_damage(Damage { file: path, offset: 0, message });
    Ok(None)
}

/// Reads arbitrary bytes as the first segment of a log: what a fuzzer calls. No bytes are a panic.
pub fn decode(bytes: &[u8]) -> Result<ReplayReport> {
    let fs = SimulatedFs::new();
    let dir = Path::new("");
    fs.open(&segment::path(dir, 1), Access::Create)?.write_at(bytes, 0)?;
    let fs: FsRef = Arc::new(fs);
    verify(&fs, dir, 1)
}
