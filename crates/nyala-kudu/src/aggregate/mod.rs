//! Aggregates of rows as they arrive from the tablets.
//!
//! The tablets of a hash bucket, one for each range of time, are a part; the parts are read side by side, each in the
//! order of its series. A few series are a part each, because servers read single series faster than a list of them.
//! A part makes states of each series and window ([`accumulate`]); here they are added up in the order of ranges and
//! series. So the order in which floats are added is that of the contract, whatever arrives first.

mod accumulate;
mod newest;

pub(crate) use newest::suffices as newest_suffices;

use crate::rows::Rows;
use crate::scan::Reader;
use accumulate::{Accumulator, Chunk, NanFound};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::newest::NewestRows;
use nyala_core::store::{
    AggregateRequest, PartialAggregates, RowSelection, RowStream, ScanRequest, SeriesSet,
};
use nyala_core::{Error, ErrorKind, Result, SeriesId, TimeRange};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// So many series at most are read one by one.
pub(crate) const SERIES_ALONE: usize = 16;
/// The newest rows of series are taken to be so far apart where nothing is known of them: an hour has four.
const STEP_NS: i64 = 900_000_000_000;
/// Chunks that a part may be ahead.
const CHUNKS_AHEAD: usize = 2;

/// Computes a validated request. `None`: an extreme of floats that are not numbers, which depends on the order of all of
/// them, is wanted.
pub(crate) async fn aggregate(
    reader: Reader<'_>,
    request: Arc<AggregateRequest>,
    newest_rows: Option<NewestRows>,
) -> Result<Option<PartialAggregates>> {
    let ranges = ranges_within(reader, request.time.intersect(request.windows.span()));
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return request.empty_states(&reader.table.schema).map(Some);
    };
    if !newest_suffices(&request) {
        return aggregate_ranges(reader, request, &ranges).await;
    }
    let mut states = request.empty_states(&reader.table.schema)?;
    let now_ns = i64::try_from(reader.at.micros()).map_or(i64::MAX, |micros| micros.saturating_mul(1000));
    let end_ns = if last.contains(now_ns) { now_ns } else { last.end_ns };
    let newest_rows = newest_rows.unwrap_or(NewestRows { end_ns, step_ns: STEP_NS });
    for slice in newest_rows.slices(TimeRange::new(first.start_ns, last.end_ns)) {
        let Some(rest) = newest::rest(&request, &states) else { break };
        let parts = ranges.iter().map(|range| range.intersect(slice)).filter(|part| !part.is_empty());
        let parts: Vec<TimeRange> = parts.collect();
        let Some(more) = aggregate_ranges(reader, Arc::new(rest), &parts).await? else { return Ok(None) };
        for ((state, more), measure) in states.measures.iter_mut().zip(&more.measures).zip(&request.measures)
        {
            (0..request.groups).for_each(|slot| state.add_slot(slot, measure.function, more, slot));
        }
    }
    Ok(Some(states))
}

/// The times of the table's ranges within a range of times, ascending.
fn ranges_within(reader: Reader<'_>, time: TimeRange) -> Vec<TimeRange> {
    let ranges: Vec<TimeRange> = match reader.table.schema.partitioning.time_width_ns() {
        None => vec![time],
        Some(_) => reader.table.ranges.iter().map(|range| range.time.intersect(time)).collect(),
    };
    ranges.into_iter().filter(|range| !range.is_empty()).collect()
}

async fn aggregate_ranges(
    reader: Reader<'_>,
    request: Arc<AggregateRequest>,
    ranges: &[TimeRange],
) -> Result<Option<PartialAggregates>> {
    let schema = &reader.table.schema;
    let mut states = request.empty_states(schema)?;
    if ranges.is_empty() || request.series.is_empty() {
        return Ok(Some(states));
    }
    let empty = AggregateRequest { groups: 0, ..(*request).clone() }.empty_states(schema)?;
    let accumulator = || Accumulator::new(request.clone(), empty.clone());
    let mut columns = vec![TIME_COLUMN];
    columns.extend(request.measures.iter().map(|measure| measure.column));
    let all = ScanRequest {
        predicates: request.predicates.clone(),
        ..ScanRequest::by_key(request.table, RowSelection::All, columns)
    };
    let ids: Vec<SeriesId> = request.series.iter().map(|(series, _)| *series).collect();
    let tablets = tablets_by_part(reader, &all, &ids, ranges).await?;
    let mut parts: Vec<Part> =
        tablets.into_iter().map(|tablets| Part { tablets, open: None, accumulator: accumulator() }).collect();
    let mut total = Total { request: &request, states: &mut states };
    let is_complete = match &mut *parts {
        [part] => total.add_part(part).await?,
        _ => total.add_parts(parts).await?,
    };
    Ok(is_complete.then_some(states))
}

/// The tablets of a part: of ascending times, each with the start of the next range.
type Tablets = VecDeque<(Option<i64>, Rows)>;

/// The scans of some series and ranges of times; `all` is the same for all rows.
async fn tablets_by_part(
    reader: Reader<'_>,
    all: &ScanRequest,
    ids: &[SeriesId],
    ranges: &[TimeRange],
) -> Result<Vec<Tablets>> {
    let sets: Vec<Arc<[SeriesId]>> = match ids.len() {
        ..=SERIES_ALONE => ids.iter().map(|series| [*series].into()).collect(),
        _ => vec![ids.into()],
    };
    let mut distinct: HashSet<(usize, Vec<u32>)> = HashSet::new();
    let mut scans = 0;
    let mut parts: BTreeMap<(usize, Vec<u32>), Tablets> = BTreeMap::new();
    for (number, range) in ranges.iter().enumerate() {
        let next_start_ns = ranges.get(number + 1).map(|next| next.start_ns);
        for (set, series) in sets.iter().enumerate() {
            let rows = RowSelection::Series { series: SeriesSet::Ids(series.clone()), time: *range };
            for (buckets, rows) in reader.tablets(&ScanRequest { rows, ..all.clone() }).await? {
                distinct.insert((number, buckets.clone()));
                scans += 1;
                parts.entry((set, buckets)).or_default().push_back((next_start_ns, rows));
            }
        }
    }
    reader.reads.add(distinct.len(), scans);
    Ok(parts.into_values().collect())
}

/// Counts in the reader what aggregates of some series in a range of times would ask.
pub(crate) async fn count_reads(
    reader: Reader<'_>,
    all: &ScanRequest,
    ids: &[SeriesId],
    time: TimeRange,
) -> Result<()> {
    tablets_by_part(reader, all, ids, &ranges_within(reader, time)).await.map(drop)
}

/// A part that is read.
struct Part {
    tablets: Tablets,
    /// The tablet that is being read.
    open: Option<Rows>,
    accumulator: Accumulator,
}

/// What comes of a part.
enum Arrival {
    Chunk(Chunk),
    NanFound,
}

impl Part {
    async fn next(&mut self) -> Result<Option<Arrival>> {
        loop {
            if let Some(chunk) = self.accumulator.full_chunk() {
                return Ok(Some(Arrival::Chunk(chunk)));
            }
            let Some(rows) = &mut self.open else {
                let Some((next_start_ns, rows)) = self.tablets.pop_front() else {
                    // What goes on in ranges that nobody has written to yet.
                    return Ok(self.accumulator.finish().map(Arrival::Chunk));
                };
                self.accumulator.begin_range(next_start_ns);
                self.open = Some(rows);
                continue;
            };
            let Some(batch) = rows.next().await? else {
                self.open = None;
                return Ok(Some(Arrival::Chunk(self.accumulator.end_range())));
            };
            if let Err(NanFound) = self.accumulator.add(&batch) {
                return Ok(Some(Arrival::NanFound));
            }
        }
    }
}

/// The chunks of a part as they come.
struct Chunks {
    arrivals: mpsc::Receiver<Result<Arrival>>,
    /// How many ranges have ended.
    range: usize,
    current: Option<Chunk>,
    position: usize,
}

enum Filled {
    Ready,
    Ended,
    NanFound,
}

impl Chunks {
    /// Waits for a chunk with states, if the last one is used up.
    async fn fill(&mut self) -> Result<Filled> {
        loop {
            if let Some(chunk) = &self.current {
                if self.position < chunk.slots.len() {
                    return Ok(Filled::Ready);
                }
                self.range += usize::from(chunk.ends_range);
                self.current = None;
            }
            match self.arrivals.recv().await.transpose()? {
                None => return Ok(Filled::Ended),
                Some(Arrival::NanFound) => return Ok(Filled::NanFound),
                Some(Arrival::Chunk(chunk)) => (self.current, self.position) = (Some(chunk), 0),
            }
        }
    }

    /// The range and series that come next.
    fn place(&self) -> (usize, SeriesId) {
        let chunk = self.current.as_ref().expect("is filled");
        (self.range, chunk.slots[self.position].0)
    }
}

/// The states of the request, to which those of parts are added.
struct Total<'a> {
    request: &'a AggregateRequest,
    states: &'a mut PartialAggregates,
}

impl Total<'_> {
    /// Adds the only part; `false` if a NaN was found.
    async fn add_part(&mut self, part: &mut Part) -> Result<bool> {
        while let Some(arrival) = part.next().await? {
            let Arrival::Chunk(chunk) = arrival else { return Ok(false) };
            self.add(&chunk, 0..chunk.slots.len());
        }
        Ok(true)
    }

    /// Reads parts side by side, and adds their chunks in the order of ranges and series; `false` if a NaN was found.
    async fn add_parts(&mut self, parts: Vec<Part>) -> Result<bool> {
        // They end when this is dropped.
        let mut tasks = JoinSet::new();
        let mut sources: Vec<Chunks> = Vec::with_capacity(parts.len());
        for mut part in parts {
            let (sender, arrivals) = mpsc::channel(CHUNKS_AHEAD);
            tasks.spawn(async move {
                while let Some(arrival) = part.next().await.transpose() {
                    let is_last = !matches!(arrival, Ok(Arrival::Chunk(_)));
                    if sender.send(arrival).await.is_err() || is_last {
                        return;
                    }
                }
            });
            sources.push(Chunks { arrivals, range: 0, current: None, position: 0 });
        }
        let mut open: Vec<usize> = (0..sources.len()).collect();
        loop {
            let mut ended = Vec::new();
            for number in &open {
                match sources[*number].fill().await? {
                    Filled::Ready => {}
                    Filled::Ended => ended.push(*number),
                    Filled::NanFound => return Ok(false),
                }
            }
            open.retain(|number| !ended.contains(number));
            let Some(next) = open.iter().min_by_key(|number| sources[**number].place()) else { break };
            let source = &mut sources[*next];
            let (chunk, from) = (source.current.as_ref().expect("is filled"), source.position);
            let series = chunk.slots[from].0;
            let length = chunk.slots[from..].partition_point(|(other, _)| *other == series);
            self.add(chunk, from..from + length);
            source.position += length;
        }
        // A task that ended early by a panic must not make a short answer look complete.
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("a part of an aggregate ended early: {error}"),
                ));
            }
        }
        Ok(true)
    }

    fn add(&mut self, chunk: &Chunk, slots: std::ops::Range<usize>) {
        let request = self.request;
        let windows = request.windows.count();
        let mut last: Option<(SeriesId, usize)> = None;
        for from in slots {
            let (series, window) = chunk.slots[from];
            let group = match last {
                Some((known, group)) if known == series => group,
                _ => {
                    let position = request.series.binary_search_by_key(&series, |(series, _)| *series);
                    request.series[position.expect("scans return only what was asked")].1 as usize
                }
            };
            last = Some((series, group));
            let slot = group * windows + window;
            let states = self.states.measures.iter_mut().zip(&chunk.states.measures);
            for ((state, more), measure) in states.zip(&request.measures) {
                state.add_slot(slot, measure.function, more, from);
            }
        }
    }
}
