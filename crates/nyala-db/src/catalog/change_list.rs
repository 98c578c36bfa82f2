//! The list of changes of points, and what a change of a measurement has changed.

use super::{Catalog, Measurement};
use crate::changes::{Author, Change, ChangeId, ChangedPart};
use nyala_core::{Result, Sequence, TimeRange};
use roaring::RoaringBitmap;

impl Catalog {
    /// Lists a change that was just made, and returns its number. `None` if nothing was changed, or if no history is kept.
    ///
    /// # Errors
    /// Where its record cannot be written. The change was made all the same.
    pub async fn note_change(
        &self,
        author: &Author,
        points: Option<u64>,
        parts: &[ChangedPart],
    ) -> Result<Option<ChangeId>> {
        if parts.is_empty() || self.store().past_begin().is_none() {
            return Ok(None);
        }
        let added = self.changes.add(author, points, parts).await;
        let context = |error: nyala_core::Error| {
            error.context("the points were changed, but UNDO does not know of it")
        };
        added.map(Some).map_err(context)
    }

    /// The changes that can be undone, from the oldest to the newest.
    ///
    /// # Errors
    /// Unsupported if no history is kept.
    pub async fn changes(&self) -> Result<Vec<Change>> {
        self.changes.all().await
    }

    /// A change that can be undone.
    ///
    /// # Errors
    /// Unsupported if no history is kept. Missing if there is no such change, or if it is too old.
    pub async fn change(&self, id: ChangeId) -> Result<Change> {
        self.changes.find(id).await
    }

    /// What a change has changed.
    pub(crate) async fn parts_of(&self, change: &Change) -> Result<Vec<ChangedPart>> {
        self.changes.known_since()?;
        self.changes.parts_of(change).await
    }
}

impl Measurement {
    /// Points of some of its series that were changed under a sequence, at times within a range.
    pub fn changed_part(&self, sequence: Sequence, series: RoaringBitmap, time: TimeRange) -> ChangedPart {
        let (table, measurement) = (self.table(), self.name().to_owned());
        ChangedPart { table, measurement, sequence, time, series: Some(series), columns: None }
    }
}
