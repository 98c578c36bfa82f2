//! Stored rows as they are, in order of time.

use super::group::{Group, Input, Inputs};
use super::limit::Limit;
use super::measurement::MeasurementRows;
use super::memory::QueryMemory;
use super::order::TimeOrder;
use super::rows::{ReadColumns, Rows, rows_of_frame};
use crate::plan::Plan;
use nyala_core::Result;
use std::collections::VecDeque;

/// The most groups whose last or first rows are read by one scan.
const ROWS_AT_ONCE: usize = 1 << 20;

/// The rows of one group, cut to offset and limit.
pub struct RawGroup {
    rows: Source,
    limits: Vec<Limit>,
}

enum Source {
    Reader(Box<TimeOrder>),
    Ready(VecDeque<Rows>),
}

fn wanted(plan: &Plan) -> ReadColumns {
    ReadColumns { references: plan.references.clone(), shown: plan.references.len() }
}

impl RawGroup {
    /// Opens a group. Rows of a single measurement are streamed; others are merged in memory.
    pub async fn open(plan: &Plan, inputs: &Inputs, group: &Group, memory: &QueryMemory) -> Result<Self> {
        let rows = match (group.members.as_slice(), inputs.only_measurement()) {
            ([(_, member)], Some(rows)) => {
                Source::Reader(Box::new(ordered(plan, rows, *member, memory).await?))
            }
            _ => Source::Ready(merged(plan, inputs, group, memory).await?.into_iter().collect()),
        };
        let limit = || Limit::new(plan.offset, plan.limit, plan.references.len(), plan.row_tags);
        // InfluxDB's limits of rows that tags tell apart are applied twice, which shows.
        let limits = (0..if plan.row_tags > 0 { 2 } else { 1 }).map(|_| limit()).collect();
        Ok(Self { rows, limits })
    }

    /// Reads the first rows of all groups with one scan, where that is possible: a limit, and each group
    /// one series of one measurement. Per group its rows, if it has any.
    pub async fn open_all(
        plan: &Plan,
        inputs: &Inputs,
        memory: &QueryMemory,
    ) -> Result<Option<Vec<Option<Rows>>>> {
        let (Some(rows), 1.., 0) = (inputs.only_measurement(), plan.limit, plan.row_tags) else {
            return Ok(None);
        };
        let members: Vec<usize> = inputs.groups.iter().map(|group| group.members[0].1).collect();
        let per_series = plan.limit.saturating_add(plan.offset);
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
        while !self.limits.iter().any(Limit::is_reached) {
            let rows = match &mut self.rows {
                Source::Reader(reader) => reader.next().await?,
                Source::Ready(rows) => rows.pop_front(),
            };
            let Some(rows) = rows else { return Ok(None) };
            let cut = self.limits.iter_mut().try_fold(rows, |rows, limit| limit.cut(rows));
            if cut.is_some() {
                return Ok(cut);
            }
        }
        Ok(None)
    }
}

/// The rows of a group of a measurement in the order of the answer.
async fn ordered(
    plan: &Plan,
    rows: &MeasurementRows,
    member: usize,
    memory: &QueryMemory,
) -> Result<TimeOrder> {
    let needed = match plan.limit.saturating_add(plan.offset) {
        0 => usize::MAX,
        needed => needed,
    };
    let ordered = rows.read_ordered(member, &wanted(plan), plan.ascending, needed, memory).await?;
    Ok(match plan.row_tags {
        0 => ordered,
        // InfluxDB reads one row of each series more than would do.
        _ => ordered.limit_series(needed.saturating_add(1)),
    })
}

async fn first_rows(
    plan: &Plan,
    rows: &MeasurementRows,
    members: &[usize],
    per_series: usize,
) -> Result<Vec<Option<Rows>>> {
    let mut found: Vec<Option<Rows>> = Vec::new();
    let read = rows.read_limited(members, &wanted(plan), plan.ascending, per_series).await?;
    for rows in read {
        found.push(rows.and_then(|rows| {
            let length = rows.times_ns.len().saturating_sub(plan.offset).min(plan.limit);
            (length > 0).then(|| rows.slice(plan.offset, length))
        }));
    }
    Ok(found)
}

async fn merged(plan: &Plan, inputs: &Inputs, group: &Group, memory: &QueryMemory) -> Result<Option<Rows>> {
    let mut parts: Vec<Rows> = Vec::new();
    for (input, member) in &group.members {
        match &inputs.inputs[*input] {
            Input::Measurement(rows) => {
                let mut reader = ordered(plan, rows, *member, memory).await?;
                while let Some(rows) = reader.next().await? {
                    memory.charge(rows.memory_bytes())?;
                    parts.push(rows);
                }
            }
            Input::Frame(frame) => {
                parts.extend(rows_of_frame(frame, &wanted(plan), plan.inner_rows.as_ref())?);
            }
        }
    }
    if parts.len() < 2 {
        return Ok(parts.pop());
    }
    let rows = Rows::concatenate(&parts);
    let mut order: Vec<u32> = (0..rows.times_ns.len() as u32).collect();
    match plan.ascending {
        true => order.sort_by_key(|row| rows.times_ns[*row as usize]),
        false => order.sort_by_key(|row| std::cmp::Reverse(rows.times_ns[*row as usize])),
    }
    Ok(Some(rows.take(&order)))
}
