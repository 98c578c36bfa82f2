//! Stored rows in order of time, or the results of functions of consecutive rows.

use super::calls::merge;
use super::group::{Group, Inputs};
use super::limit::Limit;
use super::ordered_rows::OrderedRows;
use super::row_batch::{Projection, RowBatch};
use super::transform::{Pipeline, Series};
use crate::plan::{CallPlan, Plan};
use nyala_core::Result;
use nyala_exec::{Column, Distinct, QueryMemory};
use std::ops::Range;

/// The most groups whose last or first rows are read by one scan.
const ROWS_AT_ONCE: usize = 1 << 20;

/// The rows of one group, cut to offset and limit.
pub struct RawGroup {
    rows: OrderedRows,
    output: Output,
}

/// What is shown of the rows of a group.
enum Output {
    /// The rows themselves.
    Rows(Vec<Limit>),
    /// The results of functions of consecutive rows.
    Calls { calls: Vec<FollowedCall>, ascending: bool, finished: bool },
}

/// A call that takes each row as a point.
struct FollowedCall {
    /// The column of its argument.
    argument: usize,
    plan: CallPlan,
    pipeline: Pipeline,
    /// Points at the time of the last row. They are held back, because another call may yet give one at that time.
    held: Series,
    /// How many points are still to be skipped.
    offset: usize,
    /// How many points are still to be shown.
    limit: usize,
}

/// What is read of rows that are shown as they are.
fn projection(plan: &Plan) -> Projection {
    Projection { references: plan.references.clone(), shown: plan.references.len(), tags_by_series: true }
}

impl RawGroup {
    /// Opens a group. Rows of a single measurement are streamed; others are merged in memory.
    pub async fn open(plan: &Plan, inputs: &Inputs, group: &Group, memory: &QueryMemory) -> Result<Self> {
        let needed = match plan.rows.limit.saturating_add(plan.rows.offset) {
            0 => usize::MAX,
            needed => needed,
        };
        if plan.calls.is_empty() {
            let rows = OrderedRows::open(plan, inputs, group, projection(plan), needed, memory).await?;
            let limit = || {
                let (row_tags, columns) = (plan.groups.row_tags, plan.references.len());
                let limit = Limit::new(plan.rows.offset, plan.rows.limit, columns, row_tags);
                if plan.rows.by_tags { limit.by_tags(memory) } else { limit }
            };
            // InfluxDB applies limits twice to rows that are distinguished by tags, and that changes the answer.
            let limits = (0..if plan.groups.row_tags > 0 { 2 } else { 1 }).map(|_| limit()).collect();
            return Ok(Self { rows, output: Output::Rows(limits) });
        }
        let mut references = Distinct::default();
        let call = |call: &CallPlan| FollowedCall {
            argument: references.position(call.argument.clone()),
            plan: call.clone(),
            pipeline: Pipeline::new(plan, call, memory),
            held: Series::empty(),
            offset: plan.rows.offset,
            limit: if plan.rows.limit == 0 { usize::MAX } else { plan.rows.limit },
        };
        let calls = plan.calls.iter().map(call).collect();
        let references = references.into_list();
        let projection = Projection { shown: references.len(), references, tags_by_series: false };
        let rows = OrderedRows::open(plan, inputs, group, projection, needed, memory).await?;
        Ok(Self { rows, output: Output::Calls { calls, ascending: plan.ascending, finished: false } })
    }

    /// Reads the first rows of all groups with one scan, if that is possible: there is a limit, and each group is one series
    /// of one measurement. Gives the rows of all groups, and the span of each group.
    pub async fn open_all(
        plan: &Plan,
        inputs: &Inputs,
        memory: &QueryMemory,
    ) -> Result<Option<(RowBatch, Vec<Range<usize>>)>> {
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
        // Rows are also in the answer's frames before they are sent. What is too large for one scan is read group by group.
        let bytes = 2 * members.len() * per_series * (8 + 16 * plan.references.len());
        if memory.charge(bytes).is_err() {
            return Ok(None);
        }
        let projection = projection(plan);
        let (rows, mut spans) = rows.read_limited(&members, &projection, plan.ascending, per_series).await?;
        spans.iter_mut().for_each(|span| span.start = (span.start + plan.rows.offset).min(span.end));
        Ok(Some((rows, spans)))
    }

    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RowBatch>> {
        match &mut self.output {
            Output::Rows(limits) => {
                while !limits.iter().any(Limit::is_reached) {
                    let Some(rows) = self.rows.next().await? else { return Ok(None) };
                    let mut cut = Some(rows);
                    for limit in limits.iter_mut() {
                        let Some(rows) = cut.take() else { break };
                        cut = limit.cut(rows)?;
                    }
                    if cut.is_some() {
                        return Ok(cut);
                    }
                }
                Ok(None)
            }
            Output::Calls { calls, ascending, finished } => {
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
                        return Ok(Some(RowBatch { times_ns: times_ns.into(), columns }));
                    }
                }
                Ok(None)
            }
        }
    }
}

impl FollowedCall {
    /// The points to show after a batch of rows, or after the last one. If there are other calls, points at the time of the
    /// last row are held back.
    async fn next(&mut self, rows: Option<&RowBatch>, single: bool) -> Result<Series> {
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
        let skipped = self.offset.min(points.times_ns.len());
        let shown = self.limit.min(points.times_ns.len() - skipped);
        self.offset -= skipped;
        self.limit -= shown;
        Ok(points.slice(skipped, shown))
    }
}
