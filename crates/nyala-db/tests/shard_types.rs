//! Each shard has one type of a field, the one that is noted for it, whatever fails or changes meanwhile.

#[allow(dead_code, reason = "other tests use more of it")]
mod support;

use async_trait::async_trait;
use nyala_core::memory::MemoryBudget;
use nyala_core::store::{Operation, StoreRef, WriteBatch};
use nyala_core::{Error, Result};
use nyala_db::catalog::{Catalog, FieldType, PolicyChange};
use nyala_db::ingest::ParseOptions;
use nyala_db::write::LineWriter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::{HookedStore, Hooks};
use tokio::sync::Mutex;
use tokio::task::yield_now;

const DAY_NS: i64 = 86_400_000_000_000;
/// The width of shards before they get another one, ns.
const WEEK_NS: i64 = 7 * DAY_NS;

/// The columns of points with one field.
const POINT_COLUMNS: usize = 3;
/// The columns of records of databases.
const DATABASE_COLUMNS: usize = 4;

/// Batches that fail, or wait while `held` is locked.
#[derive(Default)]
struct Disk {
    is_full: AtomicBool,
    held: Mutex<()>,
    /// Batches whose widest operation has so many columns wait.
    held_columns: AtomicUsize,
}

#[async_trait]
impl Hooks for Disk {
    async fn before_write(&self, batch: &WriteBatch) -> Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(Error::retry("the disk is full"));
        }
        let columns = batch.operations.iter().map(|operation| match operation {
            Operation::Upsert(upsert) => upsert.columns.len(),
            Operation::DeleteKeys { .. } => 0,
        });
        if columns.max() == Some(self.held_columns.load(Ordering::Relaxed)) {
            drop(self.held.lock().await);
        }
        Ok(())
    }
}

type Store = Arc<HookedStore<Disk>>;

async fn open(store: &Store) -> Arc<LineWriter> {
    let catalog = Arc::new(Catalog::open(store.clone() as StoreRef).await.unwrap());
    Arc::new(LineWriter::new(catalog, MemoryBudget::new(1 << 40), usize::MAX))
}

/// How many points of a body are stored.
async fn write(writer: &LineWriter, body: String) -> u64 {
    writer.write("d", "", ParseOptions::default(), body.as_bytes()).await.unwrap().written
}

/// Lets all tasks run as far as they can. Nothing here waits for a clock or a disk.
async fn settle() {
    for _ in 0..1000 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_shard_that_was_dropped_on_a_full_disk_takes_fields_of_other_types() {
    for is_written_at_once in [true, false] {
        let store = Store::default();
        let writer = open(&store).await;
        writer.catalog().create_database("d", None).await.unwrap();
        assert_eq!(write(&writer, format!("m v=1 1\nm v=1 {}", 3 * WEEK_NS)).await, 2);
        let shards = writer.catalog().shards().await.unwrap();
        let first = shards.iter().find(|shard| shard.range.contains(1)).unwrap();
        store.hooks.is_full.store(true, Ordering::Relaxed);
        writer.catalog().drop_shard(first.id).await.expect_err("the records of its types stay");
        store.hooks.is_full.store(false, Ordering::Relaxed);
        if is_written_at_once {
            assert_eq!(write(&writer, "m v=true 1".into()).await, 1);
        }
        // Whoever writes next removes the records.
        assert_eq!(write(&writer, format!("m v=2 {}", 3 * WEEK_NS + 1)).await, 1);
        let writer = open(&store).await;
        assert_eq!(write(&writer, "m v=true 2".into()).await, 1, "at once: {is_written_at_once}");
        assert_eq!(write(&writer, "m v=1 3".into()).await, 0, "it is a boolean there now");
        let writer = open(&store).await;
        assert_eq!(write(&writer, "m v=1 4".into()).await, 0, "after a restart, too");
    }
}

#[tokio::test]
async fn points_that_are_written_while_shards_get_another_width_have_their_types() {
    // The points are on their way to the store, or the change of the policy to its records.
    for held_columns in [POINT_COLUMNS, DATABASE_COLUMNS] {
        let store = Store::default();
        let writer = open(&store).await;
        writer.catalog().create_database("d", None).await.unwrap();
        assert_eq!(write(&writer, "m v=1 1".into()).await, 1);
        let held = store.hooks.held.lock().await;
        store.hooks.held_columns.store(held_columns, Ordering::Relaxed);
        // A shard that begins elsewhere if it has the other width.
        let time_ns = 4 * WEEK_NS + 2 * DAY_NS;
        let writing = {
            let writer = writer.clone();
            async move { write(&writer, format!("m v=2i {time_ns}")).await }
        };
        let altering = {
            let writer = writer.clone();
            let change = PolicyChange { shard_duration_ns: Some(DAY_NS), ..PolicyChange::default() };
            async move { writer.catalog().alter_policy("d", "autogen", change).await }
        };
        let (written, altered);
        if held_columns == DATABASE_COLUMNS {
            altered = tokio::spawn(altering);
            settle().await;
            written = tokio::spawn(writing);
        } else {
            written = tokio::spawn(writing);
            settle().await;
            altered = tokio::spawn(altering);
        }
        settle().await;
        assert!(!written.is_finished() && !altered.is_finished(), "{held_columns} columns are held");
        drop(held);
        altered.await.unwrap().unwrap();
        assert_eq!(written.await.unwrap(), 1);
        if held_columns == POINT_COLUMNS {
            // That the change waits for the points is enough: this store gives the shards that are there its width, too.
            continue;
        }
        for writer in [writer, open(&store).await] {
            let measurement = writer.catalog().measurement("d", "autogen", "m").await.unwrap().unwrap();
            let fields = measurement.fields_between(time_ns, time_ns).await.unwrap();
            let types: Vec<FieldType> = fields.iter().map(|field| field.field_type).collect();
            assert_eq!(types, [FieldType::Integer]);
            let body = format!("m v=true {}", time_ns + 1);
            assert_eq!(write(&writer, body).await, 0, "the field is an integer in this shard");
        }
        let widths_ns = shard_widths_ns(&store).await;
        assert!(widths_ns.contains(&DAY_NS), "{widths_ns:?}");
    }
}

/// The widths of all shards, ns.
async fn shard_widths_ns(store: &Store) -> Vec<i64> {
    let shards = open(store).await.catalog().shards().await.unwrap();
    shards.iter().map(|shard| shard.range.end_ns - shard.range.start_ns).collect()
}
