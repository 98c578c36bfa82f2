//! Deleting points, and the series that have none left.

use crate::catalog::{Catalog, Measurement};
use crate::series::TagFilter;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{Delete, Operation, RowSelection, ScanRequest, SeriesSet};
use nyala_core::{Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;

/// Series that are asked for rows before all are.
const WITNESSES_AT_ONCE: usize = 1 << 12;

impl Catalog {
    /// Deletes the points of some series of a measurement within a time range. Series that have no point
    /// left afterwards are gone.
    pub async fn delete_points(
        &self,
        measurement: &Measurement,
        tags: &TagFilter,
        time: TimeRange,
    ) -> Result<()> {
        // Series that are away need not come if all their points go.
        let is_all = matches!(tags, TagFilter::All);
        let _stay = match is_all {
            true => measurement.recall_cut(time, self).await?,
            false => self.recall(measurement, time, tags).await?,
        };
        let _owned = measurement.membership().own().await;
        if measurement.membership().has_ended() {
            return Ok(());
        }
        let mut ids = measurement.series().select(tags);
        if time != TimeRange::ALL {
            ids = self.with_rows(measurement, ids, time).await?;
        }
        if ids.is_empty() && !(is_all && measurement.has_away()) {
            return Ok(());
        }
        // Before: whoever asked may leave half-way.
        measurement.forget_witnesses(|id| is_all || ids.contains(id));
        let series = if is_all { SeriesSet::All } else { series_set(measurement, &ids) };
        let rows = RowSelection::Series { series, time };
        self.store().delete(Delete { table: measurement.table(), rows, predicates: Vec::new() }).await?;
        let empty = match time == TimeRange::ALL {
            true => ids.clone(),
            false => &ids - self.with_rows(measurement, ids.clone(), TimeRange::ALL).await?,
        };
        let free = self.empty_shards(measurement, time, &empty).await?;
        let types = measurement.forget_shard_types(|start_ns| free.contains(&start_ns));
        self.remove_series(measurement, &empty, types).await?;
        if is_all {
            self.remove_sets_within(measurement, time).await?;
        }
        Ok(())
    }

    /// The shards that lost their last row to a deletion, by their starts: the types of fields are free again there.
    async fn empty_shards(
        &self,
        measurement: &Measurement,
        deleted: TimeRange,
        gone: &RoaringBitmap,
    ) -> Result<BTreeSet<i64>> {
        let partitions = self.store().partitions(measurement.table()).await?;
        let mut empty = BTreeSet::new();
        for start_ns in measurement.shard_starts_ns() {
            let partition = partitions.iter().find(|partition| partition.range.contains(start_ns));
            let is_empty = match partition {
                None => true,
                Some(partition) if !partition.range.overlaps(deleted) => false,
                // One series that still has its rows is enough.
                Some(_) if measurement.has_witness(start_ns) => false,
                Some(partition) => {
                    let witness = self.first_series(measurement, partition.range, gone).await?;
                    measurement.set_witness(start_ns, witness);
                    witness.is_none()
                }
            };
            if is_empty {
                empty.insert(start_ns);
            }
        }
        Ok(empty)
    }

    /// A series that has rows in a range of time, of those that are not gone.
    async fn first_series(
        &self,
        measurement: &Measurement,
        time: TimeRange,
        gone: &RoaringBitmap,
    ) -> Result<Option<u32>> {
        // Rows of those that are gone are hidden by deletions, and need not be walked through where some of the others
        // have rows.
        let mut others = measurement.series().all() - gone;
        measurement.presence().read().narrow(&mut others, std::iter::once(time));
        let some = SeriesSet::Ids(others.iter().take(WITNESSES_AT_ONCE).map(SeriesId).collect());
        for series in [some, SeriesSet::All] {
            let rows = RowSelection::Series { series, time };
            let mut request = ScanRequest::by_key(measurement.table(), rows, vec![TIME_COLUMN]);
            request.limit = Some(1);
            let mut rows = self.snapshot().await?.scan(request).await?;
            while let Some(batch) = rows.next().await? {
                if let Some(run) = batch.series.first().filter(|_| batch.rows > 0) {
                    return Ok(Some(run.series.0));
                }
            }
        }
        Ok(None)
    }

    /// Those of some series that have a point in a range of time.
    async fn with_rows(
        &self,
        measurement: &Measurement,
        ids: RoaringBitmap,
        time: TimeRange,
    ) -> Result<RoaringBitmap> {
        measurement.series_with_points(&self.snapshot().await?, series_set(measurement, &ids), time).await
    }

    /// Drops the partitions of a measurement that lie wholly within a range, and the series that have no point left
    /// then; returns how many partitions. The caller keeps writers out.
    pub(crate) async fn drop_range(&self, measurement: &Measurement, range: TimeRange) -> Result<u64> {
        let gone = self.store().drop_partitions(measurement.table(), range).await?;
        measurement.presence().write().keep(|shard| !range.covers(shard));
        let left = self.store().partitions(measurement.table()).await?;
        let left: Vec<TimeRange> = left.iter().map(|partition| partition.range).collect();
        let _stay = measurement.recall_for_drop(range, &left).await?;
        let mut empty = measurement.series().all().clone();
        let mut present = empty.clone();
        if !measurement.presence().read().narrow(&mut present, left.iter().copied()) {
            present = self.with_rows(measurement, present, TimeRange::ALL).await?;
        }
        empty -= present;
        let types = measurement.forget_shard_types(|start_ns| range.contains(start_ns));
        self.remove_series(measurement, &empty, types).await?;
        Ok(gone.len() as u64)
    }

    /// Takes one step towards knowing which series are in which shards, of measurements with many series. What fails for
    /// one keeps no other; the first error tells of it.
    pub async fn learn_presence(&self) -> Result<()> {
        let mut learned = Ok(());
        for measurement in self.loaded_measurements() {
            if measurement.count_series() >= self.idle_rules().series_min {
                let step = self.learn_presence_of(&measurement).await;
                learned = learned.and(step.map_err(|error| error.context(measurement.name())));
            }
        }
        learned
    }

    async fn learn_presence_of(&self, measurement: &Measurement) -> Result<()> {
        // One that was dropped meanwhile has no partitions.
        let partitions = measurement.partitions().await;
        let shards = || partitions.iter().map(|partition| partition.range);
        // What writers were about when these sets were begun the store has by now: they were kept out since then, and
        // those that left half-way were done long before the next step. One shard at a time: a scan of a large one takes
        // some seconds.
        let newest = measurement.presence().read().incomplete().pop();
        if let Some(range) = newest {
            let all = measurement.series().all().clone();
            let found = self.with_rows(measurement, all, range).await?;
            measurement.presence().write().complete(range, &found);
        }
        let is_lacking = |range: &TimeRange| measurement.presence().read().lacks(*range);
        if shards().any(|range| is_lacking(&range)) {
            let _owned = measurement.membership().own().await;
            let lacking: Vec<_> = shards().filter(is_lacking).collect();
            let mut presence = measurement.presence().write();
            presence.keep(|known| shards().any(|range| range == known));
            lacking.into_iter().for_each(|range| presence.begin(range));
        }
        Ok(())
    }

    /// Removes series that have no point, and with the same batch what else is to be forgotten. The caller keeps writers
    /// out.
    async fn remove_series(
        &self,
        measurement: &Measurement,
        gone: &RoaringBitmap,
        others: Option<Operation>,
    ) -> Result<()> {
        let before = measurement.memory_bytes();
        let removed = measurement.remove_series(gone, others).await;
        self.give_back_series_memory(before.saturating_sub(measurement.memory_bytes()));
        removed
    }
}

/// A set of series of a measurement, said shortly where it is all of them, and none is away.
fn series_set(measurement: &Measurement, ids: &RoaringBitmap) -> SeriesSet {
    // Nobody leaves or comes as long as the series are held.
    let series = measurement.series();
    match !measurement.has_away() && *series.all() == *ids {
        true => SeriesSet::All,
        false => SeriesSet::Ids(ids.iter().map(SeriesId).collect()),
    }
}
