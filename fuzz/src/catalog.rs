//! Edits of the catalogue: a manifest that holds them, with checksums that are right.

use crate::rowset;
use nyala_engine::fs::{FsRef, SimulatedFs};
use nyala_engine::manifest_log::{self, ManifestLog};
use nyala_engine::{Engine, EngineOptions, check};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/data";

/// Opens a store whose manifest has `bytes` as its checkpoint, up to a position that the first byte chooses, and as an
/// edit. A store that opens is opened again from the manifest that it wrote, and has the same tables.
pub fn run(bytes: &[u8]) -> bool {
    let Some((cut, edits)) = bytes.split_first() else { return false };
    let (checkpoint, edit) = edits.split_at(edits.len() * usize::from(*cut) / 255);
    let fs: FsRef = Arc::new(SimulatedFs::new());
    fs.create_dirs(Path::new(DIR)).expect("a disk in memory");
    let mut manifest =
        ManifestLog::begin(fs.clone(), Path::new(DIR), checkpoint, 0).expect("a disk in memory");
    if !edit.is_empty() {
        manifest.append(edit).expect("a disk in memory");
    }
    drop(manifest);
    drop(check(&fs, Path::new(DIR), &mut |_| {}));
    let open = || Engine::open(EngineOptions { fs: fs.clone(), ..rowset::options() });
    let Ok(engine) = open() else { return false };
    let before = engine_state(&engine);
    drop(engine);
    let again = open().expect("what was opened is opened again");
    assert_eq!(engine_state(&again), before);
    true
}

/// Tables with their schemas and partitions, as text.
fn engine_state(engine: &Engine) -> String {
    use nyala_core::store::Store;
    let of_table = |(id, schema)| {
        let partitions = nyala_engine::block_on(engine.partitions(id)).map_err(|error| error.kind());
        format!("{id:?} {schema:?} {partitions:?}\n")
    };
    engine.tables().into_iter().map(of_table).collect()
}

/// Manifests of stores, before and after their first checkpoint.
pub fn seeds() -> Vec<Vec<u8>> {
    let fs: FsRef = Arc::new(rowset::template().fs.snapshot());
    let of = |fs: &FsRef| {
        let manifest = manifest_log::load(fs, Path::new(DIR)).expect("is read").expect("is there");
        let edits = manifest.edits.iter().flat_map(|edit| edit.to_vec());
        let mut seed = vec![255];
        seed.extend(manifest.checkpoint.iter().copied().chain(edits));
        seed
    };
    // Without rowsets, which would have to be there.
    let empty: FsRef = Arc::new(SimulatedFs::new());
    let engine = Engine::open(EngineOptions { fs: empty.clone(), ..rowset::options() }).expect("opens");
    rowset::create(&engine).expect("creates");
    drop(engine);
    vec![of(&fs), of(&empty), [of(&empty), deleted_ranges()].concat()]
}

/// Edits that add deleted ranges of the first table, of each kind, and drop some of them.
fn deleted_ranges() -> Vec<u8> {
    let times = [0_u64, 100].map(u64::to_le_bytes).concat();
    // The portable form of a roaring bitmap that has 1 and 3.
    let set = [0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 16, 0, 0, 0, 1, 0, 3, 0];
    let key = [&2_u32.to_le_bytes()[..], b"ab"].concat();
    let bound = [&1_u32.to_le_bytes()[..], &5_u64.to_le_bytes()].concat();
    let ranges = [
        [&[0][..], &times].concat(),
        [&[1][..], &times, &1_u32.to_le_bytes(), &7_u32.to_le_bytes()].concat(),
        [&[2][..], &key, &key].concat(),
        [&[3][..], &key].concat(),
        [&[4][..], &times].concat(),
        [&[5][..], &bound, &bound].concat(),
        [&[6][..], &times, &(set.len() as u32).to_le_bytes(), &set].concat(),
    ];
    let (table, count) = (0_u32.to_le_bytes(), (ranges.len() as u32).to_le_bytes());
    let mut edits = [&[17][..], &table, &count].concat();
    for (sequence, range) in (1_u64..).zip(&ranges) {
        edits.extend_from_slice(&sequence.to_le_bytes());
        edits.extend_from_slice(range);
    }
    let dropped = [2_u64, 7].map(u64::to_le_bytes).concat();
    edits.extend([&[18][..], &table, &2_u32.to_le_bytes(), &dropped].concat());
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read() {
        let seeds = seeds();
        assert!(!run(&seeds[0]), "its rowsets are missing");
        assert!(run(&seeds[1]));
        assert!(run(&seeds[2]));
        assert!(run(&[0]));
    }
}
