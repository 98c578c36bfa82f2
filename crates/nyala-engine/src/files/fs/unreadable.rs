//! Reading around sectors that the disk cannot read.

use super::FileRef;
use std::ops::Range;

/// Bytes that are given up at once.
const SECTOR_BYTES: u64 = 4096;

/// What the disk could not read of a file.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    /// Ascending, as far as it was read so.
    pub(crate) places: Vec<Range<u64>>,
    /// What the disk said last.
    pub(crate) error: String,
}

impl Unreadable {
    /// Fills a buffer from an offset, as far as the file goes, and notes what cannot be read: there the buffer has zeros.
    /// Returns how many bytes it has then. The file has so many, if a part of them cannot be read.
    pub(crate) fn read_at(&mut self, file: &FileRef, buffer: &mut [u8], offset: u64) -> usize {
        file.read_at(buffer, offset).unwrap_or_else(|_| self.read_sectors(file, buffer, offset))
    }

    fn read_sectors(&mut self, file: &FileRef, buffer: &mut [u8], offset: u64) -> usize {
        let mut start = 0;
        while start < buffer.len() {
            let at = offset + start as u64;
            let until = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
            let end = buffer.len().min((until - offset) as usize);
            if let Err(error) = file.read_at(&mut buffer[start..end], at) {
                buffer[start..end].fill(0);
                self.error = error.to_string();
                let piece = at..offset + end as u64;
                match self.places.last_mut() {
                    Some(last) if last.end == piece.start => last.end = piece.end,
                    _ => self.places.push(piece),
                }
            }
            start = end;
        }
        buffer.len()
    }

    /// The parts of a range that could be read.
    pub(crate) fn readable(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut parts, mut start) = (Vec::new(), range.start);
        for place in self.places.iter().filter(|place| place.end > range.start && place.start < range.end) {
            parts.push(start..place.start);
            start = place.end;
        }
        parts.push(start..range.end);
        parts.retain(|part| part.start < part.end);
        parts
    }
}
