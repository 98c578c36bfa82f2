//! Walking the frames of a file, telling damage from a torn tail, and going on behind damage.
//!
//! Memory is bounded by a chunk and the largest frame. Payloads are handed out as slices of the chunk they were
//! read with, without a copy.

use bytes::Bytes;
use nyala_core::Result;

use super::Damage;
use super::frame::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, frame_bytes};
use crate::files::fs::{FileRef, Unreadable};

/// Bytes read at once: so many that reading the last frame of a chunk twice costs little.
const CHUNK_BYTES: u64 = 2 << 20;
/// Bytes skipped at once where nothing was written.
const BLANK: [u8; 1024] = [0; 1024];

/// What says where the file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    /// The header of the next file: here, with this record. Anything less is damage.
    Until { length: u64, last_sequence: u64 },
    /// The chain itself: it ends where it breaks, unless a later frame says that more had been synced.
    Open,
}

/// What a scan found.
#[derive(Debug)]
pub(crate) enum Scanned {
    Frame { kind: FrameKind, sequence: u64, payload: Bytes },
    Damage(Damage),
}

/// A walk over the frames of one file.
#[derive(Debug)]
pub(crate) struct Scanner {
    file: FileRef,
    number: u64,
    authority: Authority,
    /// No byte at or behind this offset is looked at.
    limit: u64,
    /// Where the next frame belongs; after the walk the end of what counts.
    pub(crate) position: u64,
    /// The sequence of the last frame.
    pub(crate) last_sequence: u64,
    /// The furthest that any frame says had been synced.
    synced: u64,
    /// Whether something unfinished follows the end: a write that was not synced when the power went.
    pub(crate) torn: bool,
    done: bool,
    chunk: Bytes,
    chunk_offset: u64,
    unreadable: Unreadable,
}

enum At {
    Frame(FrameHeader, Bytes),
    End(FrameHeader),
    Broken {
        what: String,
        /// Where the next frame can start at the earliest.
        resume: u64,
    },
}

impl Scanner {
    /// A walk from the first frame. Sequences up to `last_sequence` were used before this file.
    pub(crate) fn new(file: FileRef, number: u64, last_sequence: u64, authority: Authority) -> Result<Self> {
        let length = file.length()?;
        let limit = match authority {
            Authority::Until { length: declared, .. } => length.min(declared),
            Authority::Open => length,
        };
        Ok(Self {
            file,
            number,
            authority,
            limit,
            position: FILE_HEADER_BYTES,
            last_sequence,
            synced: FILE_HEADER_BYTES,
            torn: false,
            done: false,
            chunk: Bytes::new(),
            chunk_offset: 0,
            unreadable: Unreadable::default(),
        })
    }

    /// How far the file was surely synced.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.min(self.position)
    }

    /// The next frame or damage; nothing at the end.
    pub(crate) fn next(&mut self) -> Option<Scanned> {
        if self.done {
            return None;
        }
        if let Authority::Until { length, last_sequence } = self.authority
            && self.position >= length
        {
            self.done = true;
            if self.last_sequence == last_sequence {
                return None;
            }
            let what = format!("the file ends with record {}, not {last_sequence}", self.last_sequence);
            return Some(Scanned::Damage(self.damage(self.position, what)));
        }
        match self.at(self.position) {
            At::Frame(header, payload) => {
                self.position += frame_bytes(u64::from(header.length));
                self.last_sequence = header.sequence;
                self.synced = self.synced.max(u64::from(header.synced_length));
                Some(Scanned::Frame { kind: header.kind, sequence: header.sequence, payload })
            }
            At::End(header) => {
                self.last_sequence = header.sequence;
                self.synced = self.synced.max(self.position);
                // A later frame can claim more only if this mark should have been overwritten and was not.
                self.broken(
                    "a write after the end mark is missing".to_owned(),
                    self.position + FRAME_HEADER_BYTES,
                )
            }
            At::Broken { what, resume } => self.broken(what, resume),
        }
    }

    /// Decides what a break of the chain is, and finds where it goes on.
    fn broken(&mut self, what: String, resume: u64) -> Option<Scanned> {
        let broken_at = self.position;
        let ends = self.authority == Authority::Open;
        let (next, proven) = self.find(resume, broken_at);
        let unreadable = self.unreadable.places.iter().any(|range| range.end > broken_at);
        if ends && !proven && !unreadable {
            self.torn = next.is_some() || !self.is_blank(broken_at);
            self.done = true;
            return None;
        }
        let what = if unreadable { format!("{what}; {}", self.unreadable.error) } else { what };
        let what = match next {
            Some(offset) => {
                self.position = offset;
                format!("{what}; what was written up to byte {offset} is lost")
            }
            None => {
                // Declared as counting, so that the damage is reported again by the next walk.
                self.position = self.limit.max(broken_at);
                self.done = true;
                format!("{what}; what was written behind is lost")
            }
        };
        Some(Scanned::Damage(self.damage(broken_at, what)))
    }

    fn damage(&self, offset: u64, message: String) -> Damage {
        Damage { file: self.file.path().to_path_buf(), offset, message }
    }

    /// Nothing or an end mark is here.
    fn is_blank(&mut self, offset: u64) -> bool {
        let bytes = self.view(offset, FRAME_HEADER_BYTES);
        bytes.iter().all(|byte| *byte == 0) || self.header_at(&bytes, offset).is_some()
    }

    /// What is at an offset where a frame should be.
    fn at(&mut self, offset: u64) -> At {
        let bytes = self.view(offset, FRAME_HEADER_BYTES);
        let Some(header) = self.header_at(&bytes, offset) else {
            let what = if bytes.len() < FRAME_HEADER_BYTES as usize {
                "the file ends too early"
            } else {
                "the frame header is not valid"
            };
            return At::Broken { what: what.to_owned(), resume: offset + 8 };
        };
        if header.kind == FrameKind::End {
            return At::End(header);
        }
        let length = u64::from(header.length);
        let end = offset + frame_bytes(length);
        let broken = |what: &str| At::Broken {
            what: format!("record {} {what}", header.sequence),
            // The header is whole, so the next frame starts behind this one and nothing inside is one.
            resume: end,
        };
        if end > self.limit {
            return broken("is cut off");
        }
        let frame = self.view(offset, end - offset);
        if (frame.len() as u64) < end - offset {
            return broken("is cut off");
        }
        let payload = frame.slice(FRAME_HEADER_BYTES as usize..(FRAME_HEADER_BYTES + length) as usize);
        if crc32fast::hash(&payload) != header.payload_crc {
            return broken("does not match its checksum");
        }
        if frame[(FRAME_HEADER_BYTES + length) as usize..].iter().any(|byte| *byte != 0) {
            return broken("is not followed by zeros");
        }
        At::Frame(header, payload)
    }

    /// A frame header that can follow in this file at this offset.
    fn header_at(&self, bytes: &[u8], offset: u64) -> Option<FrameHeader> {
        let header = FrameHeader::decode(bytes, self.number)?;
        let synced = u64::from(header.synced_length);
        let fits = match header.kind {
            FrameKind::End => header.length == 0 && synced == offset && header.sequence >= self.last_sequence,
            FrameKind::Record | FrameKind::Checkpoint => {
                (FILE_HEADER_BYTES..=offset).contains(&synced) && header.sequence > self.last_sequence
            }
        };
        fits.then_some(header)
    }

    /// The first frame from `from` on, and whether the file is known to have been synced past `broken_at`.
    fn find(&mut self, from: u64, broken_at: u64) -> (Option<u64>, bool) {
        let open = self.authority == Authority::Open;
        let mut first = None;
        let mut proven = !open || self.synced > broken_at;
        let mut offset = from;
        while offset + FRAME_HEADER_BYTES <= self.limit {
            if first.is_some() && proven {
                break;
            }
            let window = self.view(offset, FRAME_HEADER_BYTES);
            if window.len() < FRAME_HEADER_BYTES as usize {
                break;
            }
            // All starts in what is in memory, without going through `view` for each.
            let window = self.chunk.slice((offset - self.chunk_offset) as usize..);
            let mut next = 0;
            while next + FRAME_HEADER_BYTES as usize <= window.len() {
                // Mostly what was preallocated. A header's first eight bytes are not all zeros.
                if window.get(next..next + BLANK.len()) == Some(&BLANK) {
                    next += BLANK.len();
                    continue;
                }
                let (start, here) = (next, offset + next as u64);
                next += 8;
                let Some(header) = self.header_at(&window[start..], here) else { continue };
                // An end mark in the middle of a finished file is one that should have been overwritten.
                if header.kind == FrameKind::End && !open {
                    continue;
                }
                self.synced = self.synced.max(u64::from(header.synced_length));
                first.get_or_insert(here);
                proven |= self.synced > broken_at;
                if proven {
                    break;
                }
            }
            offset += (window.len() as u64 - FRAME_HEADER_BYTES) / 8 * 8 + 8;
        }
        (first, proven)
    }

    /// Up to `wanted` bytes from `offset`; fewer only at the limit.
    fn view(&mut self, offset: u64, wanted: u64) -> Bytes {
        let wanted = wanted.min(self.limit.saturating_sub(offset));
        let in_chunk =
            offset.checked_sub(self.chunk_offset).map_or(u64::MAX, |skip| skip.saturating_add(wanted));
        if in_chunk > self.chunk.len() as u64 {
            self.load(offset, wanted);
        }
        let start = ((offset - self.chunk_offset) as usize).min(self.chunk.len());
        let end = (start + wanted as usize).min(self.chunk.len());
        self.chunk.slice(start..end)
    }

    fn load(&mut self, offset: u64, wanted: u64) {
        let length = wanted.max(CHUNK_BYTES).min(self.limit.saturating_sub(offset));
        let mut buffer = vec![0; length as usize];
        let read = self.unreadable.read_at(&self.file, &mut buffer, offset);
        buffer.truncate(read);
        self.file.prefetch(offset + length, CHUNK_BYTES);
        self.chunk = Bytes::from(buffer);
        self.chunk_offset = offset;
    }
}
