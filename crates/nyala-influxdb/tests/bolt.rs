//! The settings of InfluxDB 2.7 as BoltDB wrote them, whole and damaged.

use nyala_influxdb::bolt::BoltFile;
use std::fs;
use std::io::Read;
use std::path::Path;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/influxdb2.tar.gz");

fn recorded() -> Vec<u8> {
    let input = flate2::read::GzDecoder::new(fs::File::open(RECORDED).expect("recorded"));
    let mut archive = tar::Archive::new(input);
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an archive");
        if entry.path().expect("a name").ends_with("influxd.bolt") {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("an archive");
            return bytes;
        }
    }
    panic!("there is no influxd.bolt");
}

/// All pairs of the buckets that are imported.
fn read(path: &Path) -> Result<usize, String> {
    let file = BoltFile::open(path)?;
    let names = ["organizationsv1", "bucketsv1", "dbrpv1", "v1_tsm1_metadata"];
    let counts =
        names.map(|name| file.bucket(name.as_bytes()).map(|pairs| pairs.map_or(0, |pairs| pairs.len())));
    counts.into_iter().sum()
}

#[test]
fn buckets_are_read_and_missing_ones_are_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("influxd.bolt");
    fs::write(&path, recorded()).expect("written");
    let file = BoltFile::open(&path).expect("opens");
    let names = |bucket: &str| -> Vec<String> {
        let pairs = file.bucket(bucket.as_bytes()).expect("readable").expect("is there");
        let name = |value: &[u8]| {
            let object: serde_json::Value = serde_json::from_slice(value).expect("JSON");
            object["name"].as_str().expect("a name").to_owned()
        };
        let mut names: Vec<String> = pairs.iter().map(|(_, value)| name(value)).collect();
        names.sort();
        names
    };
    assert_eq!(names("organizationsv1"), ["home", "other"]);
    let buckets = names("bucketsv1");
    for name in ["a mapped one", "plain", "telegraf/month", "_monitoring", "_tasks"] {
        assert!(buckets.iter().any(|own| own == name), "{name} in {buckets:?}");
    }
    assert_eq!(file.bucket(b"no such one").expect("readable"), None);
}

#[test]
fn damage_is_an_error_or_changes_values_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("influxd.bolt");
    let whole = recorded();
    // Of each page the head, the first elements and a place further on.
    for page in (0..whole.len()).step_by(4096) {
        for offset in (0..48).step_by(3).chain([100, 1000]) {
            let mut bytes = whole.clone();
            for value in [0xff, bytes[page + offset] ^ 4] {
                bytes[page + offset] = value;
                fs::write(&path, &bytes).expect("written");
                // What is wrong is said; nothing panics, and nothing takes for ever.
                let _ = read(&path);
            }
        }
    }
    for length in [0, 10, 80, 4096, 4200] {
        fs::write(&path, &whole[..length]).expect("written");
        assert!(read(&path).is_err(), "{length} bytes");
    }
    // The newest of the two first pages is damaged: the other one counts.
    let mut bytes = whole.clone();
    bytes[..80].fill(0);
    fs::write(&path, &bytes).expect("written");
    assert!(read(&path).is_ok());
}

/// A file whose tree is a list of pages, each above one other.
#[test]
fn a_tree_that_is_deeper_than_any_real_one_is_an_error() {
    const PAGE_BYTES: u64 = 1024;
    const PAGES: u64 = 20_000;
    let fnv_1a = |bytes: &[u8]| {
        let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold)
    };
    let mut meta = vec![0; 16];
    meta.extend([0xED0C_DAED_u32, 2, PAGE_BYTES as u32, 0].map(u32::to_le_bytes).as_flattened());
    // Root, sequence, list of free pages, pages, transaction.
    meta.extend([2, 0, 0, PAGES, 1].map(u64::to_le_bytes).as_flattened());
    meta.extend(fnv_1a(&meta[16..]).to_le_bytes());
    let mut bytes = meta;
    bytes.resize(2 * PAGE_BYTES as usize, 0);
    for page in 2..PAGES {
        let mut branch = [page.to_le_bytes(), [1, 0, 1, 0, 0, 0, 0, 0]].concat();
        branch.extend([16_u64, page + 1].map(u64::to_le_bytes).as_flattened());
        branch.resize(PAGE_BYTES as usize, 0);
        bytes.extend(branch);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("influxd.bolt");
    fs::write(&path, bytes).expect("written");
    let error = read(&path).expect_err("no bucket");
    assert!(error.contains("from its root to a leaf"), "{error}");
}

/// Three elements of a branch lead to one leaf of ten pages, in a file of sixteen: each page of a tree is in one place.
#[test]
fn long_pages_are_not_read_again_and_again() {
    const PAGE_BYTES: usize = 1024;
    let mut file = vec![0; 16 * PAGE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &0xED0C_DAED_u32.to_le_bytes());
    put(20, &2_u32.to_le_bytes());
    put(24, &(PAGE_BYTES as u32).to_le_bytes());
    put(32, &2_u64.to_le_bytes());
    let (branch, leaf) = (2 * PAGE_BYTES, 3 * PAGE_BYTES);
    // Kind and count; of the leaf also the pages that overflow it.
    put(branch + 8, &[1, 0, 3, 0]);
    for element in 0..3 {
        put(branch + 16 + 16 * element + 8, &3_u64.to_le_bytes());
    }
    put(leaf + 8, &[2, 0, 0, 0, 9, 0, 0, 0]);
    let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let checksum = file[16..72].iter().fold(0xcbf2_9ce4_8422_2325, fold);
    file[72..80].copy_from_slice(&checksum.to_le_bytes());

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("influxd.bolt");
    fs::write(&path, file).expect("written");
    let read = BoltFile::open(&path).expect("its first page is right").bucket(b"x");
    assert_eq!(read, Err("pages that lead to themselves".to_owned()));
}
