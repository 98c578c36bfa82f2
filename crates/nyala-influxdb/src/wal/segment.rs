//! A segment of the log: entries one after the other.

use super::entry::{LogTarget, decode};
use crate::damage::Damage;
use crate::tsm::decompress;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The largest entry that is read, compressed or not. An entry is what one request wrote to a shard.
const ENTRY_BYTES_MAX: usize = 128 << 20;

/// Reads a segment to its end, or to the first entry that is damaged: there InfluxDB cuts the segment off, too. Returns
/// how much of it was read.
pub fn read(path: &Path, target: &mut impl LogTarget) -> (u64, Option<Damage>) {
    let input = match File::open(path) {
        Ok(file) => BufReader::with_capacity(256 << 10, file),
        Err(error) => return (0, Some(Damage::new(path, 0, format!("cannot be read: {error}")))),
    };
    let mut at = 0;
    let read = read_entries(input, &mut at, target);
    let damage = read.err().map(|message| {
        Damage::new(path, at, format!("{message}: this and later entries of the file are lost"))
    });
    (at, damage)
}

/// Reads entries. `at` is where the last one ended that could be read.
pub fn read_entries(
    mut input: impl BufRead,
    at: &mut u64,
    target: &mut impl LogTarget,
) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let (mut compressed, mut decompressed) = (Vec::new(), Vec::new());
    while !input.fill_buf().map_err(unreadable)?.is_empty() {
        let mut head = [0; 5];
        input.read_exact(&mut head).map_err(|_| "an entry is cut off")?;
        let length = u32::from_be_bytes(*head[1..].first_chunk().expect("five bytes")) as usize;
        if length > ENTRY_BYTES_MAX {
            return Err(format!("an entry of {length} bytes: at most {ENTRY_BYTES_MAX} are read"));
        }
        // It grows as bytes come, whatever length the entry claims.
        compressed.clear();
        let read = input.by_ref().take(length as u64).read_to_end(&mut compressed).map_err(unreadable)?;
        if read < length {
            return Err("an entry is cut off".to_owned());
        }
        let entry = decompress(&compressed, &mut decompressed, ENTRY_BYTES_MAX)?;
        decode(head[0], entry, target)?;
        *at += 5 + length as u64;
    }
    Ok(())
}
