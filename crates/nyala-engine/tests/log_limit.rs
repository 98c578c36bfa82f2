//! The log takes no more space than its limit allows, however fast clients write.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use nyala_core::store::Store;
use nyala_core::{ErrorKind, Result};
use nyala_engine::fs::{Access, FileSystem, SimulatedFs};
use nyala_engine::{Engine, EngineOptions, block_on};
use std::path::Path;
use support::{create, options, points};

const LIMIT: u64 = 1 << 20;

/// Bytes that the files of the log take, spares and all.
fn log_bytes(fs: &SimulatedFs) -> u64 {
    let dir = Path::new("/data/wal");
    let length = |name: String| {
        // It may have been given up meanwhile.
        fs.open(&dir.join(name), Access::Read).and_then(|file| file.length()).unwrap_or(0)
    };
    fs.list(dir).expect("listed").into_iter().map(|entry| length(entry.name)).sum()
}

#[test]
fn the_files_of_the_log_stay_near_their_limit() -> Result<()> {
    let fs = SimulatedFs::new();
    let defaults = EngineOptions::new("/data");
    let engine = Engine::open(EngineOptions {
        wal_bytes_max: LIMIT,
        wal_segment_bytes: defaults.wal_segment_bytes,
        maintenance_threads: 1,
        ..options(&fs)
    })?;
    let table = create(&engine)?;
    let mut most = 0;
    for batch in 0..60_i64 {
        let value = |row: i64| Some(row.wrapping_mul(0x1E37_79B9_7F4A_7C15));
        let rows: Vec<_> = (0..40_000).map(|row| (row as u32, batch, value(row))).collect();
        // A batch that has waited for a flush for too long is refused.
        let mut outcomes = (0..10).map(|_| block_on(engine.write(points(table, &rows))));
        let is_final =
            |outcome: &Result<_>| !matches!(outcome, Err(error) if error.kind() == ErrorKind::Retry);
        outcomes.find(is_final).expect("the log is flushed")?;
        most = most.max(log_bytes(&fs));
    }
    assert!(engine.stats().wal.expect("a log").written_bytes > 20 * LIMIT);
    // Bytes that wait for a flush and that come while it runs, the active segment, and two spares, none of them longer
    // than the limit.
    assert!(most <= 8 * LIMIT, "{} MiB with a limit of {} MiB", most >> 20, LIMIT >> 20);
    Ok(())
}
