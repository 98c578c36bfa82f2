//! Bytes that are not a block give an error or wrong values, never a panic or a large allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use nyala_column::*;
use proptest::prelude::*;

/// Remembers the largest single allocation.
struct Watched;
static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
#[allow(unsafe_code, reason = "a test that watches allocations has to be an allocator")]
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// The samples decode to less than a megabyte, and a claim may exceed its bytes 512 times at most.
const ALLOWED: usize = 64 << 20;

/// Valid blocks of every kind and encoding.
fn samples() -> Vec<Vec<u8>> {
    let mut state = 7_u64;
    let mut random = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut walk = 0;
    let columns: Vec<Vec<i64>> = vec![
        vec![5; 300],
        (0..2000).map(|index| index * 1000).collect(),
        (0..1500).map(|index| index * 1000 + i64::from(index % 90 == 3) * 77).collect(),
        (0..1500).map(|_| random(100) as i64).collect(),
        (0..1500)
            .map(|_| {
                walk += random(7) as i64 - 3 + i64::from(random(200) == 0) * 1000;
                walk
            })
            .collect(),
        (0..1500).map(|index| (index / 100) * 1_000_003 % 7919).collect(),
        (0..1500).map(|index| (index * 10_000 + random(20) as i64) * 1_000_000).collect(),
        (0..1500).map(|_| [3, 1 << 40, -(1 << 50), 17][random(4) as usize]).collect(),
    ];
    let mut blocks = Vec::new();
    let mut scratch = Scratch::new();
    for preference in [Preference::Speed, Preference::Balanced, Preference::Size] {
        for column in &columns {
            let mut block = Vec::new();
            encode_integers(column, &[100], preference, &mut scratch, &mut block);
            blocks.push(block);
            let mut block = Vec::new();
            let floats: Vec<f64> = column.iter().map(|value| *value as f64 / 8.0).collect();
            encode_floats(&floats, &[], preference, &mut scratch, &mut block);
            blocks.push(block);
            let mut block = Vec::new();
            let floats: Vec<f64> = column.iter().map(|value| (*value as f64 + 0.3).sin()).collect();
            encode_floats(&floats, &[], preference, &mut scratch, &mut block);
            blocks.push(block);
            let mut block = Vec::new();
            let strings: Vec<String> =
                column.iter().map(|value| format!("key {value} of {}", value / 7)).collect();
            let strings: Vec<&[u8]> = strings.iter().map(|string| string.as_bytes()).collect();
            encode_bytes(&strings, preference, &mut scratch, &mut block);
            blocks.push(block);
        }
    }
    for column in &columns {
        let mut block = Vec::new();
        let states: Vec<CellState> = column
            .iter()
            .map(|value| {
                [CellState::Value, CellState::Null, CellState::Absent][(*value % 3).unsigned_abs() as usize]
            })
            .collect();
        encode_validity(&states, &mut block);
        blocks.push(block);
        let mut block = Vec::new();
        encode_booleans(&column.iter().map(|value| value % 2 == 0).collect(), &mut block);
        blocks.push(block);
    }
    // And every form that was ever written.
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut kept: Vec<_> = std::fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    kept.sort_unstable();
    blocks.extend(kept.iter().map(|path| std::fs::read(path).unwrap()));
    blocks
}

fn read(bytes: &[u8]) {
    for cpu in CpuFeatures::available() {
        // Whether it is an error does not matter here; that it ends does.
        let _ = decode_arbitrary(cpu, bytes);
    }
    assert!(LARGEST.load(Ordering::Relaxed) <= ALLOWED);
}

#[test]
fn valid_blocks_read_without_error() {
    for block in samples() {
        for cpu in CpuFeatures::available() {
            decode_arbitrary(cpu, &block).unwrap();
        }
    }
}

#[test]
fn every_changed_header_byte_is_survived() {
    for block in samples() {
        for at in 0..block.len().min(48) {
            for value in [0, 1, 0x7f, 0x80, 0xff, block[at] ^ 1, block[at].wrapping_add(1)] {
                let mut changed = block.clone();
                changed[at] = value;
                read(&changed);
            }
        }
    }
}

#[test]
fn every_cut_is_survived() {
    for block in samples() {
        for length in (0..block.len()).step_by(1 + block.len() / 60) {
            read(&block[..length]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn random_changes_are_survived(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        thread_local! { static SAMPLES: Vec<Vec<u8>> = samples(); }
        SAMPLES.with(|samples| {
            let mut block = pick.get(samples).clone();
            for (at, value) in changes {
                let at = at.index(block.len());
                block[at] = value;
            }
            read(&block);
        });
    }

    #[test]
    fn random_bytes_are_survived(kind in 1..6_u8, mut bytes in prop::collection::vec(any::<u8>(), 4..200)) {
        (bytes[0], bytes[1]) = (1, kind);
        bytes[3] &= 0x1f;
        read(&bytes);
    }
}
