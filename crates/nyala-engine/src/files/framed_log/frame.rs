//! The bytes of file headers and frame headers.
//!
//! ```text
//! file header (64 bytes)              frame header (32 bytes), then payload, then zeros to a multiple of 8
//!  0 magic            8                0 payload length     4
//!  8 format version   4                4 kind               1, then 3 zeros
//! 12 zeros            4                8 sequence           8
//! 16 file number      8               16 file number        4 (its low half)
//! 24 first sequence   8               20 synced length      4
//! 32 previous length  8               24 payload CRC-32     4
//! 40 previous last    8               28 header CRC-32      4 (of the 28 bytes before)
//! 48 revision         8
//! 56 made length      4
//! 60 CRC-32           4 (of the 60 bytes before)
//! ```
//!
//! Frames start at multiples of 8, so looking for one after damage takes an eighth of the tries.

use crate::rows::wire::{u32_at, u64_at};
use nyala_core::{Error, Result};

/// Length of a file header; the first frame follows.
pub(crate) const FILE_HEADER_BYTES: u64 = 64;
/// Length of a frame header.
pub(crate) const FRAME_HEADER_BYTES: u64 = 32;
/// Offsets in frames have 32 bits.
pub(crate) const MAX_FILE_BYTES: u64 = u32::MAX as u64;
/// The version of the format that is written. Version 1 has zeros for what headers say since.
pub(crate) const VERSION: u32 = 2;
const ALIGNMENT: u64 = 8;

/// The head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// What kind of file.
    pub(crate) magic: [u8; 8],
    /// Its number, as in its name; from 1.
    pub(crate) number: u64,
    /// No frame in it has a lower sequence.
    pub(crate) first_sequence: u64,
    /// How much of the previous file counts: what is behind was never acknowledged. 0 without a previous file.
    pub(crate) previous_length: u64,
    /// The last sequence in all files before.
    pub(crate) previous_last_sequence: u64,
    /// In a log: the revision of the manifest when the file was begun. A manifest with a lower revision has lost its
    /// end.
    pub(crate) revision: u64,
    /// How long the file was made before it got its name. It is never shorter while it is the last one. 0: not known.
    pub(crate) made_length: u64,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A record of the log or an edit of the manifest.
    Record,
    /// Nothing follows, and everything before was synced.
    End,
    /// The whole state of a manifest.
    Checkpoint,
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    pub(crate) length: u32,
    pub(crate) sequence: u64,
    pub(crate) number: u32,
    pub(crate) synced_length: u32,
    pub(crate) payload_crc: u32,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_BYTES as usize] {
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&self.magic);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous_length.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous_last_sequence.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.revision.to_le_bytes());
        bytes[56..60].copy_from_slice(&(self.made_length as u32).to_le_bytes());
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The version in the header of such a file, known or not; nothing if the header is damaged.
    pub(crate) fn version(bytes: &[u8; FILE_HEADER_BYTES as usize], magic: [u8; 8]) -> Option<u32> {
        let is_whole = bytes[..8] == magic && crc32fast::hash(&bytes[..60]) == u32_at(bytes, 60);
        is_whole.then(|| u32_at(bytes, 8))
    }

    /// The header, or what is wrong with it. A version that is not known, in a header that matches its checksum,
    /// is a newer program's and no damage: that is the outer error.
    pub(crate) fn decode(
        bytes: &[u8; FILE_HEADER_BYTES as usize],
        magic: [u8; 8],
        number: u64,
    ) -> Result<std::result::Result<Self, String>> {
        if crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return Ok(Err("the file header does not match its checksum".to_owned()));
        }
        if bytes[..8] != magic {
            return Ok(Err("the file header is of another kind of file".to_owned()));
        }
        let version = u32_at(bytes, 8);
        if !(1..=VERSION).contains(&version) {
            return Err(Error::unsupported(format!(
                "the data is of another program version: log format {version}, this program knows {VERSION}"
            )));
        }
        let header = Self {
            magic,
            number: u64_at(bytes, 16),
            first_sequence: u64_at(bytes, 24),
            previous_length: u64_at(bytes, 32),
            previous_last_sequence: u64_at(bytes, 40),
            revision: u64_at(bytes, 48),
            made_length: u32_at(bytes, 56).into(),
        };
        if header.number != number {
            return Ok(Err(format!("the file header has number {}, the name {number}", header.number)));
        }
        Ok(Ok(header))
    }
}

impl FrameHeader {
    pub(crate) fn encode(&self) -> [u8; FRAME_HEADER_BYTES as usize] {
        let mut bytes = [0; FRAME_HEADER_BYTES as usize];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4] = match self.kind {
            FrameKind::Record => 1,
            FrameKind::End => 2,
            FrameKind::Checkpoint => 3,
        };
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.synced_length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header of a frame of the file with this number, if these bytes are one.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> Option<Self> {
        let bytes: &[u8; FRAME_HEADER_BYTES as usize] = bytes.first_chunk()?;
        // Cheap and nearly always decisive where frames are looked for in zeros or in what a reused file held.
        if u32_at(bytes, 16) != number as u32 {
            return None;
        }
        let kind = match bytes[4..8] {
            [1, 0, 0, 0] => FrameKind::Record,
            [2, 0, 0, 0] => FrameKind::End,
            [3, 0, 0, 0] => FrameKind::Checkpoint,
            _ => return None,
        };
        if crc32fast::hash(&bytes[..28]) != u32_at(bytes, 28) {
            return None;
        }
        Some(Self {
            kind,
            length: u32_at(bytes, 0),
            sequence: u64_at(bytes, 8),
            number: u32_at(bytes, 16),
            synced_length: u32_at(bytes, 20),
            payload_crc: u32_at(bytes, 24),
        })
    }
}

/// Bytes that a frame with a payload of this length takes in the file.
pub(crate) fn frame_bytes(payload_length: u64) -> u64 {
    (FRAME_HEADER_BYTES + payload_length).next_multiple_of(ALIGNMENT)
}

/// The zeros behind a payload of this length.
pub(crate) fn padding(payload_length: u64) -> &'static [u8] {
    const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];
    &ZEROS[..(frame_bytes(payload_length) - FRAME_HEADER_BYTES - payload_length) as usize]
}
