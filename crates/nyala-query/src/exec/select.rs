//! Executes a SELECT: gives the result series one after the other.

use super::aggregate::GroupRows;
use super::calls::merge_calls;
use super::fill_nulls::{Filler, placeholder};
use super::fill_windows::starts_of;
use super::group::{Input, Inputs};
use super::inner;
use super::measurement::MeasurementRows;
use super::push_down::{Computed, PushDown};
use super::raw::RawGroup;
use super::windows::windows_of;
use crate::plan::{Fill, Plan, PlanSource};
use arrow_array::Float64Array;
use arrow_buffer::ScalarBuffer;
use nyala_core::store::{SnapshotRef, Windows};
use nyala_core::{Result, before_long_work};
use nyala_exec::window::WINDOWS_MAX;
use nyala_exec::{Column, Frame, FrameStream, GroupTags, QueryMemory, ResultBatch};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

/// Above this many series of a measurement, looking up a condition counts as long work.
const LIGHT_SERIES: usize = 20_000;
/// Above this many groups, a query counts as long work.
const LIGHT_GROUPS: usize = 64;

/// The result of a SELECT as a stream of frames.
pub struct SelectStream {
    plan: Arc<Plan>,
    memory: QueryMemory,
    /// Measurements that have not begun.
    waiting: VecDeque<Inputs>,
    current: Option<Current>,
    time_column: Arc<str>,
    column_names: Arc<[String]>,
    reference_names: Arc<[String]>,
}

/// The measurement that is being read.
struct Current {
    inputs: Inputs,
    /// The next group to begin.
    next: usize,
    /// The windows, and how its aggregates are pushed down, if they are.
    windows: Option<(Windows, Option<PushDown>)>,
    /// Computed frames.
    ready: VecDeque<Frame>,
    raw: Option<RawGroup>,
    filler: Filler,
}

impl SelectStream {
    /// A warning, if the query probably means something else than it says.
    pub fn hint(&self) -> Option<&str> {
        self.plan.outputs.hint.as_deref()
    }

    /// Begins to execute a plan on a snapshot.
    pub fn open(
        plan: Arc<Plan>,
        snapshot: SnapshotRef,
        memory: QueryMemory,
    ) -> Pin<Box<dyn Future<Output = Result<Self>> + Send>> {
        Box::pin(async move {
            let reducible = inner::reducible(&plan);
            let mut inputs = Vec::new();
            for source in plan.sources.iter().filter(|_| reducible.is_none()) {
                match source {
                    PlanSource::Measurement(measurement) => {
                        if measurement.measurement.series().len() > LIGHT_SERIES {
                            before_long_work().await;
                        }
                        let input = Input::measurement(&plan, measurement, snapshot.clone()).await;
                        memory.charge(input.memory_bytes())?;
                        inputs.push(input);
                    }
                    PlanSource::Subquery(inner) => {
                        let inner = collect(inner, snapshot.clone(), &memory).await?;
                        inputs.extend(inner.into_iter().map(Input::Frame));
                    }
                }
            }
            let column_names: Arc<[String]> =
                plan.outputs.columns.iter().map(|column| column.name.clone()).collect();
            let reference_names =
                match plan.outputs.columns.iter().all(|column| column.name == column.reference_name) {
                    true => column_names.clone(),
                    false => {
                        plan.outputs.columns.iter().map(|column| column.reference_name.clone()).collect()
                    }
                };
            let waiting = match reducible {
                Some(inner) => {
                    let frames = Self::open(Arc::new(inner.clone()), snapshot, memory.clone()).await?;
                    inner::reduce(&plan, inner, frames, &memory).await?
                }
                None => Inputs::by_name(&plan, inputs),
            };
            if waiting.iter().map(|inputs| inputs.groups.len()).sum::<usize>() > LIGHT_GROUPS {
                before_long_work().await;
            }
            let time_column = plan.outputs.time_column.as_str().into();
            Ok(Self { plan, memory, waiting, current: None, time_column, column_names, reference_names })
        })
    }

    /// The next frame, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if self.current.is_none() {
                let Some(inputs) = self.waiting.pop_front() else { return Ok(None) };
                self.current = Some(Current {
                    inputs,
                    next: 0,
                    windows: None,
                    ready: VecDeque::new(),
                    raw: None,
                    filler: Filler::default(),
                });
            }
            let frame =
                if self.plan.is_streamed() { self.next_raw().await? } else { self.next_aggregate().await? };
            match frame {
                Some(frame) => return Ok(Some(frame)),
                None => self.current = None,
            }
        }
    }

    /// The next frame and those that were computed with it; empty at the end.
    pub async fn next_list(&mut self) -> Result<Vec<Frame>> {
        let mut list: Vec<Frame> = self.next().await?.into_iter().collect();
        if let Some(current) = &mut self.current {
            list.extend(current.ready.drain(..));
        }
        Ok(list)
    }

    async fn next_raw(&mut self) -> Result<Option<Frame>> {
        let plan = self.plan.clone();
        loop {
            let current = self.current.as_mut().expect("a measurement is at hand");
            if let Some(frame) = current.ready.pop_front() {
                return Ok(Some(frame));
            }
            if current.raw.is_none() {
                let Some(group) = current.inputs.groups.get(current.next) else { return Ok(None) };
                if current.next == 0
                    && let Some(groups) = RawGroup::open_all(&plan, &current.inputs, &self.memory).await?
                {
                    current.next = current.inputs.groups.len();
                    let (rows, spans) = groups;
                    let groups: Vec<_> =
                        spans.into_iter().enumerate().filter(|(_, span)| !span.is_empty()).collect();
                    if !groups.is_empty() {
                        self.push_frames(rows.times_ns, &rows.columns, groups)?;
                    }
                    continue;
                }
                current.next += 1;
                current.raw = Some(RawGroup::open(&plan, &current.inputs, group, &self.memory).await?);
                current.filler = Filler::default();
            }
            let raw = current.raw.as_mut().expect("a group was opened");
            match raw.next().await? {
                None => current.raw = None,
                Some(rows) => {
                    let group = &current.inputs.groups[current.next - 1];
                    let (name, tags) = (current.inputs.name.clone(), group.tags.clone());
                    let inputs = current.filler.fill(plan.fill, &rows.columns, plan.calls.len());
                    return self.frame(&name, &tags, rows.times_ns, &inputs).map(Some);
                }
            }
        }
    }

    async fn next_aggregate(&mut self) -> Result<Option<Frame>> {
        let plan = self.plan.clone();
        loop {
            let current = self.current.as_mut().expect("a measurement is at hand");
            if let Some(frame) = current.ready.pop_front() {
                return Ok(Some(frame));
            }
            if current.next >= current.inputs.groups.len() {
                return Ok(None);
            }
            if current.windows.is_none() {
                let windows = match &current.inputs.reduced {
                    Some(reduced) => Some(reduced.windows.clone()),
                    None => windows_of(&plan, &current.inputs).await?,
                };
                let Some(windows) = windows else { return Ok(None) };
                let is_sparse = windows.count() > WINDOWS_MAX && plan.fill == Fill::None;
                let fits = |push_down: &PushDown| {
                    plan.fill != Fill::None
                        || plan.windows_needed().is_some()
                        || push_down.fits(&windows, &self.memory)
                };
                let push_down = match current.inputs.only_measurement() {
                    Some(rows) if !is_sparse => PushDown::of(&plan, rows).filter(fits),
                    _ => None,
                };
                current.windows = Some((windows, push_down));
            }
            let (windows, push_down) = current.windows.as_ref().expect("just made");
            let first = current.next;
            let reductions = match (push_down, current.inputs.only_measurement()) {
                (Some(push_down), Some(rows)) => {
                    // The groups here are in the order of the answer; the store's are in rising order.
                    let count = push_down
                        .groups_at_once(windows, &self.memory)
                        .min(current.inputs.groups.len() - first);
                    let members: Vec<usize> = current.inputs.groups[first..first + count]
                        .iter()
                        .map(|group| group.members[0].1)
                        .collect();
                    let lowest = *members.iter().min().expect("at least one group");
                    let highest = *members.iter().max().expect("at least one group");
                    let computed = push_down.compute(&plan, rows, lowest..highest + 1, windows, &self.memory);
                    let mut computed = match computed.await? {
                        Computed::Groups(groups) => groups,
                        Computed::Whole(columns) => {
                            current.next += count;
                            let rows = windows.count();
                            let starts = starts_of(windows);
                            let span = |member: usize| (member - lowest) * rows..(member - lowest + 1) * rows;
                            let groups = (first..).zip(members.into_iter().map(span)).collect();
                            let times_ns = starts.repeat(highest + 1 - lowest);
                            self.push_frames(times_ns.into(), &columns, groups)?;
                            continue;
                        }
                    };
                    current.next += count;
                    members
                        .into_iter()
                        .map(|member| {
                            let reductions = std::mem::take(&mut computed[member - lowest]);
                            reductions.into_iter().map(|reduction| (reduction, Vec::new())).collect()
                        })
                        .collect()
                }
                _ => {
                    let before =
                        current.inputs.reduced.as_mut().and_then(|reduced| reduced.groups.pop_front());
                    let reduced = match before {
                        Some(reduced) => reduced,
                        None => {
                            let group = &current.inputs.groups[first];
                            GroupRows::new(&plan, &current.inputs, group, &self.memory)
                                .reduce(windows)
                                .await?
                        }
                    };
                    current.next += 1;
                    vec![reduced]
                }
            };
            let windows = windows.clone();
            for (number, calls) in reductions.into_iter().enumerate() {
                let (name, tags) = {
                    let inputs = &self.current.as_ref().expect("at hand").inputs;
                    (inputs.name.clone(), inputs.groups[first + number].tags.clone())
                };
                if let Some((times_ns, columns)) = merge_calls(&plan, &windows, calls, &self.memory).await? {
                    let inputs = Filler::default().fill(plan.fill, &columns, plan.calls.len());
                    let frame = self.frame(&name, &tags, times_ns.into(), &inputs)?;
                    self.current.as_mut().expect("at hand").ready.push_back(frame);
                }
            }
        }
    }

    /// Adds frames of groups whose rows are spans of the same columns to `ready`.
    fn push_frames(
        &mut self,
        times_ns: ScalarBuffer<i64>,
        columns: &[Column],
        groups: Vec<(usize, Range<usize>)>,
    ) -> Result<()> {
        let fill = self.plan.fill;
        let inputs = &self.current.as_ref().expect("a measurement is at hand").inputs;
        let mut frames: Vec<Frame> = Vec::with_capacity(groups.len());
        for (group, span) in groups {
            let tags = &inputs.groups[group].tags;
            frames.push(match frames.last() {
                // A missing value is filled with the group's previous value.
                _ if fill == Fill::Previous => {
                    let columns: Vec<Column> =
                        columns.iter().map(|column| column.slice(span.start, span.len())).collect();
                    let filled = Filler::default().fill(fill, &columns, self.plan.calls.len());
                    self.frame(&inputs.name, tags, times_ns.slice(span.start, span.len()), &filled)?
                }
                Some(frame) => Frame { tags: tags.clone(), sheet: frame.sheet.clone(), span },
                None => {
                    let filled = Filler::default().fill(fill, columns, self.plan.calls.len());
                    Frame { span, ..self.frame(&inputs.name, tags, times_ns.clone(), &filled)? }
                }
            });
        }
        self.current.as_mut().expect("at hand").ready.extend(frames);
        Ok(())
    }

    /// Computes the selected columns from the columns of calls and references.
    fn frame(
        &self,
        name: &Arc<str>,
        tags: &GroupTags,
        times_ns: ScalarBuffer<i64>,
        inputs: &[Column],
    ) -> Result<Frame> {
        let rows = times_ns.len();
        let columns = self
            .plan
            .outputs
            .columns
            .iter()
            .map(|column| Ok(without_nan(column.expression.evaluate(inputs, rows)?)))
            .collect::<Result<_>>()?;
        let batch = ResultBatch {
            name: name.clone(),
            time_column: Some(self.time_column.clone()),
            column_names: self.column_names.clone(),
            reference_names: self.reference_names.clone(),
            times_ns,
            columns,
            instead: placeholder(self.plan.fill),
        };
        Ok(Frame::of(tags.clone(), batch))
    }
}

impl FrameStream for SelectStream {
    async fn next(&mut self) -> Result<Option<Frame>> {
        SelectStream::next(self).await
    }

    async fn next_list(&mut self) -> Result<Vec<Frame>> {
        SelectStream::next_list(self).await
    }
}

/// Whether the store computes the calls of a plan on its own blocks of a measurement.
pub fn is_pushed_down(plan: &Plan, rows: &MeasurementRows) -> bool {
    !plan.calls.is_empty() && plan.sources.len() == 1 && PushDown::of(plan, rows).is_some()
}

/// NaN is shown as NULL.
fn without_nan(column: Column) -> Column {
    match column {
        Column::Float(array) if array.values().iter().any(|value| value.is_nan()) => Column::Float(
            array.iter().map(|value| value.filter(|value| !value.is_nan())).collect::<Float64Array>(),
        ),
        other => other,
    }
}

/// All frames of an inner query.
async fn collect(plan: &Plan, snapshot: SnapshotRef, memory: &QueryMemory) -> Result<Vec<Frame>> {
    let mut stream = SelectStream::open(Arc::new(plan.clone()), snapshot, memory.clone()).await?;
    let mut frames = Vec::new();
    while let Some(frame) = stream.next().await? {
        let frame = frame.alone();
        memory.charge(
            frame.columns.iter().map(Column::memory_bytes).sum::<usize>() + 8 * frame.times_ns.len(),
        )?;
        frames.push(frame);
    }
    Ok(frames)
}
