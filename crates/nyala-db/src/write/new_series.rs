//! The ids of series that a batch names and that are not in the writer's cache. They are found, or made if memory and the quota
//! of the user allow it. A user without a quota counts nothing and waits for nobody.

use super::pending::{pending_series, with_tags};
use super::{BatchWrite, Measurement, ParsedBatch, SeriesCache};
use crate::users::QuotaKind;
use nyala_core::Result;
use std::sync::Arc;
use tokio::sync::MutexGuard;

/// Why a series is not created.
#[derive(Debug, Clone)]
pub(super) enum NoSeries {
    /// There is no memory, or no id.
    Full(String),
    /// The database has as many as the quota of the user allows.
    Quota(u64),
}

/// How many series may still be created. As long as this is held, nobody else who has a quota creates any.
pub(super) struct SeriesRoom<'a> {
    pub(super) left: u64,
    pub(super) most: u64,
    _alone: MutexGuard<'a, ()>,
}

impl NoSeries {
    /// InfluxDB's words for its own limit, on which clients match, and what they do not say.
    pub(super) fn of_quota(most: u64, what: &str) -> String {
        let name = QuotaKind::SeriesPerDatabase.name();
        format!("max-series-per-database limit exceeded: ({most}): no new {what}: quota {name} of this user")
    }

    /// The message about a series in a place.
    pub(super) fn message(&self, place: &str) -> String {
        match self {
            Self::Full(reason) => format!("no new series on {place}: {reason}"),
            Self::Quota(most) => Self::of_quota(*most, &format!("series on {place}")),
        }
    }
}

impl BatchWrite<'_> {
    /// Counts the series of the database, if there is a quota.
    pub(super) async fn series_room(&self) -> Result<Option<SeriesRoom<'_>>> {
        let Some(most) = self.series_max else { return Ok(None) };
        let alone = self.series_quotas.lock().await;
        let left = most.saturating_sub(self.catalog.count_series_of(self.database).await?);
        Ok(Some(SeriesRoom { left, most, _alone: alone }))
    }

    /// Finds or makes the ids of the series that the cache lacks. If memory is full, or `was_full` when the batch began, it
    /// makes none. If some series have no id, returns why.
    pub(super) fn resolve_series(
        &self,
        cache: &mut SeriesCache,
        batch: &mut ParsedBatch,
        measurements: &[Option<Arc<Measurement>>],
        was_full: bool,
        mut room: Option<SeriesRoom<'_>>,
    ) -> Option<NoSeries> {
        let mut no_series_reason = None;
        for (handle, measurement) in pending_series(cache, batch, measurements) {
            let id = with_tags(cache, handle, measurement, |tags| {
                let found = || measurement.stored().find_and_reactivate(tags);
                if let Some(room) = room.as_ref().filter(|room| room.left == 0) {
                    return found().ok_or(NoSeries::Quota(room.most));
                }
                if was_full || self.is_memory_full() {
                    return found().ok_or_else(|| NoSeries::Full(self.memory_full_message()));
                }
                let created = measurement.stored().new_series_id(tags).map_err(NoSeries::Full)?;
                let (id, memory_bytes) = created;
                self.catalog.add_series_memory(memory_bytes);
                // What was there takes none.
                if let Some(room) = room.as_mut().filter(|_| memory_bytes > 0) {
                    room.left -= 1;
                }
                Ok(id)
            });
            match id {
                Some(Ok(id)) => cache.set_series_id(handle, id.0),
                Some(Err(reason)) => no_series_reason = Some(reason),
                None => {}
            }
        }
        batch.resolve(cache);
        no_series_reason
    }

    /// Counts that a quota has kept points from being stored.
    pub(super) fn note_series_refused(&self) {
        self.catalog.users().quota_refusals().note(QuotaKind::SeriesPerDatabase);
    }
}
