//! Stored rows as they are, in order of time.

use super::column::Column;
use super::group::{Group, Input, Inputs};
use super::memory::QueryMemory;
use super::rows::{MeasurementReader, MeasurementRows, ReadColumns, Rows, rows_of_frame};
use crate::plan::Plan;
use nyala_core::Result;
use std::collections::VecDeque;

/// The most groups whose last or first rows are read by one scan.
const ROWS_AT_ONCE: usize = 1 << 20;

/// The rows of one group, cut to offset and limit.
pub struct RawGroup {
    rows: Source,
    skip: usize,
    take: usize,
}

enum Source {
    Reader(Box<MeasurementReader>),
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
                Source::Reader(Box::new(rows.read(*member, &wanted(plan), plan.ascending).await?))
            }
            _ => Source::Ready(merged(plan, inputs, group, memory).await?.into_iter().collect()),
        };
        Ok(Self { rows, skip: plan.offset, take: if plan.limit == 0 { usize::MAX } else { plan.limit } })
    }

    /// Reads the first rows of all groups with one scan, where that is possible: a limit, and each group
    /// one series of one measurement. Per group its rows, if it has any.
    pub async fn open_all(plan: &Plan, inputs: &Inputs) -> Result<Option<Vec<Option<Rows>>>> {
        let (Some(rows), 1..) = (inputs.only_measurement(), plan.limit) else { return Ok(None) };
        let members: Vec<usize> = inputs.groups.iter().map(|group| group.members[0].1).collect();
        let per_series = plan.limit.saturating_add(plan.offset);
        let single = members.iter().all(|member| rows.group_series[*member].len() == 1);
        if members.len() < 2 || !single || members.len().saturating_mul(per_series) > ROWS_AT_ONCE {
            return Ok(None);
        }
        first_rows(plan, rows, &members, per_series).await.map(Some)
    }

    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Rows>> {
        while self.take > 0 {
            let rows = match &mut self.rows {
                Source::Reader(reader) => reader.next().await?,
                Source::Ready(rows) => rows.pop_front(),
            };
            let Some(rows) = rows else { return Ok(None) };
            let count = rows.times_ns.len();
            if self.skip >= count {
                self.skip -= count;
                continue;
            }
            let length = (count - self.skip).min(self.take);
            let cut = rows.slice(self.skip, length);
            self.skip = 0;
            self.take -= length;
            return Ok(Some(cut));
        }
        Ok(None)
    }
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
    let wanted = wanted(plan);
    let mut parts: Vec<Rows> = Vec::new();
    for (input, member) in &group.members {
        match &inputs.inputs[*input] {
            Input::Measurement(rows) => {
                let mut reader = rows.read(*member, &wanted, plan.ascending).await?;
                while let Some(rows) = reader.next().await? {
                    memory.charge(rows.memory_bytes())?;
                    parts.push(rows);
                }
            }
            Input::Frame(frame) => parts.extend(rows_of_frame(frame, &wanted, plan.condition.as_ref())?),
        }
    }
    if parts.len() < 2 {
        return Ok(parts.pop());
    }
    let times_ns: Vec<i64> = parts.iter().flat_map(|rows| rows.times_ns.iter().copied()).collect();
    let columns: Vec<Column> = (0..plan.references.len())
        .map(|index| {
            let column: Vec<Column> = parts.iter().map(|rows| rows.columns[index].clone()).collect();
            Column::concatenate(&column)
        })
        .collect();
    let mut order: Vec<u32> = (0..times_ns.len() as u32).collect();
    match plan.ascending {
        true => order.sort_by_key(|row| times_ns[*row as usize]),
        false => order.sort_by_key(|row| std::cmp::Reverse(times_ns[*row as usize])),
    }
    let positions: Vec<Option<u32>> = order.iter().copied().map(Some).collect();
    Ok(Some(Rows {
        times_ns: order.iter().map(|row| times_ns[*row as usize]).collect(),
        columns: columns.iter().map(|column| column.take(&positions)).collect(),
    }))
}
