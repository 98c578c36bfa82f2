//! Asks the store for the aggregates of some groups and buckets after the other.
//!
//! Groups come one after the other with all of their buckets, or buckets with all of their groups: whichever order is
//! wanted. So only the states of a part of them are in memory. A group that has no row in a bucket is none in SQL, so rows
//! are counted wherever no other aggregate says that there is one.

use super::columns::{Answer, TagColumn};
use super::{Function, GroupOrder, Grouping, Key, MeasurementAggregate, Place};
use crate::buckets::Buckets;
use crate::error::SqlResult;
use crate::execution::Execution;
use crate::measurement::MANY_SERIES;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{
    AggregateFunction, AggregateRequest, Comparison, Measure, Predicate, SnapshotRef, Windows,
};
use nyala_core::{ErrorKind, SeriesId, TableId, TimeRange, before_long_work};
use nyala_db::scan::Points;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{GroupSeries, QueryMemory};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// About how many bytes a state takes, with what is made of it.
const STATE_BYTES: usize = 64;
/// The most states at once, unless a single bucket of all groups has more.
const STATES_AT_ONCE: usize = 1 << 20;
/// The states of a request take at most this part of a statement's memory. Buckets that are asked for in several requests
/// read the blocks at their edges twice.
const MEMORY_SHARE: usize = 3;
/// The fewest buckets of a request, if a limit may end the statement before the last.
const BUCKETS_AT_ONCE: usize = 16;
/// With more states than this for each row, rows are aggregated one by one: most states would stay empty.
const STATES_PER_ROW: u64 = 2;
/// So few states are always asked for.
const FEW_STATES: usize = 1 << 16;
/// About how many bytes a series takes: its id with its group, twice.
const SERIES_BYTES: usize = 32;

/// Aggregates that are being computed.
pub(super) struct Computing {
    schema: SchemaRef,
    grouping: Arc<Grouping>,
    stored: Stored,
    series: GroupSeries,
    /// The groups in the order in which they are shown.
    groups: Vec<u32>,
    windows: Windows,
    by_bucket: bool,
    backwards: bool,
    tags: Vec<TagColumn>,
    /// How many groups, or buckets, are done.
    done: usize,
    at_once: usize,
    /// Whether requests may grow, because they begin small for the sake of a limit.
    grows: bool,
    left: Option<usize>,
    /// Whether there is one group even if there are no rows.
    is_whole: bool,
    _points: Points,
    _held: MemoryCharge,
}

/// What the store is asked for.
struct Stored {
    snapshot: SnapshotRef,
    table: TableId,
    time: TimeRange,
    predicates: Vec<Predicate>,
    measures: Vec<Measure>,
    /// By aggregate its measure; `None` if the snapshot lacks its column.
    places: Vec<Option<usize>>,
    memory: QueryMemory,
}

impl Computing {
    /// Finds series, groups and buckets. `None` if the store had better not be asked.
    pub(super) async fn begin(
        aggregate: &MeasurementAggregate,
        execution: Arc<Execution>,
    ) -> SqlResult<Option<Self>> {
        let (scan, grouping) = (&aggregate.scan, &aggregate.grouping);
        let snapshot = execution.snapshot().await?.clone();
        let conditions = scan.conditions.with(&scan.columns, execution.values())?.into_owned();
        let points = execution.context().catalog.points(&scan.measurement, &conditions.tags, conditions.time);
        let points = points.await?;
        if points.series().len() >= MANY_SERIES {
            before_long_work().await;
        }
        let table = scan.measurement.table();
        let schema = snapshot.schema(table).ok();
        let is_there = |id| schema.as_ref().is_some_and(|schema| schema.column(id).is_some());
        let mut predicates = conditions.predicates;
        let can_hold = |own: &Predicate| {
            is_there(own.column) || schema.is_some() && own.comparison == Comparison::IsNull
        };
        let mut has_rows = schema.is_some() && predicates.iter().all(can_hold) && !points.series().is_empty();
        predicates.retain(|own| is_there(own.column));
        let bounds = match has_rows {
            true => snapshot.time_bounds(table, conditions.time).await?,
            false => None,
        };
        let time = bounds.map_or(TimeRange::new(0, 0), |bounds| bounds.intersect(conditions.time));
        has_rows &= !time.is_empty();

        let memory = execution.memory().clone();
        let mut held = memory.hold();
        let keys: Vec<String> = grouping.tags().cloned().collect();
        if !has_room(held.charge(points.series().len() as usize * SERIES_BYTES))? {
            return Ok(None);
        }
        let members = if has_rows { Cow::Borrowed(points.series()) } else { Cow::default() };
        let found = scan.measurement.series().group(&members, &keys);
        drop(members);
        let (values_count, text_bytes) = found.values.size();
        if !has_room(held.charge(text_bytes + values_count * size_of::<usize>() * 4))? {
            return Ok(None);
        }
        let is_whole = grouping.keys.is_empty();
        let groups = if is_whole { 1 } else { found.values.len() };
        let tags: Vec<TagColumn> = (0..keys.len()).map(|key| TagColumn::of(&found.values, key)).collect();
        let series = GroupSeries::of(groups, &found.members);

        let windows = match grouping.buckets() {
            _ if !has_rows => Windows::single(time),
            None => Windows::single(time),
            Some(buckets) => match buckets.windows(time.start_ns, time.end_ns - 1) {
                Some(windows) => windows,
                None => return Ok(None),
            },
        };
        let order = aggregate.order.as_ref();
        let mut in_order: Vec<u32> = (0..groups as u32).collect();
        if let Some(order) = order {
            let of_key = |position: usize| &tags[grouping.tag_number(position)];
            in_order.sort_by(|one, other| compare(order, one, other, of_key));
        }
        let (by_bucket, backwards) = match order.and_then(|order| order.bucket) {
            Some((place, is_descending)) => (place == Place::First, is_descending),
            None => (false, false),
        };

        let mut stored =
            Stored { places: Vec::new(), measures: Vec::new(), table, time, predicates, memory, snapshot };
        for own in &grouping.aggregates {
            let measure = Measure { column: own.column, function: own.function.measure() };
            let place = is_there(own.column).then(|| stored.place_of(measure));
            stored.places.push(place);
        }
        let (groups, buckets) = (groups.max(1), windows.count());
        let slots = groups.saturating_mul(buckets);
        if slots > FEW_STATES {
            let rows = stored.snapshot.estimate_rows(table, time).await?;
            if slots as u64 > rows.saturating_mul(STATES_PER_ROW) {
                return Ok(None);
            }
        }
        // The states of one more measure: rows are counted.
        let limit_bytes = stored.memory.limit_bytes();
        // What the store makes of them takes about as much again.
        let free_bytes = limit_bytes.saturating_sub(stored.memory.used_bytes()) / 2;
        let states = (limit_bytes / MEMORY_SHARE).min(free_bytes) / STATE_BYTES;
        let states = states.min(STATES_AT_ONCE) / (stored.measures.len() + 1);
        let across = if by_bucket { groups } else { buckets };
        if across > states {
            return Ok(None);
        }
        let limit = aggregate.limit;
        let mut at_once = (states / across.max(1)).max(1);
        let mut grows = false;
        if let Some(limit) = limit
            && (by_bucket || groups == 1)
        {
            let needed = limit.div_ceil(groups).max(BUCKETS_AT_ONCE);
            grows = needed < at_once;
            at_once = at_once.min(needed);
        }
        Ok(Some(Self {
            schema: aggregate.ordinary.schema(),
            grouping: grouping.clone(),
            stored,
            series,
            groups: in_order,
            windows,
            // The buckets of one group are shown from either end.
            by_bucket: by_bucket || groups == 1 && grows,
            backwards,
            tags,
            done: 0,
            at_once,
            grows,
            left: limit,
            is_whole,
            _points: points,
            _held: held,
        }))
    }

    /// The next rows; `None` at the end.
    pub(super) async fn next(&mut self) -> SqlResult<Option<RecordBatch>> {
        loop {
            let all = if self.by_bucket { self.windows.count() } else { self.groups.len() };
            if self.done >= all || self.left == Some(0) {
                return Ok(None);
            }
            let part = self.done..(self.done + self.at_once).min(all);
            self.done = part.end;
            if self.grows {
                self.at_once *= 2;
            }
            let mut rows = self.part(part).await?;
            if let Some(left) = &mut self.left {
                rows = rows.slice(0, rows.num_rows().min(*left));
                *left -= rows.num_rows();
            }
            if rows.num_rows() > 0 {
                return Ok(Some(rows));
            }
        }
    }

    /// The rows of some groups, or of some buckets.
    async fn part(&self, part: Range<usize>) -> SqlResult<RecordBatch> {
        let (groups, windows) = match self.by_bucket {
            false => (&self.groups[part], self.windows.clone()),
            true => {
                let count = self.windows.count();
                let first = if self.backwards { count - part.end } else { part.start };
                (&self.groups[..], self.windows.part(first, part.len()))
            }
        };
        let mut members: Vec<(SeriesId, u32)> = Vec::new();
        for (number, group) in (0..).zip(groups) {
            members.extend(self.series[*group as usize].iter().map(|id| (*id, number)));
        }
        members.sort_unstable();
        let states = groups.len() * windows.count() * (self.stored.measures.len() + 1);
        let mut held = self.stored.memory.hold();
        held.charge(states * STATE_BYTES)?;
        let mut request = self.stored.request(members, groups.len(), windows.clone());
        let no_rows = request.series.is_empty() || self.stored.time.is_empty();
        let (states, rows) = match no_rows {
            true => (Vec::new(), None),
            false => {
                let states = match request.measures.is_empty() {
                    true => Vec::new(),
                    false => self.stored.snapshot.aggregate(request.clone()).await?.measures,
                };
                let counted = self.stored.measures.iter().position(|own| *own == ROWS);
                let rows = match counted {
                    Some(place) => Some(states[place].clone()),
                    None if self.is_whole || Answer::shows_all(&states, request.slots()) => None,
                    None => {
                        request.measures = vec![ROWS];
                        self.stored.snapshot.aggregate(request).await?.measures.pop()
                    }
                };
                (states, rows)
            }
        };
        let answer = Answer {
            grouping: &self.grouping,
            states,
            places: &self.stored.places,
            rows,
            groups,
            windows,
            by_bucket: self.by_bucket,
            backwards: self.backwards,
            tags: &self.tags,
            is_empty: no_rows,
            is_whole: self.is_whole,
        };
        answer.rows(&self.schema)
    }
}

/// The measure that counts rows.
const ROWS: Measure = Measure { column: TIME_COLUMN, function: AggregateFunction::Count };

/// Whether memory of the statement was charged; rows are aggregated where it has not enough, which can use the disk.
fn has_room(charged: nyala_core::Result<()>) -> SqlResult<bool> {
    match charged {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Limit => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Stored {
    fn place_of(&mut self, measure: Measure) -> usize {
        let known = self.measures.iter().position(|own| *own == measure);
        known.unwrap_or_else(|| {
            self.measures.push(measure);
            self.measures.len() - 1
        })
    }

    fn request(&self, members: Vec<(SeriesId, u32)>, groups: usize, windows: Windows) -> AggregateRequest {
        AggregateRequest {
            table: self.table,
            series: members.into(),
            groups,
            time: self.time,
            windows,
            predicates: self.predicates.clone(),
            measures: self.measures.clone(),
            times: false,
        }
    }
}

impl Grouping {
    fn tags(&self) -> impl Iterator<Item = &String> {
        self.keys.iter().filter_map(|key| match key {
            Key::Tag(tag) => Some(tag),
            Key::Bucket(_) => None,
        })
    }

    /// The number of a tag among the tags, by its position among the keys.
    fn tag_number(&self, position: usize) -> usize {
        self.keys[..position].iter().filter(|key| matches!(key, Key::Tag(_))).count()
    }

    fn buckets(&self) -> Option<&Buckets> {
        self.keys.iter().find_map(|key| match key {
            Key::Bucket(buckets) => Some(buckets),
            Key::Tag(_) => None,
        })
    }
}

fn compare<'a>(
    order: &GroupOrder,
    one: &u32,
    other: &u32,
    of_key: impl Fn(usize) -> &'a TagColumn,
) -> Ordering {
    for (position, direction) in &order.tags {
        let tag = of_key(*position);
        let by = match (tag.text(*one), tag.text(*other)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if direction.nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if direction.nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(one), Some(other)) if direction.is_descending => other.cmp(one),
            (Some(one), Some(other)) => one.cmp(other),
        };
        if by.is_ne() {
            return by;
        }
    }
    Ordering::Equal
}

impl Function {
    /// Whether a group without values has one nevertheless.
    pub(super) fn counts(self) -> bool {
        self == Function::Count
    }
}
