//! Takes back what a change did in one table: compares what was before it, after it, and is now.

use super::UndoWork;
use super::lost_series::{LostSeries, Target};
use super::put_back::PutBack;
use super::rows::{Row, Rows};
use crate::catalog::{Catalog, Field, FieldType, Measurement, ShardStarts, shard_starts};
use crate::changes::ChangedPart;
use arrow_array::Array;
use nyala_core::arrays::is_same_cell;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::past::PastStore;
use nyala_core::store::{
    Around, Freshness, Operation, RowSelection, ScanRequest, SeriesSet, SnapshotRef, Stage, StoreRef,
    WriteBatch,
};
use nyala_core::{Error, ErrorKind, Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What was put back.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) points: u64,
    pub(super) cells: u64,
    pub(super) left_alone: u64,
    /// The series that got something back.
    pub(super) written: RoaringBitmap,
    /// Those that lost points.
    pub(super) deleted: RoaringBitmap,
    /// The range from the first to the last point.
    pub(super) time: Option<TimeRange>,
    /// The types that fields need in shards, which are named by their starts.
    types: BTreeSet<(i64, String, FieldType)>,
}

/// Takes a part of a change back.
pub(super) struct PartUndo<'a> {
    catalog: &'a Catalog,
    measurement: &'a Measurement,
    work: &'a UndoWork<'a>,
    lost: &'a mut LostSeries,
    /// The fields that the change may have altered.
    fields: Vec<Field>,
    around: Around,
    now: SnapshotRef,
    time: TimeRange,
    series: SeriesSet,
    /// The store after the change: it has the records of all series before and after it.
    past: StoreRef,
    shards: Shards,
    put_back: PutBack,
    outcome: Outcome,
}

/// Which fields have another type in a shard by now.
struct Shards {
    starts: ShardStarts,
    /// The shard that was looked at last, and its fields by position.
    last: Option<(TimeRange, Vec<bool>)>,
}

impl<'a> PartUndo<'a> {
    pub(super) async fn new(
        catalog: &'a Catalog,
        measurement: &'a Measurement,
        part: &ChangedPart,
        work: &'a UndoWork<'a>,
        lost: &'a mut LostSeries,
    ) -> Result<Self> {
        let store = catalog.store();
        let around = store.around(part.sequence).await.map_err(|error| match error.kind() {
            ErrorKind::Missing => error.context("the change cannot be undone any more"),
            _ => error,
        })?;
        // Writers are locked out.
        let now = store.snapshot(Freshness::Latest).await?;
        let mut fields = measurement.stored().all_fields();
        if let Some(columns) = &part.columns {
            fields.retain(|field| columns.contains(&field.column));
        }
        let past: StoreRef = Arc::new(PastStore::of(store.clone(), around.after.clone()));
        let starts = shard_starts(measurement.stored(), &now).await?;
        let series = match &part.series {
            Some(series) => SeriesSet::Ids(series.iter().map(SeriesId).collect()),
            None => SeriesSet::All,
        };
        let put_back = PutBack::new(measurement.table(), fields.clone());
        let (time, shards, outcome) = (part.time, Shards { starts, last: None }, Outcome::default());
        Ok(Self {
            catalog,
            measurement,
            work,
            lost,
            fields,
            around,
            now,
            time,
            series,
            past,
            shards,
            put_back,
            outcome,
        })
    }

    /// Stages what is put back.
    pub(super) async fn run(mut self, stage: &mut dyn Stage) -> Result<Outcome> {
        let mut before = self.rows(&self.around.before, self.series.clone()).await?;
        let mut after = self.rows(&self.around.after, self.series.clone()).await?;
        let mut now = self.rows(&self.now, self.series.clone()).await?;
        while let Some(series) = lowest(before.series(), after.series()) {
            (self.work.check)()?;
            let is_there = self.measurement.stored().series().contains(SeriesId(series));
            let target = match is_there {
                true => Target::Existing(series),
                false => {
                    let next = before.next_series().chain(after.next_series()).collect();
                    self.lost.target(self.measurement.stored(), &self.past, series, next).await?
                }
            };
            let mut own = Rows::none();
            let id = match target {
                Target::Existing(id) => id,
                Target::New => series,
            };
            if let Target::Existing(id) = target
                && id != series
            {
                own = self.rows(&self.now, SeriesSet::Ids([SeriesId(id)].into())).await?;
            }
            let present = match target {
                Target::Existing(id) if id == series => &mut now,
                _ => &mut own,
            };
            while let Some(time_ns) = lowest(before.time_of(series), after.time_of(series)) {
                present.seek(id, time_ns).await?;
                let (then, made) = (before.at(series, time_ns), after.at(series, time_ns));
                let (was_then, was_made) = (then.is_some(), made.is_some());
                self.point((series, target), time_ns, (then, made, present.at(id, time_ns)))?;
                if was_then {
                    before.advance().await?;
                }
                if was_made {
                    after.advance().await?;
                }
                let ready = self.put_back.take_ready();
                self.stage(stage, ready).await?;
            }
        }
        let last = std::mem::replace(&mut self.put_back, PutBack::new(self.measurement.table(), Vec::new()));
        self.stage(stage, last.finish()).await?;
        Ok(self.outcome)
    }

    /// Rows of some series with the times and the fields, which are behind the times.
    async fn rows(&self, snapshot: &SnapshotRef, series: SeriesSet) -> Result<Rows> {
        let columns = std::iter::once(TIME_COLUMN).chain(self.fields.iter().map(|field| field.column));
        let selection = RowSelection::Series { series, time: self.time };
        let request = ScanRequest::by_key(self.measurement.table(), selection, columns.collect());
        let stream = self.measurement.scan(snapshot, request).await?;
        Rows::of(Some(
            stream.ok_or_else(|| Error::missing("the past of the measurement is not known any more"))?,
        ))
        .await
    }

    /// The series that points of a series are put back into. A new one is made for the first of them.
    fn series_to_write(&mut self, (series, target): (u32, Target)) -> Result<u32> {
        if let Target::Existing(id) = target {
            return Ok(id);
        }
        let limit_bytes = self.work.series_limit_bytes;
        if self.catalog.series_memory_bytes() > limit_bytes {
            return Err(Error::limit(format!(
                "series take all of {} MiB, half of memory-limit: there is no room for those that would come back",
                limit_bytes >> 20
            )));
        }
        self.lost.number(self.measurement.stored(), series)
    }

    async fn stage(&self, stage: &mut dyn Stage, operations: Vec<Operation>) -> Result<()> {
        if operations.is_empty() {
            return Ok(());
        }
        (self.work.check)()?;
        for operation in &operations {
            note_rows(self.measurement, operation);
        }
        stage.write(WriteBatch { operations }).await.map(drop)
    }

    /// Puts a point back: as it was before the change, just after it, and is now.
    fn point(
        &mut self,
        of: (u32, Target),
        time_ns: i64,
        (before, after, now): (Option<Row<'_>>, Option<Row<'_>>, Option<Row<'_>>),
    ) -> Result<()> {
        let altered: Vec<usize> =
            (0..self.fields.len()).filter(|field| !is_same(before, after, *field)).collect();
        if altered.is_empty() && before.is_some() == after.is_some() {
            return Ok(());
        }
        if after.is_some() && now.is_none() {
            // Somebody has deleted it since.
            self.outcome.left_alone += altered.len() as u64;
            return Ok(());
        }
        let mut own: Vec<usize> =
            altered.iter().copied().filter(|field| is_same(after, now, *field)).collect();
        own.retain(|field| {
            !has(before, *field) || !self.shards.is_blocked(self.measurement, &self.fields, time_ns, *field)
        });
        self.outcome.left_alone += (altered.len() - own.len()) as u64;
        let is_as_made = before.is_none() && (0..self.fields.len()).all(|field| is_same(after, now, field));
        if own.is_empty() && !altered.is_empty() && !is_as_made {
            return Ok(());
        }
        let id = self.series_to_write(of)?;
        self.note(time_ns, &own);
        let is_counted_only = self.work.author.is_none();
        if is_as_made {
            self.outcome.deleted.insert(id);
            if !is_counted_only {
                self.put_back.delete(id, time_ns);
            }
            return Ok(());
        }
        self.outcome.written.insert(id);
        let shard_ns = self.shards.starts.start_of(time_ns);
        for field in own.iter().filter(|field| has(before, **field)) {
            let Field { name, field_type, .. } = &self.fields[*field];
            self.outcome.types.insert((shard_ns, name.clone(), *field_type));
        }
        if !is_counted_only {
            self.put_back.set(id, time_ns, before, &own);
        }
        Ok(())
    }

    fn note(&mut self, time_ns: i64, cells: &[usize]) {
        self.outcome.points += 1;
        self.outcome.cells += cells.len() as u64;
        let own = TimeRange::new(time_ns, time_ns.saturating_add(1));
        self.outcome.time = Some(self.outcome.time.map_or(own, |known| known.around(own)));
    }
}

impl Outcome {
    /// Gives fields the types in shards that their values have.
    pub(super) fn claim_types(&self, measurement: &Measurement) {
        for (shard_ns, name, field_type) in &self.types {
            measurement.claim_shard_type(*shard_ns, name, *field_type);
        }
        let fields: Vec<_> =
            self.types.iter().map(|(_, name, field_type)| (name.clone(), *field_type)).collect();
        measurement.show_fields(&fields);
    }
}

impl Shards {
    /// Whether a field has another type in the shard of a time: values of its old type do not fit there any more.
    fn is_blocked(
        &mut self,
        measurement: &Measurement,
        fields: &[Field],
        time_ns: i64,
        field: usize,
    ) -> bool {
        let is_known = |(shard, _): &&(TimeRange, Vec<bool>)| shard.contains(time_ns);
        if let Some((_, blocked)) = self.last.as_ref().filter(is_known) {
            return blocked[field];
        }
        let shard = self.starts.range_of(time_ns);
        let is_other = |own: &Field| {
            measurement.shard_type(shard.start_ns, &own.name).is_some_and(|known| known != own.field_type)
        };
        let blocked: Vec<bool> = fields.iter().map(is_other).collect();
        let is_blocked = blocked[field];
        self.last = Some((shard, blocked));
        is_blocked
    }
}

/// Notes that rows are about to be written.
fn note_rows(measurement: &Measurement, operation: &Operation) {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{TimestampNanosecondType, UInt32Type};
    if let Operation::Upsert(upsert) = operation {
        let (series, times) = (&upsert.columns[0].values, &upsert.columns[1].values);
        let times = times.as_primitive::<TimestampNanosecondType>();
        measurement.stored().note_rows(series.as_primitive::<UInt32Type>().values(), times.values());
    }
}

/// Whether a field of two points has the same value. A point that is not there has none.
fn is_same(one: Option<Row<'_>>, other: Option<Row<'_>>, field: usize) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same_cell(
            (&one.batch.columns[1 + field], one.row),
            (&other.batch.columns[1 + field], other.row),
        ),
        (Some(only), None) | (None, Some(only)) => !has(Some(only), field),
        (None, None) => true,
    }
}

/// Whether a point has a value of a field.
fn has(point: Option<Row<'_>>, field: usize) -> bool {
    point.is_some_and(|point| point.batch.columns[1 + field].is_valid(point.row))
}

fn lowest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
