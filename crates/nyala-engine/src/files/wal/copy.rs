//! Copies a part of the log while it is written.
//!
//! Only closed segments are read: how much of them counts is known, so anything that cannot be read is damage. The copy is a
//! log of its own, with its own numbers of segments and the sequences that the records have.

use super::MAX_PAYLOAD_BYTES;
use super::segment::{self, Closed};
use crate::files::framed_log::{
    Authority, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, MAX_FILE_BYTES,
    Scanned, Scanner, frame_bytes, padding,
};
use crate::files::fs::{Access, FileRef, FsRef};
use nyala_core::{Error, Result};
use std::io::IoSlice;
use std::ops::RangeInclusive;
use std::path::Path;

/// A segment of the copy ends before it is so long: whatever record comes, its offsets have 32 bits.
const SEGMENT_BYTES_MAX: u64 = MAX_FILE_BYTES - 2 * MAX_PAYLOAD_BYTES;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopiedLog {
    /// The number of the last segment, 0 if there was no record.
    pub(crate) segment: u64,
    /// The last record.
    pub(crate) last_sequence: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// Copies the records of these sequences. Both directories exist, and the new one is empty. What was written is on disk when
/// this returns, but for its names.
pub(super) fn copy(
    fs: &FsRef,
    (dir, closed): (&Path, &[Closed]),
    new_dir: &Path,
    sequences: RangeInclusive<u64>,
    revision: u64,
) -> Result<CopiedLog> {
    let mut copied = CopiedLog { last_sequence: sequences.start().saturating_sub(1), ..CopiedLog::default() };
    let mut output: Option<Output> = None;
    let mut previous_last = 0;
    for &Closed { number, last_sequence, length, .. } in closed {
        let before = std::mem::replace(&mut previous_last, last_sequence);
        if last_sequence < *sequences.start() || before >= *sequences.end() {
            continue;
        }
        let file = fs.open(&segment::path(dir, number), Access::Read)?;
        let mut scanner = Scanner::new(file, number, before, Authority::Until { length, last_sequence })?;
        while let Some(scanned) = scanner.next() {
            let (sequence, payload) = match scanned {
                Scanned::Frame { kind: FrameKind::Record, sequence, payload } => (sequence, payload),
                Scanned::Frame { .. } => {
                    let words = "before this is a frame that does not belong in a log";
                    return Err(Error::corrupt(segment::path(dir, number), scanner.position, words));
                }
                Scanned::Damage(damage) => return Err(damage.into()),
            };
            if !sequences.contains(&sequence) {
                continue;
            }
            if output.as_ref().is_none_or(|output| output.length > SEGMENT_BYTES_MAX) {
                let previous = output.take().map(Output::end).transpose()?;
                output = Some(Output::begin(fs, new_dir, &copied, previous, revision)?);
            }
            let output = output.as_mut().expect("was just begun");
            output.write(FrameKind::Record, sequence, &payload)?;
            copied.segment = output.header.number;
            copied.last_sequence = sequence;
            copied.records += 1;
            copied.bytes += frame_bytes(payload.len() as u64);
        }
    }
    if let Some(output) = output {
        output.end()?;
    }
    Ok(copied)
}

/// A segment of the copy.
struct Output {
    file: FileRef,
    header: FileHeader,
    length: u64,
    last_sequence: u64,
}

impl Output {
    fn begin(
        fs: &FsRef,
        dir: &Path,
        copied: &CopiedLog,
        previous_length: Option<u64>,
        revision: u64,
    ) -> Result<Self> {
        let header = FileHeader {
            magic: segment::MAGIC,
            number: copied.segment + 1,
            first_sequence: copied.last_sequence + 1,
            previous_length: previous_length.unwrap_or(0),
            previous_last_sequence: copied.last_sequence,
            revision,
            made_length: 0,
        };
        let file = fs.open(&segment::path(dir, header.number), Access::Create)?;
        Ok(Self { file, header, length: FILE_HEADER_BYTES, last_sequence: copied.last_sequence })
    }

    /// Writes a frame. All that was before counts as synced, because it is before anybody reads this.
    fn write(&mut self, kind: FrameKind, sequence: u64, payload: &[u8]) -> Result<()> {
        let header = FrameHeader {
            kind,
            length: payload.len() as u32,
            sequence,
            number: self.header.number as u32,
            synced_length: self.length as u32,
            payload_crc: if payload.is_empty() { 0 } else { crc32fast::hash(payload) },
        }
        .encode();
        let zeros = padding(payload.len() as u64);
        let mut slices = [IoSlice::new(&header), IoSlice::new(payload), IoSlice::new(zeros)];
        self.file.write_slices_at(&mut slices, self.length)?;
        self.length += frame_bytes(payload.len() as u64);
        self.last_sequence = sequence;
        Ok(())
    }

    /// Ends the segment, and returns how much of it counts for the next one.
    fn end(mut self) -> Result<u64> {
        let length = self.length;
        self.write(FrameKind::End, self.last_sequence, &[])?;
        let header = FileHeader { made_length: length + FRAME_HEADER_BYTES, ..self.header };
        self.file.write_at(&header.encode(), 0)?;
        self.file.sync_all()?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SyncPolicy, Wal, WalOptions};
    use super::*;
    use crate::files::fs::{FileSystem, SimulatedFs};
    use bytes::Bytes;
    use std::sync::Arc;

    const NEW: &str = "/new";

    fn payload(number: u64) -> Bytes {
        vec![number as u8; 1 + (number as usize * 7919) % 9000].into()
    }

    /// A log of several segments with records 1 to 400, and more that are written meanwhile.
    fn log(fs: &SimulatedFs) -> Result<Wal> {
        for dir in ["/log", NEW] {
            fs.create_dir(Path::new(dir))?;
        }
        let options =
            WalOptions { segment_bytes: 1 << 17, sync: SyncPolicy::Always, ..WalOptions::default() };
        let (wal, _) = Wal::open(Arc::new(fs.clone()), Path::new("/log"), options, 1, &mut |_| Ok(()))?;
        for number in 1..=400 {
            wal.append(vec![payload(number)])?;
        }
        Ok(wal)
    }

    /// The records from a sequence on, and whether nothing is wrong with them.
    fn replayed(fs: &FsRef, from: u64) -> Result<(Vec<(u64, Bytes)>, bool)> {
        let mut found = Vec::new();
        let report = super::super::replay(fs, Path::new(NEW), from, &mut |record| {
            found.push((record.sequence, record.payload));
            Ok(())
        })?;
        Ok((found, report.damage_count == 0 && report.torn.is_none()))
    }

    #[test]
    fn a_copy_has_the_records_that_were_asked_for() -> Result<()> {
        for sequences in [1..=400, 37..=200, 400..=400, RangeInclusive::new(401, 400), 1..=1, 300..=500] {
            let fs = SimulatedFs::new();
            let wal = log(&fs)?;
            let copied = wal.copy(Path::new(NEW), sequences.clone(), 9)?;
            // What is written after it does not matter.
            wal.append(vec![payload(401)])?;
            let shared: FsRef = Arc::new(fs.snapshot());
            let (found, is_sound) = replayed(&shared, *sequences.start())?;
            assert!(is_sound, "{sequences:?}");
            let expected: Vec<_> = sequences
                .clone()
                .filter(|number| *number <= 400)
                .map(|number| (number, payload(number)))
                .collect();
            assert!(found == expected, "{sequences:?}: {} records", found.len());
            assert_eq!(copied.records, expected.len() as u64);
            assert_eq!(copied.segment, u64::from(!expected.is_empty()));
        }
        Ok(())
    }

    #[test]
    fn a_log_is_opened_behind_its_copy() -> Result<()> {
        let fs = SimulatedFs::new();
        log(&fs)?.copy(Path::new(NEW), 10..=20, 9)?;
        let mut found = Vec::new();
        let (wal, report) =
            Wal::open(Arc::new(fs), Path::new(NEW), WalOptions::default(), 10, &mut |record| {
                found.push(record.sequence);
                Ok(())
            })?;
        assert_eq!((found, report.damage, report.torn), ((10..=20).collect(), vec![], None));
        assert_eq!(wal.append(vec![payload(1)])?, 21);
        Ok(())
    }

    #[test]
    fn every_bit_of_a_copy_counts() -> Result<()> {
        let fs = SimulatedFs::new();
        log(&fs)?.copy(Path::new(NEW), 10..=12, 9)?;
        let path = segment::path(Path::new(NEW), 1);
        let length = fs.open(&path, Access::Read)?.length()?;
        for byte in (0..length).step_by(101).chain(length - 64..length) {
            let rotten = fs.snapshot();
            rotten.flip_bit(&path, byte * 8)?;
            let rotten: FsRef = Arc::new(rotten);
            // What is not noticed changed nothing: it was the padding of a frame.
            if let Ok((found, true)) = replayed(&rotten, 10) {
                assert!(found.iter().map(|record| record.0).eq(10..=12), "byte {byte} of {length}");
                assert!(found.iter().all(|(number, read)| *read == payload(*number)));
            }
        }
        Ok(())
    }

    #[test]
    fn damage_of_the_log_is_not_copied() -> Result<()> {
        let fs = SimulatedFs::new();
        let wal = log(&fs)?;
        fs.flip_bit(&segment::path(Path::new("/log"), 2), 3000)?;
        let error = wal.copy(Path::new(NEW), 1..=400, 9).expect_err("is damaged");
        assert_eq!(error.kind(), nyala_core::ErrorKind::Corrupt, "{error}");
        Ok(())
    }
}
