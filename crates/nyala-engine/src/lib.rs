//! The embedded store: log, memtable, column rowsets, compaction.
//!
//! [`Engine`] implements the store contract of `nyala-core`. Its modules lie on floors, and each floor uses only the
//! floors before it:
//!
//! 1. `runtime` (threads, timers) and `collections` (maps by id),
//! 2. `rows`: columns of decoded cells, encoded keys, deleted ranges, and how rows of several sources are merged,
//! 3. `files`: everything on disk: file system, log, manifest, rowsets,
//! 4. `memory`: memtables, versions of all tables, the watermark,
//! 5. `reading`: snapshots, scans, aggregates,
//! 6. `writing`: batches, conditional writes, deletes and updates,
//! 7. `maintenance`: flushes and compactions in the background,
//! 8. `staging`: stages,
//! 9. `engine`: opening, closing, tables, and the contract; `damage` checks and repairs directories that are closed, and says of which
//!    versions they are; `copy`
//!    makes copies, which backups are made of.
//!
//! A batch is written: `writing/write` → `files/log_record` → `files/wal` → `memory/memtable` → `memory/watermark`. It
//! becomes durable columns: `maintenance/flush` → `files/rowset` → `files/catalog`. Rows are read: `reading/snapshot` →
//! `reading/scan` → `rows/merge` over memtables and rowsets. The engine knows no query language and no protocol.

mod collections;
mod copy;
mod damage;
mod engine;
mod failure;
mod files;
mod maintenance;
mod memory;
mod options;
mod reading;
mod rows;
mod runtime;
#[cfg(test)]
mod single_series;
mod staging;
mod stats;
mod write_hook;
mod writing;

pub use copy::{StoreCopy, copy_closed};
pub use damage::check::{CheckProgress, CheckReport, check};
pub use damage::formats::{FileKind, Files, FormatReport, formats};
pub use damage::repair::{RepairReport, accept, repair};
pub use engine::Engine;
pub use files::framed_log::Damage;
pub use files::log_record::decode_record;
pub use files::wal::SyncPolicy;
pub use files::{fs, manifest_log, wal};
pub use options::{EngineOptions, Preference};
pub use runtime::block_on::block_on;
pub use stats::EngineStats;
pub use write_hook::{WriteHook, WriteStep};
