//! Deletes points: with field conditions as a correction, otherwise as deleted ranges of the store.

use super::staged::{Others, SelectedChange};
use crate::catalog::{Catalog, Measurement};
use crate::changes::Changed;
use crate::selection::PointSelection;
use crate::series::TagFilter;
use nyala_core::{Result, TimeRange};

impl Catalog {
    /// Deletes the points of some series of a measurement within a time range. Series that have no points left are
    /// removed.
    pub async fn delete_points(
        &self,
        measurement: &Measurement,
        tags: &TagFilter,
        time: TimeRange,
    ) -> Result<()> {
        self.delete_selected(measurement, &PointSelection::new(tags.clone(), time), false).await.map(drop)
    }

    /// Deletes points of a measurement. Series that have no points left are removed. The answer says how many points there
    /// were, if `counted`.
    pub async fn delete_selected(
        &self,
        measurement: &Measurement,
        selection: &PointSelection,
        counted: bool,
    ) -> Result<Changed> {
        let PointSelection { tags, time, predicates } = selection;
        // Evicted series need not be reloaded if all their points are deleted.
        let is_all =
            matches!(tags, TagFilter::All) && predicates.is_empty() && !measurement.is_member() && !counted;
        let table = measurement.stored();
        let _pin = match is_all {
            true => table.reload_cut(*time, self).await?,
            false => self.reload_series(measurement, *time, tags).await?,
        };
        if !predicates.is_empty() && self.can_stage_corrections() {
            return match self.correct_selected(measurement, selection, &SelectedChange::Delete).await {
                Err(_) if measurement.was_dropped() => Ok(Changed::default()),
                outcome => outcome,
            };
        }
        let _lock = table.table_lock().lock_exclusive().await;
        if table.table_lock().was_dropped() {
            return Ok(Changed::default());
        }
        let found = match counted {
            true => Some(self.found_points(Others::Wait, measurement, selection).await?),
            false => None,
        };
        let points = found.as_ref().map_or(0, |found| found.points);
        let mut part = self.delete_owned(measurement, selection, is_all).await?;
        if let (Some(part), Some(found)) = (&mut part, found) {
            (part.series, part.time) = (Some(found.series), found.time);
        }
        // A deletion that is known to have found no points is no change that could be undone.
        let part = part.filter(|_| points > 0 || !counted);
        let is_whole_member =
            matches!(tags, TagFilter::All) && selection.is_all_times() && measurement.is_member();
        if is_whole_member && !measurement.was_dropped() && !self.is_shared() {
            self.forget_member(measurement).await?;
        }
        Ok(Changed { points, part })
    }
}
