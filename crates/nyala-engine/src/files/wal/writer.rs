//! The steps of the log on disk, without threads.
//!
//! A segment is *usable* until a write or sync in it fails. What is behind its synced length is in doubt then, and
//! stays so: after a failed sync no later one can tell. So nothing more is written there; the next segment's
//! header says that it counts up to what was synced, and only then are writes acknowledged again.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nyala_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::Progress;
use super::WalOptions;
use super::queue::Entry;
use super::replay::LogEnd;
use super::segment::{self, Closed, Segments};
use super::stats::{Counters, add};
use crate::files::framed_log::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, frame_bytes, padding,
};
use crate::files::fs::{Access, FileRef, FsRef, Unreadable};

/// Bytes that are copied at once of a tail that may not be on disk.
const REWRITE_BYTES: u64 = 1 << 20;

/// The writing end of the log.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) segments: Arc<Mutex<Segments>>,
    counters: Arc<Counters>,
    progress: Arc<Progress>,
    /// The segment written last; none in a new log.
    active: Option<Active>,
    /// The last sequence that is surely on disk, in whichever segment.
    synced_sequence: u64,
    /// Whether records may be written behind what is in the active segment.
    usable: bool,
    /// How long the last sync took.
    last_sync: Duration,
}

#[derive(Debug)]
struct Active {
    file: FileRef,
    number: u64,
    capacity: u64,
    /// Where the next frame goes.
    length: u64,
    synced_length: u64,
    /// The last sequence written.
    last_sequence: u64,
    /// Records acknowledged since the last sync.
    acknowledged: u64,
    /// An end mark is at `length`.
    marked: bool,
}

impl Writer {
    /// Takes over a log that was read to its end. The first write begins a new segment: so a log opens on a full
    /// disk too, and what a crash left behind the last record is cut off by the new header.
    pub(super) fn open(
        fs: FsRef,
        dir: &Path,
        options: &WalOptions,
        end: LogEnd,
        counters: Arc<Counters>,
    ) -> Result<Self> {
        let LogEnd { closed, last, last_sequence, .. } = end;
        let progress = options.progress.clone();
        let mut segments = Segments::open(fs.clone(), dir, options, closed)?;
        let active = match last {
            None => None,
            Some(last) => {
                let file = fs.open(&segment::path(dir, last.number), Access::Write)?;
                make_durable(&file, last.synced, last.length)?;
                segments.set_active_bytes(last.length);
                progress.begun(last.number);
                Some(Active {
                    capacity: file.length()?,
                    file,
                    number: last.number,
                    length: last.length,
                    synced_length: last.length,
                    last_sequence,
                    acknowledged: 0,
                    marked: false,
                })
            }
        };
        let segments = Arc::new(Mutex::new(segments));
        progress.synced(last_sequence);
        Ok(Self {
            segments,
            counters,
            progress,
            active,
            synced_sequence: last_sequence,
            usable: false,
            last_sync: Duration::ZERO,
        })
    }

    /// How long the last sync took.
    pub(super) fn last_sync(&self) -> Duration {
        self.last_sync
    }

    /// Bytes that can be written before the next segment must be begun.
    pub(super) fn room(&self) -> u64 {
        match &self.active {
            Some(active) if self.usable => active.capacity - active.length,
            _ => 0,
        }
    }

    /// Begins the next segment, with room for a frame of `bytes`. Nothing was stored if this fails.
    pub(super) fn begin_next(&mut self, first_sequence: u64, bytes: u64) -> Result<()> {
        if self.usable {
            // The next header vouches for this segment.
            self.sync()?;
        }
        let is_cut = !self.usable;
        self.usable = false;
        let (number, previous_length) =
            self.active.as_ref().map_or((0, 0), |active| (active.number, active.synced_length));
        let header = FileHeader {
            magic: segment::MAGIC,
            number: number + 1,
            first_sequence,
            previous_length,
            previous_last_sequence: self.synced_sequence,
            revision: self.progress.revision(),
            made_length: 0,
        };
        let mut segments = self.segments.lock();
        let file = segments.begin(&header, FILE_HEADER_BYTES + bytes)?;
        let capacity = file.length()?;
        if let Some(old) = self.active.take() {
            let last_sequence = self.synced_sequence;
            segments.close(Closed { number, last_sequence, length: previous_length, is_cut });
            if old.capacity.saturating_sub(previous_length) > old.capacity / 8 {
                // Gives back space. The segment ends there by the new header whether this succeeds or not.
                let _ = old.file.truncate(previous_length);
            }
        }
        segments.set_active_bytes(FILE_HEADER_BYTES);
        add(&self.counters.segments_begun, 1);
        self.progress.begun(header.number);
        self.active = Some(Active {
            file,
            number: header.number,
            capacity,
            length: FILE_HEADER_BYTES,
            synced_length: FILE_HEADER_BYTES,
            last_sequence: self.synced_sequence,
            acknowledged: 0,
            marked: false,
        });
        self.usable = true;
        Ok(())
    }

    /// Begins a new segment unless the active one can be written.
    pub(super) fn reopen(&mut self, next_sequence: u64) -> Result<()> {
        if self.usable {
            return Ok(());
        }
        self.begin_next(next_sequence, 0)
    }

    /// Begins a new segment unless nothing is in the active one. What was written before is in closed segments then.
    pub(super) fn close_segment(&mut self) -> Result<()> {
        let Some(active) = &self.active else { return Ok(()) };
        if self.usable && active.length == FILE_HEADER_BYTES {
            return Ok(());
        }
        if self.usable {
            self.sync()?;
        }
        // Records may wait already: none has a lower sequence.
        self.begin_next(self.synced_sequence + 1, 0)
    }

    /// Gives back the space of a log that nothing is written to: spares, and the active segment if it is longer than
    /// `small_bytes`.
    pub(super) fn rest(&mut self, small_bytes: u64) -> Result<()> {
        self.segments.lock().shrink()?;
        let is_long = self.active.as_ref().is_some_and(|active| active.capacity > small_bytes);
        if !(self.usable && is_long) {
            return Ok(());
        }
        self.sync()?;
        // Records may wait already: none has a lower sequence.
        self.begin_next(self.synced_sequence + 1, 0)
    }

    /// Writes a group behind the last record; there must be room. If it fails, the error's kind says whether
    /// the outcome is unknown or nothing was stored.
    pub(super) fn write(&mut self, entries: &[Entry]) -> Result<()> {
        let active = self.active.as_mut().expect("a write follows the beginning of a segment");
        assert!(self.usable, "nothing is written behind what is in doubt");
        let synced_length = active.synced_length as u32;
        let headers: Vec<_> = entries
            .iter()
            .map(|entry| {
                FrameHeader {
                    kind: FrameKind::Record,
                    length: entry.length as u32,
                    sequence: entry.sequence,
                    number: active.number as u32,
                    synced_length,
                    payload_crc: entry.crc,
                }
                .encode()
            })
            .collect();
        let mut slices = Vec::with_capacity(entries.len() * 3);
        for (entry, header) in entries.iter().zip(&headers) {
            slices.push(IoSlice::new(header));
            slices.extend(entry.parts.iter().map(|part| IoSlice::new(part)));
            slices.push(IoSlice::new(padding(entry.length)));
        }
        let bytes: u64 = entries.iter().map(|entry| frame_bytes(entry.length)).sum();
        assert!(active.length + bytes <= active.capacity, "a group fits its segment");
        let last_sequence = entries.last().map_or(active.last_sequence, |entry| entry.sequence);
        active.marked = false;
        if let Err(error) = active.file.write_slices_at(&mut slices, active.length) {
            add(&self.counters.failed_writes, 1);
            tracing::error!(%error, "writing the log failed");
            return Err(self.erase(&error));
        }
        active.length += bytes;
        active.last_sequence = last_sequence;
        add(&self.counters.groups, 1);
        add(&self.counters.written_bytes, bytes);
        self.segments.lock().set_active_bytes(active.length);
        Ok(())
    }

    /// After a failed write: destroys the first header of what may have been written, so that the outcome is
    /// known. The segment is given up in any case, for what follows that header is still there.
    fn erase(&mut self, error: &Error) -> Error {
        let active = self.active.as_mut().expect("a write failed in it");
        let erased = active.file.write_at(&[0; FRAME_HEADER_BYTES as usize], active.length);
        let synced = active.file.sync_data();
        self.usable = false;
        match erased.and(synced) {
            Ok(()) => {
                active.synced_length = active.length;
                active.acknowledged = 0;
                self.synced_sequence = active.last_sequence;
                self.progress.synced(self.synced_sequence);
                Error::retry(format!("the log cannot be written now, nothing was stored: {error}"))
            }
            Err(_) => {
                add(&self.counters.doubtful_records, active.acknowledged);
                Error::new(ErrorKind::Unknown, format!("writing to the log failed: {error}"))
            }
        }
    }

    /// Counts records that were acknowledged, for the case that a later sync of them fails.
    pub(super) fn acknowledged(&mut self, records: u64) {
        if let Some(active) = &mut self.active
            && active.synced_length < active.length
        {
            active.acknowledged += records;
        }
    }

    /// Puts what was written on disk.
    pub(super) fn sync(&mut self) -> Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        if active.synced_length == active.length {
            return Ok(());
        }
        if !self.usable {
            return Err(Error::new(ErrorKind::Unknown, "an earlier sync of the log failed"));
        }
        let started = Instant::now();
        match active.file.sync_data() {
            Ok(()) => {
                self.last_sync = started.elapsed();
                self.counters.synced(self.last_sync);
                active.synced_length = active.length;
                active.acknowledged = 0;
                self.synced_sequence = active.last_sequence;
                self.progress.synced(self.synced_sequence);
                Ok(())
            }
            Err(error) => {
                self.usable = false;
                add(&self.counters.failed_syncs, 1);
                tracing::error!(%error, "syncing the log failed: the outcome of its last writes is unknown");
                add(&self.counters.doubtful_records, active.acknowledged);
                Err(Error::new(ErrorKind::Unknown, format!("syncing the log failed: {error}")))
            }
        }
    }

    /// Writes an end mark behind the last record: everything before it was synced, so bytes that rot later are not
    /// taken for a torn tail. Not synced itself, and overwritten by the next record.
    pub(super) fn mark_end(&mut self) {
        let Some(active) = &mut self.active else { return };
        let settled =
            self.usable && active.synced_length == active.length && active.length > FILE_HEADER_BYTES;
        if settled && !active.marked {
            let mark = FrameHeader {
                kind: FrameKind::End,
                length: 0,
                sequence: active.last_sequence,
                number: active.number as u32,
                synced_length: active.length as u32,
                payload_crc: 0,
            };
            // Without it the log is as safe, and only less sure of what it reads.
            active.marked = active.file.write_at(&mark.encode(), active.length).is_ok();
        }
    }

    /// Leaves the log so that everything in it is known to have been synced.
    pub(super) fn close(&mut self) {
        // A failure here affects only the mark and what was acknowledged under a relaxed policy; the next start handles
        // it.
        if self.sync().is_ok() {
            self.mark_end();
            if let Some(active) = &self.active {
                let _ = active.file.sync_data();
            }
        }
    }
}

/// Data behind the last sync was perhaps read from the page cache only: a process that was killed had not synced it, or
/// its sync failed and the pages count as clean. Writing it again makes sure that it is on disk before the next header
/// vouches for it. What cannot be read was reported as lost, and is left as it is: another start may be able to.
fn make_durable(file: &FileRef, from: u64, to: u64) -> Result<()> {
    let mut offset = from;
    let mut buffer = Vec::new();
    while offset < to {
        buffer.resize((to - offset).min(REWRITE_BYTES) as usize, 0);
        let mut unreadable = Unreadable::default();
        let end = offset + unreadable.read_at(file, &mut buffer, offset) as u64;
        for part in unreadable.readable(offset..end) {
            let bytes = (part.start - offset) as usize..(part.end - offset) as usize;
            file.write_at(&buffer[bytes], part.start)?;
        }
        if end - offset < buffer.len() as u64 {
            return Err(Error::corrupt(file.path(), end, "the file ends before what was read of it"));
        }
        offset = end;
    }
    file.sync_data()
}
