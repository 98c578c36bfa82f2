//! Ids of series that several servers agree on. If other servers write to the same store, the first server that sees a
//! tag set gives it an id, and all others use that id.
//!
//! A tag set is registered by a record under its hash, inserted on condition that there is none. If there is one, the
//! id in that record counts. Ids come from blocks, which a server reserves in the same way. Every server that uses a
//! series writes the series' record before its points. So if a server dies between the two, no points are left whose
//! series cannot be read. A store with one server does not need any of this: its ids are consecutive, and their records
//! are written with the points (`unsaved`).

use super::record::{BLOCK_IDS, id_block_key, series_key, tag_set_key, tags_record};
use super::series_table::SeriesTable;
use crate::series::Tags;
use nyala_core::{Error, ErrorKind, Result, SeriesId};
use std::ops::Range;

/// A tag set that is being registered.
struct Entry {
    tags: Tags,
    record: Vec<u8>,
    key: Vec<u8>,
    id: u32,
}

impl SeriesTable {
    /// Makes sure that tag sets (sorted by key) have the ids that all servers use. The caller holds the table lock
    /// shared.
    pub(crate) async fn register(&self, tag_sets: Vec<Tags>) -> Result<()> {
        let mut reserved = self.loaded().reserved_ids.lock().await;
        let unknown: Vec<Tags> = {
            let series = self.series();
            tag_sets.into_iter().filter(|tags| series.find(tags).is_none()).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::with_capacity(unknown.len());
        for tags in unknown {
            let record = tags_record(&tags);
            let key = tag_set_key(self.table(), &record);
            entries.push(Entry { tags, record, key, id: self.next_reserved(&mut reserved).await? });
        }
        let ids: Vec<[u8; 4]> = entries.iter().map(|entry| entry.id.to_le_bytes()).collect();
        let offered = entries.iter().zip(&ids).map(|(entry, id)| (entry.key.as_slice(), id.as_slice()));
        for taken in self.records().insert(offered).await? {
            let entry = &mut entries[taken];
            let found = self.records().find(&entry.key).await?;
            let id = found.and_then(|id| id.try_into().ok()).map(u32::from_le_bytes);
            // The record was removed with its series since the insertion failed.
            let words = || Error::new(ErrorKind::Retry, "a series is being removed: send it again");
            entry.id = id.ok_or_else(words)?;
        }
        let keys: Vec<_> = entries.iter().map(|entry| series_key(self.table(), SeriesId(entry.id))).collect();
        let records = entries.iter().map(|entry| entry.record.as_slice());
        let put = self.records().put(keys.iter().map(<[u8; 9]>::as_slice).zip(records));
        self.records().write(vec![put]).await?;
        let mut series = self.loaded().series.write();
        for entry in entries {
            if series.find(&entry.tags).is_none() {
                series.insert_with_id(SeriesId(entry.id), &entry.tags);
            }
        }
        Ok(())
    }

    /// An id that no other server gives out.
    async fn next_reserved(&self, reserved: &mut Range<u32>) -> Result<u32> {
        if let Some(id) = reserved.next() {
            return Ok(id);
        }
        let mut block = self.series().next_id().0.div_ceil(BLOCK_IDS);
        loop {
            let first = block.checked_mul(BLOCK_IDS).filter(|first| first.checked_add(BLOCK_IDS).is_some());
            let first =
                first.ok_or_else(|| Error::limit("a table can have no more series: write to another"))?;
            let key = id_block_key(self.table(), block);
            if self.records().insert([(key.as_slice(), [].as_slice())]).await?.is_empty() {
                *reserved = first + 1..first + BLOCK_IDS;
                return Ok(first);
            }
            block += 1;
        }
    }
}
