//! Stored rows as they are, in order of time; or what functions of consecutive rows make of them.

use super::calls::merge;
use super::group::{Group, Inputs};
use super::limit::Limit;
use super::measurement::MeasurementRows;
use super::ordered::OrderedRows;
use super::rows::{ReadColumns, Rows};
use super::transform::{Pipeline, Series};
use crate::plan::{CallPlan, Distinct, Plan};
use nyala_core::Result;
use nyala_exec::{Column, QueryMemory};
use std::ops::Range;

/// The most groups whose last or first rows are read by one scan.
const ROWS_AT_ONCE: usize = 1 << 20;

/// The rows of one group, cut to offset and limit.
pub struct RawGroup {
    rows: OrderedRows,
    shown: Shown,
}

/// What is shown of rows.
enum Shown {
    /// What they hold.
    Themselves(Vec<Limit>),
    /// What follows from them, call by call.
    Calls { calls: Vec<FollowedCall>, ascending: bool, finished: bool },
}

/// A call whose every row is a point.
struct FollowedCall {
    /// The column of its argument.
    argument: usize,
    plan: CallPlan,
    pipeline: Pipeline,
    /// Points at the time of the last row: another call may yet have one there.
    held: Series,
    /// Points that are still to be left out.
    offset: usize,
    /// Points that are still to be shown.
    limit: usize,
}

fn wanted(plan: &Plan) -> ReadColumns {
    ReadColumns { references: plan.references.clone(), shown: plan.references.len(), tags_by_series: true }
}

impl RawGroup {
    /// Opens a group. Rows of a single measurement are streamed; others are merged in memory.
    pub async fn open(plan: &Plan, inputs: &Inputs, group: &Group, memory: &QueryMemory) -> Result<Self> {
        let needed = match plan.rows.limit.saturating_add(plan.rows.offset) {
            0 => usize::MAX,
            needed => needed,
        };
        if plan.calls.is_empty() {
            let rows = OrderedRows::open(plan, inputs, group, wanted(plan), needed, memory).await?;
            let limit =
                || Limit::new(plan.rows.offset, plan.rows.limit, plan.references.len(), plan.groups.row_tags);
            // InfluxDB's limits of rows that tags tell apart are applied twice, which shows.
            let limits = (0..if plan.groups.row_tags > 0 { 2 } else { 1 }).map(|_| limit()).collect();
            return Ok(Self { rows, shown: Shown::Themselves(limits) });
        }
        let mut references = Distinct::default();
        let call = |call: &CallPlan| FollowedCall {
            argument: references.place(call.argument.clone()),
            plan: call.clone(),
            pipeline: Pipeline::new(plan, call, memory),
            held: Series::empty(),
            offset: plan.rows.offset,
            limit: if plan.rows.limit == 0 { usize::MAX } else { plan.rows.limit },
        };
        let calls = plan.calls.iter().map(call).collect();
        let references = references.into_list();
        let wanted = ReadColumns { shown: references.len(), references, tags_by_series: false };
        let rows = OrderedRows::open(plan, inputs, group, wanted, needed, memory).await?;
        Ok(Self { rows, shown: Shown::Calls { calls, ascending: plan.ascending, finished: false } })
    }

    /// Reads the first rows of all groups with one scan, where that is possible: a limit, and each group
    /// one series of one measurement. The rows of all groups, and which are whose.
    pub async fn open_all(
        plan: &Plan,
        inputs: &Inputs,
        memory: &QueryMemory,
    ) -> Result<Option<(Rows, Vec<Range<usize>>)>> {
        let (Some(rows), 1.., 0, true) =
            (inputs.only_measurement(), plan.rows.limit, plan.groups.row_tags, plan.calls.is_empty())
        else {
            return Ok(None);
        };
        let members: Vec<usize> = inputs.groups.iter().map(|group| group.members[0].1).collect();
        let per_series = plan.rows.limit.saturating_add(plan.rows.offset);
        let single = members.iter().all(|member| rows.group_series[*member].len() == 1);
        if members.len() < 2 || !single || members.len().saturating_mul(per_series) > ROWS_AT_ONCE {
            return Ok(None);
        }
        // Rows are in the answer's frames, too, before they are sent. What is too much at once goes group by group.
        let bytes = 2 * members.len() * per_series * (8 + 16 * plan.references.len());
        if memory.charge(bytes).is_err() {
            return Ok(None);
        }
        first_rows(plan, rows, &members, per_series).await.map(Some)
    }

    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Rows>> {
        match &mut self.shown {
            Shown::Themselves(limits) => {
                while !limits.iter().any(Limit::is_reached) {
                    let Some(rows) = self.rows.next().await? else { return Ok(None) };
                    let cut = limits.iter_mut().try_fold(rows, |rows, limit| limit.cut(rows));
                    if cut.is_some() {
                        return Ok(cut);
                    }
                }
                Ok(None)
            }
            Shown::Calls { calls, ascending, finished } => {
                while !*finished && calls.iter().any(|call| call.limit > 0) {
                    let rows = self.rows.next().await?;
                    *finished = rows.is_none();
                    let single = calls.len() == 1;
                    let mut points: Vec<Series> = Vec::with_capacity(calls.len());
                    for call in calls.iter_mut() {
                        let mut of_call = call.next(rows.as_ref(), single).await?;
                        of_call.values = of_call.values.typed(call.plan.value_type());
                        points.push(of_call);
                    }
                    let points: Vec<(&[i64], &Column)> =
                        points.iter().map(|points| (&*points.times_ns, &points.values)).collect();
                    let (times_ns, columns) = merge(&points, *ascending);
                    if !times_ns.is_empty() {
                        return Ok(Some(Rows { times_ns: times_ns.into(), columns }));
                    }
                }
                Ok(None)
            }
        }
    }
}

impl FollowedCall {
    /// The points to show after some rows, or after all of them. Where there are other calls, those at the time of
    /// the last row are held back.
    async fn next(&mut self, rows: Option<&Rows>, single: bool) -> Result<Series> {
        let held = std::mem::replace(&mut self.held, Series::empty());
        let mut points = match rows {
            None => held.followed_by(self.pipeline.finish().await?),
            Some(rows) => {
                let values = &rows.columns[self.argument];
                let points = Series::between(
                    &rows.times_ns,
                    values,
                    self.plan.times.first_ns,
                    self.plan.times.last_ns,
                );
                held.followed_by(self.pipeline.feed(points)?)
            }
        };
        if let (Some(rows), false) = (rows, single) {
            let last_ns = rows.times_ns.last();
            let at_last =
                points.times_ns.iter().rev().take_while(|time_ns| Some(*time_ns) == last_ns).count();
            let rest = points.times_ns.len() - at_last;
            self.held = points.slice(rest, at_last);
            points = points.slice(0, rest);
        }
        let left_out = self.offset.min(points.times_ns.len());
        let shown = self.limit.min(points.times_ns.len() - left_out);
        self.offset -= left_out;
        self.limit -= shown;
        Ok(points.slice(left_out, shown))
    }
}

async fn first_rows(
    plan: &Plan,
    rows: &MeasurementRows,
    members: &[usize],
    per_series: usize,
) -> Result<(Rows, Vec<Range<usize>>)> {
    let (rows, mut spans) = rows.read_limited(members, &wanted(plan), plan.ascending, per_series).await?;
    spans.iter_mut().for_each(|span| span.start = (span.start + plan.rows.offset).min(span.end));
    Ok((rows, spans))
}
