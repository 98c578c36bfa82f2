//! The embedded store: log, memtable, column rowsets, compaction.
//!
//! [`Engine`] implements the store contract of `nyala-core`. A batch is written: `write` → `record` → `wal`
//! → `memtable` → `watermark`. It becomes durable columns: `flush` → `rowset` → `catalog`. Rows are read:
//! `snapshot` → `scan` → `merge` over `memtable` and `rowset`. What runs in the background is in
//! `maintenance`, `flush` and `compaction`. The engine knows no query language and no protocol.

mod aggregate;
mod block_on;
mod catalog;
mod cells;
mod check;
mod claims;
mod compaction;
mod demand;
mod directory;
mod effort;
mod engine;
mod failure;
mod flush;
pub mod fs;
mod gate;
mod helper;
mod id_map;
mod key;
mod maintenance;
pub mod manifest_log;
mod memtable;
mod merge;
mod modify;
mod options;
mod orphans;
mod output;
mod record;
mod record_log;
mod repair;
mod reserve;
mod rowset;
mod scan;
mod schema_format;
mod shared;
mod snapshot;
mod stage;
mod stats;
mod sweep;
mod table_map;
mod timer;
mod tombstone;
mod version;
pub mod wal;
mod watermark;
mod wire;
mod write;

pub use block_on::block_on;
pub use check::{CheckProgress, CheckReport, check};
pub use engine::Engine;
pub use maintenance::QueuedWork;
pub use options::{EngineOptions, Preference};
pub use record::decode_record;
pub use record_log::Damage;
pub use repair::{RepairReport, accept, repair};
pub use stage::{Stage, StageHook};
pub use stats::EngineStats;
pub use wal::SyncPolicy;
