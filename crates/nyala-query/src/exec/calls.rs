//! The calls of one group, computed from its rows: the windows of each call, and then all calls merged into rows.

use super::fill_windows::Points;
use super::reduce::{Reducer, References, Shown, TagSets};
use super::row_batch::RowBatch;
use super::transform::{Pipeline, Series};
use crate::plan::{CallPlan, Plan, Reference};
use nyala_core::Result;
use nyala_core::store::Windows;
use nyala_exec::aggregate::{NO_SLOT, Reduction, WindowSlots};
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, QueryMemory};

/// A reduction, and the references of its selected rows.
pub type ReducedCall = (Reduction, Vec<Column>);

/// Some calls of a group while its rows arrive.
pub struct Calls<'a> {
    plan: &'a Plan,
    windows: &'a Windows,
    /// The calls, each with the column of its argument.
    calls: &'a [(&'a CallPlan, usize)],
    /// How many columns come before those that are shown beside selected values.
    shown: usize,
    slots: WindowSlots,
    /// One for each call that gathers rows in windows.
    reducers: Vec<Reducer>,
    /// One for each call that takes each row as a point, with its results so far.
    followed: Vec<(Pipeline, Vec<Series>)>,
    held: MemoryCharge,
    /// If a call distinguishes rows by tags: the tag sets, and the columns of the tags.
    distinct_tags: Option<(TagSets, Vec<usize>)>,
    beside: References,
    keep_references: bool,
}

impl<'a> Calls<'a> {
    /// Calls without any rows. `shown`: how many columns come before those that are shown beside selected values.
    pub fn new(
        plan: &'a Plan,
        calls: &'a [(&'a CallPlan, usize)],
        shown: usize,
        windows: &'a Windows,
        memory: &QueryMemory,
    ) -> Self {
        let keep_references = !plan.references.is_empty();
        let shows_times = plan.is_selector() && plan.groups.windows.is_none();
        let shown_of_rows = match (keep_references, shows_times) {
            (true, _) => Shown::Rows,
            (false, true) => Shown::Times,
            (false, false) => Shown::Values,
        };
        // A call that distinguishes rows by tags is the only one.
        let distinct_tags = calls.iter().find_map(|(call, _)| call.distinct_tags.as_ref()).map(|tags| {
            let position = |tag: &Reference| plan.references.iter().position(|other| other == tag);
            let columns = tags.iter().filter_map(position).map(|position| shown + position).collect();
            (TagSets::new(memory), columns)
        });
        let (mut reducers, mut followed) = (Vec::new(), Vec::new());
        for (call, _) in calls {
            match call.function {
                Some(function) => {
                    reducers.push(Reducer::new(function, plan.ascending, shown_of_rows, memory))
                }
                None => followed.push((Pipeline::new(plan, call, memory), Vec::new())),
            }
        }
        Self {
            plan,
            windows,
            calls,
            shown,
            slots: WindowSlots::new(memory),
            reducers,
            followed,
            held: memory.hold(),
            distinct_tags,
            beside: References::new(memory),
            keep_references,
        }
    }

    /// Adds rows.
    pub fn feed(&mut self, rows: RowBatch) -> Result<()> {
        let slot_of = self.slots.of_times(self.windows, &rows.times_ns)?;
        let tag_sets = match &mut self.distinct_tags {
            None => None,
            Some((tag_sets, columns)) => {
                let tags: Vec<&Column> = columns.iter().map(|column| &rows.columns[*column]).collect();
                Some(tag_sets.of_rows(&tags, rows.times_ns.len())?)
            }
        };
        let tag_sets = tag_sets.as_deref();
        let (mut reducers, mut followed) = (self.reducers.iter_mut(), self.followed.iter_mut());
        for (call, argument) in self.calls {
            let values = &rows.columns[*argument];
            if call.function.is_none() {
                let (pipeline, points) = followed.next().expect("one for each such call");
                let more = Series::between(&rows.times_ns, values, call.times.first_ns, call.times.last_ns);
                let more = pipeline.feed(more)?;
                self.held.charge(16 * more.times_ns.len())?;
                points.push(more);
                continue;
            }
            let reducer = reducers.next().expect("one for each such call");
            match call.times != self.plan.times {
                false => reducer.feed(&rows.times_ns, &slot_of, tag_sets, values)?,
                true => {
                    let range = call.times.first_ns..=call.times.last_ns;
                    let slots = slot_of.iter().zip(rows.times_ns.iter());
                    let slots: Vec<u32> = slots
                        .map(|(slot, time_ns)| if range.contains(time_ns) { *slot } else { NO_SLOT })
                        .collect();
                    reducer.feed(&rows.times_ns, &slots, tag_sets, values)?;
                }
            }
        }
        if self.keep_references {
            self.beside.keep(rows.columns[self.shown..].to_vec(), &mut self.reducers)?;
        }
        Ok(())
    }

    /// The result of each call.
    pub async fn finish(self) -> Result<Vec<ReducedCall>> {
        let slots = self.slots.in_order();
        let (mut reducers, mut followed) = (self.reducers.into_iter(), self.followed.into_iter());
        let mut reduced = Vec::with_capacity(self.calls.len());
        for (call, _) in self.calls {
            if call.function.is_none() {
                let (mut pipeline, mut points) = followed.next().expect("one for each such call");
                points.push(pipeline.finish().await?);
                let Series { times_ns, values } = Series::concatenate(&points);
                let reduction = Reduction { windows: Vec::new(), values, times_ns };
                reduced.push((reduction, Vec::new()));
                continue;
            }
            let (reduction, rows) = reducers.next().expect("one for each such call").finish(&slots);
            let references = self.plan.references.iter().enumerate();
            let references = references
                .map(|(index, reference)| self.beside.of(index, &rows).typed(reference.value_type()))
                .collect();
            reduced.push((reduction, references));
        }
        Ok(reduced)
    }
}

/// Merges the points of all calls into rows by time. `None` if there are no points.
pub async fn merge_calls(
    plan: &Plan,
    windows: &Windows,
    calls: Vec<ReducedCall>,
    memory: &QueryMemory,
) -> Result<Option<(Vec<i64>, Vec<Column>)>> {
    let mut points: Vec<Points> = Vec::with_capacity(calls.len());
    for ((reduction, references), call) in calls.into_iter().zip(&plan.calls) {
        let mut of_call = Points::of(plan, call, windows, reduction, references, memory).await?;
        let values = if of_call.times_ns.is_empty() { Column::Null(0) } else { of_call.values };
        of_call.values = values.typed(call.value_type());
        points.push(of_call);
    }
    if points.iter().all(|points| points.times_ns.is_empty()) {
        return Ok(None);
    }
    if points.len() == 1 {
        let points = points.into_iter().next();
        return Ok(points.map(|Points { times_ns, values, references, .. }| {
            (times_ns, std::iter::once(values).chain(references).collect())
        }));
    }
    let points: Vec<(&[i64], &Column)> =
        points.iter().map(|points| (&*points.times_ns, &points.values)).collect();
    Ok(Some(merge(&points, plan.ascending)))
}

/// Merges the points of several calls into rows by time. Each call gives at most one point to a row, so several points of a
/// call at one time make several rows. A call without a point in a row is NULL there.
pub fn merge(points: &[(&[i64], &Column)], ascending: bool) -> (Vec<i64>, Vec<Column>) {
    let (first_ns, _) = points[0];
    if points.iter().all(|(times_ns, _)| *times_ns == first_ns) {
        return (first_ns.to_vec(), points.iter().map(|(_, values)| (*values).clone()).collect());
    }
    let mut times_ns: Vec<i64> = Vec::new();
    let mut positions: Vec<Vec<Option<u32>>> = vec![Vec::new(); points.len()];
    let mut next = vec![0; points.len()];
    loop {
        let waiting = points.iter().zip(&next).filter_map(|((times_ns, _), next)| times_ns.get(*next));
        let Some(time_ns) = (if ascending { waiting.min() } else { waiting.max() }) else { break };
        times_ns.push(*time_ns);
        for (call, (of_call_ns, _)) in points.iter().enumerate() {
            let here = of_call_ns.get(next[call]) == Some(time_ns);
            positions[call].push(here.then_some(next[call] as u32));
            next[call] += usize::from(here);
        }
    }
    let columns = points.iter().zip(&positions).map(|((_, values), positions)| values.take(positions));
    (times_ns, columns.collect())
}
