//! Another name for a tag: the records of all series that have it are written anew, in one stage. Series keep their numbers,
//! so no point changes. The index is made again with the new name.
//!
//! No series has a tag of the new name, so no two become equal. Lines that still have the old name make new series. Caches of
//! writers forget the numbers of all series of the measurement, also of those that only became other ones by their names.

use super::{Place, check_part, lacks};
use crate::catalog::record::{
    idle_set_key, idle_set_record, idle_tags_key, idle_tags_record, read_idle_set, read_idle_tags, read_tags,
    series_key, tag_set_key, tags_record,
};
use crate::catalog::{Catalog, Measurement, SeriesTable};
use crate::series::{SeriesIndex, Tags};
use nyala_core::store::{Feature, Operation, Stage, WriteBatch};
use nyala_core::{Error, Result, SeriesId, before_long_work};
use std::sync::Arc;

/// Series whose records are staged together.
const SERIES_AT_ONCE: usize = 1 << 12;

impl Catalog {
    /// Renames a tag of measurements. The caller holds their table locks exclusively.
    pub(super) async fn rename_tag(
        &self,
        places: &[Place],
        from: &str,
        to: &str,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<()> {
        self.store.capabilities().need(Feature::StagedWrites)?;
        let with_tag = tables_with_tag(places, from, to)?;
        before_long_work().await;
        // Nobody may bring idle series back under the old name meanwhile.
        let mut reloading = Vec::new();
        for own in &with_tag {
            own.stored().save_all().await?;
            while own.stored().has_unsaved_idle_set() {
                own.stored().save_unsaved_idle_set().await?;
            }
            reloading.push(own.stored().reloading().await);
        }
        let mut stage = self.store.stage().await?;
        for own in &with_tag {
            own.stored().stage_renamed_tag(&mut *stage, from, to, check).await?;
        }
        check()?;
        let mut indexes = Vec::with_capacity(with_tag.len());
        for own in &with_tag {
            indexes.push(own.stored().index_with_renamed_tag(from, to, check).await?);
        }
        stage.commit().await?;
        for (own, index) in with_tag.iter().zip(indexes) {
            own.stored().set_renamed_tag(index, from, to);
        }
        Ok(())
    }
}

/// The measurements that have a tag, if it can be renamed.
pub(super) fn tables_with_tag<'a>(
    places: &'a [Place],
    from: &str,
    to: &str,
) -> Result<Vec<&'a Arc<Measurement>>> {
    let all = places.iter().map(|(_, own)| own);
    let with_tag: Vec<_> = all.filter(|own| !from.is_empty() && own.has_tag_key(from)).collect();
    if with_tag.is_empty() {
        return Err(lacks(&places[0].1, "tag", from));
    }
    with_tag.iter().try_for_each(|own| check_part(own, "tag", from, to))?;
    Ok(with_tag)
}

/// Tags with another key, sorted again. `None`: they do not have the old one.
fn renamed<T: AsRef<[u8]>>(tags: &[(T, T)], from: &str, to: &str) -> Option<Tags> {
    let is_from = |key: &T| key.as_ref() == from.as_bytes();
    tags.iter().any(|(key, _)| is_from(key)).then(|| {
        let text = |bytes: &T| String::from_utf8_lossy(bytes.as_ref()).into_owned();
        let key = |key: &T| if is_from(key) { to.to_owned() } else { text(key) };
        let mut tags: Tags = tags.iter().map(|(own, value)| (key(own), text(value))).collect();
        tags.sort_unstable();
        tags
    })
}

impl SeriesTable {
    /// Stages the records of all series that have a tag, with its new key.
    async fn stage_renamed_tag(
        &self,
        stage: &mut dyn Stage,
        from: &str,
        to: &str,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<()> {
        let stored = {
            let series = self.series();
            // The records of idle series are those of their sets.
            series.all() - self.idle().lock().resident()
        };
        let mut left = stored.iter().peekable();
        while left.peek().is_some() {
            let records: Vec<_> = {
                let series = self.series();
                let some = left.by_ref().take(SERIES_AT_ONCE);
                let record = |id| {
                    let tags = renamed(&series.tags_of(SeriesId(id)), from, to)?;
                    Some((series_key(self.table(), SeriesId(id)), tags_record(&tags)))
                };
                some.filter_map(record).collect()
            };
            if !records.is_empty() {
                let put = self.records().put(records.iter().map(|(key, record)| (&key[..], &**record)));
                stage.write(WriteBatch { operations: vec![put] }).await?;
            }
            check()?;
            before_long_work().await;
        }
        let numbers = self.idle().lock().numbers_with_key(from);
        for number in numbers {
            let operations = self.renamed_idle_set(number, from, to).await?;
            stage.write(WriteBatch { operations }).await?;
            check()?;
        }
        Ok(())
    }

    /// What writes an idle set whose series have a tag with another key.
    async fn renamed_idle_set(&self, number: u64, from: &str, to: &str) -> Result<Vec<Operation>> {
        let (table, records) = (self.table(), self.records());
        let (set_key, tags_key) = (idle_set_key(table, number), idle_tags_key(table, number));
        let broken = || self.malformed("an idle set");
        let set = records.find(&set_key).await?.ok_or_else(broken)?;
        let all_tags = records.find(&tags_key).await?.ok_or_else(broken)?;
        let (time, keys, series) = read_idle_set(&set).ok_or_else(broken)?;
        let mut keys: Vec<String> =
            keys.iter().map(|key| if *key == from { to } else { *key }.to_owned()).collect();
        keys.sort_unstable();
        let (mut new_records, mut gone, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (id, record) in series.iter().zip(read_idle_tags(&all_tags).ok_or_else(broken)?) {
            match renamed(&read_tags(record).ok_or_else(broken)?, from, to) {
                Some(tags) => {
                    let new = tags_record(&tags);
                    let old_key = tag_set_key(table, record);
                    // Without a record the series is found by its tags no longer: it was removed.
                    if records.find(&old_key).await?.is_some_and(|own| own == id.to_le_bytes()) {
                        found.push((tag_set_key(table, &new), id.to_le_bytes()));
                        gone.push(old_key);
                    }
                    new_records.push(new);
                }
                None => new_records.push(record.to_vec()),
            }
        }
        found.sort_unstable();
        let set = idle_set_record(time, &keys, &series);
        let tags = idle_tags_record(new_records.iter().map(Vec::as_slice));
        let own = [(&*set_key, &*set), (&*tags_key, &*tags)];
        Ok(vec![
            records.remove(gone.iter().map(Vec::as_slice)),
            records.put(own.into_iter().chain(found.iter().map(|(key, id)| (&**key, &id[..])))),
        ])
    }

    /// The index with another key for a tag, under the same numbers.
    async fn index_with_renamed_tag(
        &self,
        from: &str,
        to: &str,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<SeriesIndex> {
        let mut index = SeriesIndex::default();
        let all = self.series().all().clone();
        let mut left = all.iter().peekable();
        while left.peek().is_some() {
            {
                let series = self.series();
                for id in left.by_ref().take(SERIES_AT_ONCE) {
                    let tags = series.tags_of(SeriesId(id));
                    let tags = renamed(&tags, from, to).unwrap_or(tags);
                    if index.find(&tags).is_some() {
                        return Err(Error::conflict(
                            "two series would have the same tags: nothing was changed",
                        ));
                    }
                    index.insert_with_id(SeriesId(id), &tags);
                }
            }
            check()?;
            before_long_work().await;
        }
        index.reserve_ids(self.series().next_id());
        Ok(index)
    }

    /// The renamed tag is durable.
    fn set_renamed_tag(&self, index: SeriesIndex, from: &str, to: &str) {
        let mut series = self.loaded().series.write();
        *series = index;
        self.idle().lock().rename_key(from, to);
        drop(series);
        self.table_lock().note_renamed_tag();
    }
}
