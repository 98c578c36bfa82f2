//! The bytes of a simulated file, and what of them a power cut leaves.
//!
//! Bytes are kept in shared pages, so that copying a disk for every sync point of a test costs little. Between two
//! syncs a file has a list of changes; the disk may hold any part of them, in any order of sectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::random::Random;

const PAGE_BYTES: u64 = 4096;
/// What a disk writes whole: old devices 512 bytes, newer ones and page caches 4096.
const SECTOR_BYTES: [u64; 2] = [512, 4096];

type Page = [u8; PAGE_BYTES as usize];

/// The bytes of a file; a page that is missing reads as zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    pub(super) length: u64,
    pages: Arc<BTreeMap<u64, Arc<Page>>>,
}

/// A change since the last sync.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLength(u64),
}

impl Contents {
    /// Copies bytes out; what is past the length is not copied.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < available {
            let position = offset + done as u64;
            let within = (position % PAGE_BYTES) as usize;
            let count = (available - done).min(PAGE_BYTES as usize - within);
            let target = &mut buffer[done..done + count];
            match self.pages.get(&(position / PAGE_BYTES)) {
                Some(page) => target.copy_from_slice(&page[within..within + count]),
                None => target.fill(0),
            }
            done += count;
        }
        available
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.length = self.length.max(offset + bytes.len() as u64);
        self.store(bytes, offset);
    }

    fn store(&mut self, bytes: &[u8], offset: u64) {
        let pages = Arc::make_mut(&mut self.pages);
        let mut done = 0;
        while done < bytes.len() {
            let position = offset + done as u64;
            let within = (position % PAGE_BYTES) as usize;
            let count = (bytes.len() - done).min(PAGE_BYTES as usize - within);
            let page =
                pages.entry(position / PAGE_BYTES).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(page)[within..within + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            let pages = Arc::make_mut(&mut self.pages);
            pages.split_off(&length.div_ceil(PAGE_BYTES));
            if let Some(page) = pages.get_mut(&(length / PAGE_BYTES)) {
                Arc::make_mut(page)[(length % PAGE_BYTES) as usize..].fill(0);
            }
        }
        self.length = length;
    }

    pub(super) fn flip_bit(&mut self, bit: u64) {
        let mut byte = [0];
        self.read(&mut byte, bit / 8);
        byte[0] ^= 1 << (bit % 8);
        self.write(&byte, bit / 8);
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => self.write(bytes, *offset),
            Change::SetLength(length) => self.set_length(*length),
        }
    }

    /// The space taken, for the budget of the disk.
    pub(super) fn allocated(&self) -> u64 {
        self.length.div_ceil(PAGE_BYTES) * PAGE_BYTES
    }

    /// What the disk holds after a power cut while `changes` were on their way to it.
    pub(super) fn torn(&self, changes: &[Change], random: &mut Random) -> Self {
        let mut result = self.clone();
        let sets_length = changes.iter().any(|change| matches!(change, Change::SetLength(_)));
        match random.up_to(if sets_length { 2 } else { 3 }) {
            // Nothing arrived.
            0 => {}
            // Everything arrived.
            1 => changes.iter().for_each(|change| result.apply(change)),
            // In order, the last one cut at any byte.
            2 => {
                let whole = random.up_to(changes.len());
                changes[..whole].iter().for_each(|change| result.apply(change));
                if let Some(Change::Write { offset, bytes }) = changes.get(whole) {
                    result.write(&bytes[..random.up_to(bytes.len())], *offset);
                }
            }
            // Sector by sector, each as it was at its own moment; the length at another.
            _ => result = self.torn_by_sector(changes, random),
        }
        result
    }

    fn torn_by_sector(&self, changes: &[Change], random: &mut Random) -> Self {
        let sector_bytes = SECTOR_BYTES[random.up_to(1)];
        let mut touching: BTreeMap<u64, Vec<(u64, &[u8])>> = BTreeMap::new();
        let mut lengths = vec![self.length];
        let mut length = self.length;
        for change in changes {
            let Change::Write { offset, bytes } = change else { continue };
            let end = offset + bytes.len() as u64;
            length = length.max(end);
            lengths.push(length);
            let mut position = *offset;
            while position < end {
                let sector = position / sector_bytes;
                let until = end.min((sector + 1) * sector_bytes);
                let part = &bytes[(position - offset) as usize..(until - offset) as usize];
                touching.entry(sector).or_default().push((position, part));
                position = until;
            }
        }
        let mut result = self.clone();
        for parts in touching.values() {
            for (position, part) in &parts[..random.up_to(parts.len())] {
                result.store(part, *position);
            }
        }
        let torn_length = lengths[random.up_to(lengths.len() - 1)];
        // Cut through the longer state, so that nothing stays past the end.
        result.length = length;
        result.set_length(torn_length);
        result
    }
}
