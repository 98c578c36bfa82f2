//! Series as they were in the past: the tags of those that were removed since, and measurements whose last series was.

use super::group::GROUP_NAME;
use super::record::{IDLE_SET, SERIES_KEY_BYTES};
use super::record::{
    idle_set_key, idle_tags_key, read_idle_set, read_idle_tags, read_tags, record_key, series_key,
};
use super::series_table::SeriesTable;
use super::{Catalog, Measurement, SEPARATOR};
use crate::series::Tags;
use nyala_core::store::StoreRef;
use nyala_core::{Error, Result, SeriesId, TableId};
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::sync::Arc;

impl Catalog {
    /// The measurement of a name whose points are in a table; if the table is its own, it may have another name by now. A
    /// member of a group is made again if it was dropped with its last series.
    ///
    /// # Errors
    /// Missing if the table was dropped.
    pub(crate) async fn measurement_in(&self, table: TableId, name: &str) -> Result<Arc<Measurement>> {
        let dropped = || Error::missing(format!("measurement {name:?} was dropped since"));
        let schema = self.store().schema(table).map_err(|_| dropped())?;
        let mut parts = schema.name.splitn(3, SEPARATOR);
        let (Some(database), Some(policy), Some(own)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(dropped());
        };
        let name = if own == GROUP_NAME { name } else { own };
        let find = || self.measurement(database, policy, name);
        if let Some(found) = find().await?.filter(|found| found.table() == table) {
            return Ok(found);
        }
        let known = self.existing_database(database)?;
        let group = self.group(database, known.existing_policy(policy)?).await?;
        if group.table() != table {
            return Err(dropped());
        }
        let _lock = group.stored().table_lock().lock_shared().await;
        self.create_members(database, policy, &group, &[name.to_owned()].into()).await?;
        find().await?.filter(|found| found.table() == table).ok_or_else(dropped)
    }
}

impl SeriesTable {
    /// The tags that some series had in a store of the past, sorted by key.
    pub(crate) async fn past_tags(&self, past: &StoreRef, ids: &RoaringBitmap) -> Result<HashMap<u32, Tags>> {
        let (Some(first), Some(last)) = (ids.min(), ids.max()) else { return Ok(HashMap::new()) };
        let records = self.records().over(past.clone());
        let table = self.table();
        let (mut found, mut broken) = (HashMap::new(), false);
        let take = |key: &[u8], value: &[u8]| {
            let id = id_of(key)?;
            if ids.contains(id) {
                match texts(value) {
                    Some(tags) => drop(found.insert(id, tags)),
                    None => broken = true,
                }
            }
            let next = ids.range(id.saturating_add(1)..).next().unwrap_or(u32::MAX);
            Some(series_key(table, SeriesId(next)).to_vec())
        };
        let (first, last) = (series_key(table, SeriesId(first)), series_key(table, SeriesId(last)));
        records.visit_some(&first, &last, take).await?;
        // The others were idle.
        let missing: RoaringBitmap = ids.iter().filter(|id| !found.contains_key(id)).collect();
        if !missing.is_empty() {
            let mut sets = Vec::new();
            let note = |key: &[u8], value: &[u8]| match (set_number_of(key), read_idle_set(value)) {
                (Some(number), Some((_, _, series))) if !series.is_disjoint(&missing) => {
                    sets.push((number, series));
                }
                (Some(_), Some(_)) => {}
                _ => broken = true,
            };
            records.visit(&record_key(table, IDLE_SET, &[]), note).await?;
            for (number, series) in sets {
                let value = records.find(&idle_tags_key(table, number)).await?.unwrap_or_default();
                let tags = read_idle_tags(&value).filter(|tags| tags.len() as u64 == series.len());
                let Some(tags) = tags else {
                    broken = true;
                    break;
                };
                for (id, record) in series.iter().zip(tags).filter(|(id, _)| missing.contains(*id)) {
                    match texts(record) {
                        Some(tags) => drop(found.insert(id, tags)),
                        None => broken = true,
                    }
                }
            }
        }
        match broken || found.len() as u64 != ids.len() {
            true => Err(self.malformed("a series of the past")),
            false => Ok(found),
        }
    }

    /// Makes sure that series in memory are no longer idle. The caller holds the table lock.
    pub(crate) fn reactivate_all(&self, ids: &RoaringBitmap) {
        if self.has_idle_sets() {
            let series = self.series();
            let known = ids & series.all();
            known.iter().for_each(|id| self.reactivate(SeriesId(id), &series));
        }
    }
}

fn id_of(key: &[u8]) -> Option<u32> {
    (key.len() == SERIES_KEY_BYTES).then(|| key.last_chunk().map(|id| u32::from_be_bytes(*id)))?
}

fn set_number_of(key: &[u8]) -> Option<u64> {
    (key.len() == idle_set_key(TableId(0), 0).len())
        .then(|| key.last_chunk().map(|number| u64::from_be_bytes(*number)))?
}

fn texts(record: &[u8]) -> Option<Tags> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    read_tags(record)?.into_iter().map(|(key, value)| Some((text(key)?, text(value)?))).collect()
}
