//! Series that a batch names and that are not in the writer's cache.

use crate::catalog::Measurement;
use crate::ingest::{ParsedBatch, RowGroup, SeriesCache, SeriesHandle, TagSet};
use crate::series::Tags;
use nyala_core::{Result, TableId};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The series without an id, with their measurements. Series of a measurement that may not be created are left out.
pub(super) fn pending_series<'a>(
    cache: &SeriesCache,
    batch: &ParsedBatch,
    measurements: &'a [Option<Arc<Measurement>>],
) -> Vec<(SeriesHandle, &'a Arc<Measurement>)> {
    let pending = cache.pending();
    if pending.is_empty() {
        return Vec::new();
    }
    let of_name: HashMap<&[u8], &Option<Arc<Measurement>>> =
        batch.groups().map(RowGroup::measurement).zip(measurements).collect();
    let of = |handle: &SeriesHandle| {
        let measurement = of_name.get(cache.measurement(*handle))?.as_ref()?;
        Some((*handle, measurement))
    };
    pending.iter().filter_map(of).collect()
}

/// Calls `work` with the tags of a series as the table has them, sorted by key. `None` if a tag is called `time`: its
/// rows get no series and are rejected.
pub(super) fn with_tags<T>(
    cache: &SeriesCache,
    handle: SeriesHandle,
    measurement: &Measurement,
    work: impl FnOnce(&[(&str, &str)]) -> T,
) -> Option<T> {
    let mut tags = TagSet::default();
    cache.read_tags(handle, &mut tags);
    let text = String::from_utf8_lossy;
    let texts: Vec<_> = tags.iter().map(|(key, value)| (text(key), text(value))).collect();
    let mut tags: Vec<(&str, &str)> = texts.iter().map(|(key, value)| (&**key, &**value)).collect();
    let metric = if measurement.is_group() { cache.written_measurement(handle) } else { Vec::new() };
    let metric = text(&metric);
    measurement.stored_tags(&mut tags, &metric);
    tags.iter().all(|(key, _)| *key != "time").then(|| work(&tags))
}

/// Reloads the series without an id that are evicted. If several servers give ids, registers all of them, unless there
/// is no memory for more.
pub(super) async fn reload_evicted(
    cache: &SeriesCache,
    batch: &ParsedBatch,
    measurements: &[Option<Arc<Measurement>>],
    is_full: bool,
) -> Result<()> {
    let waits = |measurement: &Arc<Measurement>| {
        let table = measurement.stored();
        table.has_idle_sets() || !is_full && table.is_shared()
    };
    if !measurements.iter().flatten().any(waits) {
        return Ok(());
    }
    let mut by_table: HashMap<TableId, (&Arc<Measurement>, Vec<Tags>)> = HashMap::new();
    for (handle, measurement) in pending_series(cache, batch, measurements) {
        let owned = |tags: &[(&str, &str)]| -> Tags {
            tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        if let Some(tags) = with_tags(cache, handle, measurement, owned) {
            by_table.entry(measurement.table()).or_insert((measurement, Vec::new())).1.push(tags);
        }
    }
    for (measurement, tag_sets) in by_table.into_values() {
        let table = measurement.stored();
        // Series of a shared store are never evicted.
        match table.change_log() {
            Some(log) if !is_full => table.register(log, tag_sets).await?,
            Some(_) => {}
            None => table.reload_evicted(tag_sets).await?,
        }
    }
    Ok(())
}

/// The members that a batch of samples names and that are not in the writer's cache.
pub(super) fn pending_members(cache: &SeriesCache) -> BTreeSet<String> {
    let names = cache.pending().iter().map(|handle| cache.written_measurement(*handle));
    names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect()
}

/// Removes the ids of removed and idle series from a cache. Returns whether parsed rows may have such ids.
pub(super) fn renew_series(
    cache: &mut SeriesCache,
    batch: &ParsedBatch,
    measurements: &[Option<Arc<Measurement>>],
) -> bool {
    let mut forgotten = false;
    for (group, measurement) in batch.groups().zip(measurements) {
        let Some(measurement) = measurement else { continue };
        let mut in_use = None;
        let in_use = |id| in_use.get_or_insert_with(|| measurement.stored().ids_in_use())(id);
        forgotten |= cache.renew(group.measurement(), measurement.stored().generation(), in_use);
    }
    forgotten
}
