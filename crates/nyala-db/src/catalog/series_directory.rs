//! Ids of series that several servers agree on. If other servers write to the same store, the first server that sees a
//! tag set gives it an id, and all others use that id.
//!
//! A tag set is registered by a record under its hash, inserted on condition that there is none. If there is one, the
//! id in that record counts. Ids come from blocks, which a server reserves in the same way. Every server that uses a
//! series writes the series' record before its points, and announces the series in the log of changes. So if a server
//! dies in between, no points are left whose series cannot be read, or that others do not see.
//!
//! A store with one server needs none of this: its ids are consecutive, and their records are written with the points
//! (`unsaved`).

use super::record::{BLOCK_IDS, id_block_key, series_key, tag_set_key, tags_record};
use super::series_table::SeriesTable;
use crate::records::{Applied, ChangeLog, Entry, Follower};
use crate::series::Tags;
use futures::stream::{self, StreamExt, TryStreamExt};
use nyala_core::{Error, ErrorKind, Result, SeriesId};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use std::collections::HashMap;
use std::ops::Range;

/// The number of records that are looked up at the same time.
const LOOKED_UP_AT_ONCE: usize = 64;

/// A tag set that is being registered.
struct NewSeries {
    tags: Tags,
    record: Vec<u8>,
    key: Vec<u8>,
    id: u32,
}

impl SeriesTable {
    /// Makes sure that tag sets (sorted by key) have the ids that all servers use. The caller holds the table lock
    /// shared.
    pub(crate) async fn register(&self, log: &ChangeLog, tag_sets: Vec<Tags>) -> Result<()> {
        let mut reserved = self.loaded().reserved_ids.lock().await;
        let unknown: Vec<Tags> = {
            let (series, doubted) = (self.series(), self.loaded().doubted.lock());
            let is_unknown = |tags: &Tags| series.find(tags).is_none_or(|id| doubted.contains(id.0));
            tag_sets.into_iter().filter(is_unknown).collect()
        };
        if unknown.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::with_capacity(unknown.len());
        for tags in unknown {
            let record = tags_record(&tags);
            let key = tag_set_key(self.table(), &record);
            entries.push(NewSeries { tags, record, key, id: self.next_reserved(&mut reserved).await? });
        }
        let ids: Vec<[u8; 4]> = entries.iter().map(|entry| entry.id.to_le_bytes()).collect();
        let offered = entries.iter().zip(&ids).map(|(entry, id)| (entry.key.as_slice(), id.as_slice()));
        let taken = self.records().insert(offered).await?;
        // Many at once: daemons that start to write the same series find most of them taken.
        let look_up = |place: usize| {
            let (records, key) = (self.records(), &entries[place].key);
            async move { records.find(key).await.map(|found| (place, found)) }
        };
        let looked_up: Vec<_> = stream::iter(taken.iter().copied())
            .map(look_up)
            .buffer_unordered(LOOKED_UP_AT_ONCE)
            .try_collect()
            .await?;
        for (place, found) in looked_up {
            let id = found.and_then(|id| id.try_into().ok()).map(u32::from_le_bytes);
            // The records of a table that was dropped are removed.
            let words = || Error::new(ErrorKind::Retry, "the measurement is being dropped: send it again");
            entries[place].id = id.ok_or_else(words)?;
        }
        let keys: Vec<_> = entries.iter().map(|entry| series_key(self.table(), SeriesId(entry.id))).collect();
        let records = entries.iter().map(|entry| entry.record.as_slice());
        let put = self.records().put(keys.iter().map(<[u8; 9]>::as_slice).zip(records));
        self.records().write(vec![put]).await?;
        self.announce(log, &entries).await
    }

    /// Tells all servers of series, and adds them to the index.
    async fn announce(&self, log: &ChangeLog, entries: &[NewSeries]) -> Result<()> {
        let of_id: HashMap<u32, &NewSeries> = entries.iter().map(|entry| (entry.id, entry)).collect();
        let all: RoaringBitmap = of_id.keys().copied().collect();
        for (entry, ids) in Entry::series(self.table(), &all) {
            let hidden = Mutex::new(RoaringBitmap::new());
            // Also a series that nobody had registered before: another server may have found the id that this one has
            // just given it, and its series may have been hidden since.
            let decide = |_: &Applied| {
                let mut hidden = hidden.lock();
                *hidden = &*self.loaded().hidden.lock() & &ids;
                Some(if hidden.is_empty() { entry.clone() } else { entry.shown_again() })
            };
            let insert = |_: &Entry, _: i64| {
                let mut series = self.loaded().series.write();
                self.loaded().note_shown(&ids);
                for id in &ids {
                    if !series.contains(SeriesId(id)) {
                        series.insert_with_id(SeriesId(id), &of_id[&id].tags);
                    }
                }
            };
            let appended = log.append_if(decide, insert).await?;
            let hidden = hidden.into_inner();
            self.mark(&hidden, appended.expect("it was decided to"), false).await?;
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
