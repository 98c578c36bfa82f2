//! A TSM file: its index, read from the first key to the last, and its blocks.
//!
//! The index is read in windows, so memory does not depend on the number of series. Blocks are read in windows, too,
//! because their order is that of the index.

use crate::damage::Damage;
use crate::values::Kind;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 4] = [0x16, 0xD1, 0x16, 0xD1];
const VERSION: u8 = 1;
const HEADER_BYTES: u64 = 5;
const FOOTER_BYTES: u64 = 8;
const CHECKSUM_BYTES: usize = 4;
/// An entry of the index: times, place and size of a block.
const ENTRY_BYTES: usize = 28;
/// How much is read at once. Several files of a shard are open at the same time.
const WINDOW_BYTES: usize = 128 << 10;
/// The largest block that is read.
const BLOCK_BYTES_MAX: usize = 160 << 20;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// The time of its first point, ns.
    pub first_ns: i64,
    /// The time of its last point, ns.
    pub last_ns: i64,
    /// Where it begins.
    pub offset: u64,
    /// Its bytes, with the checksum.
    pub bytes: u32,
}

/// A key of an index, and its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedKey {
    /// The key.
    pub key: Vec<u8>,
    /// The type of its values.
    pub kind: Kind,
    /// Its blocks.
    pub blocks: Vec<BlockPlace>,
}

/// A file that is open.
#[derive(Debug)]
pub struct TsmFile {
    path: PathBuf,
    file: File,
    /// Where the index begins.
    index_offset: u64,
    /// Where the index ends.
    index_end: u64,
    /// What was read of the index.
    index: Window,
    /// How far it was used.
    index_at: u64,
    /// What was read of the blocks.
    blocks: Window,
    last_key: Vec<u8>,
}

/// A part of a file.
#[derive(Debug, Default)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Bytes of a file before `end`. They exist.
    fn get(&mut self, file: &File, offset: u64, length: usize, end: u64) -> io::Result<&[u8]> {
        let has = offset >= self.offset && offset + length as u64 <= self.offset + self.bytes.len() as u64;
        if !has {
            let rest = usize::try_from(end - offset).unwrap_or(usize::MAX);
            self.bytes.resize(length.max(WINDOW_BYTES).min(rest), 0);
            self.offset = offset;
            if let Err(error) = file.read_exact_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let start = (offset - self.offset) as usize;
        Ok(&self.bytes[start..start + length])
    }
}

impl TsmFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, Damage> {
        let damage = |offset, message: String| Damage::new(path, offset, message);
        let cannot = |error: io::Error| damage(0, format!("cannot be read: {error}"));
        let file = File::open(path).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        if length < HEADER_BYTES + FOOTER_BYTES {
            return Err(damage(length, "the file is cut off: its values are lost".to_owned()));
        }
        let mut header = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut header, 0).map_err(cannot)?;
        if header[..4] != MAGIC {
            return Err(damage(0, "this is not a TSM file".to_owned()));
        }
        if header[4] != VERSION {
            return Err(damage(4, format!("version {} of TSM files is unknown", header[4])));
        }
        let index_end = length - FOOTER_BYTES;
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact_at(&mut footer, index_end).map_err(cannot)?;
        let index_offset = u64::from_be_bytes(footer);
        if !(HEADER_BYTES..=index_end).contains(&index_offset) {
            let message = format!(
                "the file is cut off or damaged: its index is said to begin at {index_offset}, and its values are lost \
                 without it"
            );
            return Err(damage(index_end, message));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            index_offset,
            index_end,
            index: Window::default(),
            index_at: index_offset,
            blocks: Window::default(),
            last_key: Vec::new(),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns to the first key.
    pub fn rewind(&mut self) {
        self.index_at = self.index_offset;
        self.last_key.clear();
    }

    /// The next key. After an error nothing more can be read of the index.
    pub fn next_key(&mut self) -> Result<Option<IndexedKey>, Damage> {
        let begin = self.index_at;
        if begin == self.index_end {
            return Ok(None);
        }
        let read = self.read_key();
        if read.is_err() {
            self.index_at = self.index_end;
        }
        read.map(Some).map_err(|message| {
            Damage::new(
                &self.path,
                begin,
                format!("{message}: the values of this and later keys of the file are lost"),
            )
        })
    }

    fn read_key(&mut self) -> Result<IndexedKey, String> {
        let length = self.index_bytes(2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let key = self.index_bytes(length)?.to_vec();
        if !self.last_key.is_empty() && key <= self.last_key {
            return Err("the keys of the index do not ascend".to_owned());
        }
        let head = self.index_bytes(3)?;
        let (kind, count) = (head[0], usize::from(u16::from_be_bytes([head[1], head[2]])));
        let kind =
            Kind::of_block(kind).ok_or_else(|| format!("type {kind} of values is unknown in the index"))?;
        let (first, last) = (HEADER_BYTES, self.index_offset);
        let entries = self.index_bytes(count * ENTRY_BYTES)?;
        let mut blocks = Vec::with_capacity(count);
        for entry in entries.as_chunks::<ENTRY_BYTES>().0 {
            let number = |at: usize| u64::from_be_bytes(*entry[at..].first_chunk().expect("28 bytes"));
            let place = BlockPlace {
                first_ns: number(0) as i64,
                last_ns: number(8) as i64,
                offset: number(16),
                bytes: u32::from_be_bytes(*entry[24..].first_chunk().expect("28 bytes")),
            };
            let end = place.offset.checked_add(u64::from(place.bytes));
            if place.offset < first || end.is_none_or(|end| end > last) || place.first_ns > place.last_ns {
                return Err(format!(
                    "the index names a block of {} bytes at {}, which cannot be",
                    place.bytes, place.offset
                ));
            }
            blocks.push(place);
        }
        self.last_key.clone_from(&key);
        Ok(IndexedKey { key, kind, blocks })
    }

    fn index_bytes(&mut self, length: usize) -> Result<&[u8], String> {
        if self.index_end - self.index_at < length as u64 {
            return Err("the index is cut off".to_owned());
        }
        let offset = self.index_at;
        self.index_at += length as u64;
        self.index
            .get(&self.file, offset, length, self.index_end)
            .map_err(|error| format!("the index cannot be read: {error}"))
    }

    /// The bytes of a block, whose checksum was compared.
    pub fn block(&mut self, place: &BlockPlace) -> Result<&[u8], Damage> {
        let length = place.bytes as usize;
        let damage = |message: String| Damage::new(&self.path, place.offset, message);
        if length <= CHECKSUM_BYTES {
            return Err(damage("the block is empty".to_owned()));
        }
        if length > BLOCK_BYTES_MAX {
            return Err(damage(format!("a block of {length} bytes: at most {BLOCK_BYTES_MAX} are read")));
        }
        let bytes = self
            .blocks
            .get(&self.file, place.offset, length, self.index_offset)
            .map_err(|error| damage(format!("the block cannot be read: {error}")))?;
        let (checksum, block) = bytes.split_at(CHECKSUM_BYTES);
        if checksum != crc32fast::hash(block).to_be_bytes() {
            return Err(damage(format!(
                "the checksum of a block of {length} bytes is wrong: its values are lost"
            )));
        }
        Ok(block)
    }
}
