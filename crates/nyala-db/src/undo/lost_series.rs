//! The series that points are put back into: those that they were of, or, where these were removed since, series with the
//! same tags, which may be new.
//!
//! A new series gets its number when its first point is put back, because its points are staged under it, and is made known
//! just before the stage is committed. Nobody else gives out numbers meanwhile: the table is locked. So an undo that is
//! broken off leaves no series behind.

use crate::catalog::{Catalog, LAST_SERIES, NO_MORE_IDS, SeriesTable};
use crate::series::Tags;
use nyala_core::store::StoreRef;
use nyala_core::{Error, Result, SeriesId};
use roaring::RoaringBitmap;
use std::collections::HashMap;

/// Where points of a series are put back.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// Into this series, which exists.
    Existing(u32),
    /// Into one that is made for the first point that is put back.
    New,
}

/// Finds the series of a table.
#[derive(Default)]
pub(super) struct LostSeries {
    /// The tags of removed series that come next.
    tags: HashMap<u32, Tags>,
    new: HashMap<Tags, u32>,
    /// The same in order of numbers.
    in_order: Vec<Tags>,
}

impl LostSeries {
    /// Where points of a series are put back that is not in memory. `next`: this series and some that come after it.
    /// `past`: the store when they were there.
    pub(super) async fn target(
        &mut self,
        table: &SeriesTable,
        past: &StoreRef,
        series: u32,
        next: Vec<u32>,
    ) -> Result<Target> {
        if !self.tags.contains_key(&series) {
            let lost: RoaringBitmap = {
                let known = table.series();
                next.into_iter().filter(|id| !known.contains(SeriesId(*id))).collect()
            };
            self.tags = table.past_tags(past, &lost).await?;
            // Otherwise a series that is not in memory would be made once more.
            table.reload_evicted(self.tags.values().cloned().collect()).await?;
        }
        let tags = &self.tags[&series];
        let known = table.series();
        if let Some(id) = known.find(tags) {
            return Ok(Target::Existing(id.0));
        }
        Ok(Target::New)
    }

    /// The number of the new series for the points of a lost one, whose target was asked for last.
    pub(super) fn number(&mut self, table: &SeriesTable, series: u32) -> Result<u32> {
        let tags = &self.tags[&series];
        if let Some(id) = self.new.get(tags) {
            return Ok(*id);
        }
        let known = table.series();
        let id = u64::from(known.next_id().0) + self.in_order.len() as u64;
        let id = u32::try_from(id).ok().filter(|id| SeriesId(*id) < LAST_SERIES);
        let id = id.ok_or_else(|| Error::limit(NO_MORE_IDS))?;
        self.new.insert(tags.clone(), id);
        self.in_order.push(tags.clone());
        Ok(id)
    }

    /// Makes the new series known. Returns their numbers.
    pub(super) fn create(&self, catalog: &Catalog, table: &SeriesTable) -> Result<RoaringBitmap> {
        let mut created = RoaringBitmap::new();
        let next = table.series().next_id().0;
        if self.in_order.first().is_some_and(|first| self.new[first] != next) {
            return Err(Error::retry("another series got the number of one that is put back: try again"));
        }
        for tags in &self.in_order {
            let texts: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (&**key, &**value)).collect();
            let (id, memory_bytes) = table.new_series_id(&texts).map_err(Error::limit)?;
            created.insert(id.0);
            catalog.add_series_memory(memory_bytes);
        }
        Ok(created)
    }
}
