//! The rows of a group in the order of the answer.

use super::group::{Group, Input, Inputs};
use super::measurement::MeasurementRows;
use super::order::TimeOrder;
use super::row_batch::{Projection, RowBatch, rows_of_frame};
use crate::plan::Plan;
use nyala_core::Result;
use nyala_exec::QueryMemory;
use nyala_exec::memory::MemoryCharge;

/// Rows in the order of the answer.
pub enum OrderedRows {
    /// The rows of a single measurement, as they are read.
    Streamed(Box<TimeOrder>),
    /// The rows of several sources, merged in memory, with the memory they are charged with.
    Merged { rows: Option<RowBatch>, _held: MemoryCharge },
}

impl OrderedRows {
    /// Opens a group. `needed`: the most rows that the query may use.
    pub async fn open(
        plan: &Plan,
        inputs: &Inputs,
        group: &Group,
        projection: Projection,
        needed: usize,
        memory: &QueryMemory,
    ) -> Result<Self> {
        Ok(match (&*group.members, inputs.only_measurement()) {
            ([(_, member)], Some(rows)) => {
                Self::Streamed(Box::new(ordered(plan, rows, *member, &projection, needed, memory).await?))
            }
            _ => {
                let mut held = memory.hold();
                let rows = merged(plan, inputs, group, &projection, needed, memory, &mut held).await?;
                Self::Merged { rows, _held: held }
            }
        })
    }

    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RowBatch>> {
        match self {
            Self::Streamed(reader) => reader.next().await,
            Self::Merged { rows, .. } => Ok(rows.take()),
        }
    }
}

async fn ordered(
    plan: &Plan,
    rows: &MeasurementRows,
    member: usize,
    projection: &Projection,
    needed: usize,
    memory: &QueryMemory,
) -> Result<TimeOrder> {
    let ordered = rows.read_ordered(member, projection, plan.ascending, needed, memory).await?;
    Ok(match plan.groups.row_tags {
        0 => ordered,
        // InfluxDB reads one row more of each series than it needs.
        _ => ordered.limit_series(needed.saturating_add(1)),
    })
}

async fn merged(
    plan: &Plan,
    inputs: &Inputs,
    group: &Group,
    projection: &Projection,
    needed: usize,
    memory: &QueryMemory,
    held: &mut MemoryCharge,
) -> Result<Option<RowBatch>> {
    let mut parts: Vec<RowBatch> = Vec::new();
    // What merging will take besides them. A single part is not copied.
    let mut merging_bytes = 0;
    for (input, member) in group.members.iter() {
        match &inputs.inputs[*input] {
            Input::Measurement(rows) => {
                let mut reader = ordered(plan, rows, *member, projection, needed, memory).await?;
                while let Some(rows) = reader.next().await? {
                    held.charge(rows.memory_bytes())?;
                    merging_bytes += rows.copied_bytes() + order_bytes(&rows);
                    parts.push(rows);
                }
            }
            Input::Frame(frame) => {
                if let Some(rows) = rows_of_frame(frame, projection, plan.inner_rows.as_ref())? {
                    // The frame is charged, but the part may be a copy of it.
                    merging_bytes += 2 * rows.copied_bytes() + order_bytes(&rows);
                    parts.push(rows);
                }
            }
        }
        if parts.len() > 1 {
            held.charge(std::mem::take(&mut merging_bytes))?;
        }
    }
    let rows = match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(by_time(parts, plan.ascending)?),
    };
    held.shrink_to(rows.as_ref().map_or(0, RowBatch::copied_bytes));
    Ok(rows)
}

/// The rows of all parts in the order of the answer; rows of equal times stay in the order of the parts.
/// There are never more than two copies of them: the parts and all rows, or all rows before and after they
/// are ordered.
fn by_time(parts: Vec<RowBatch>, ascending: bool) -> Result<RowBatch> {
    RowBatch::check_sizes(&parts)?;
    let rows = RowBatch::concatenate(&parts);
    drop(parts);
    let mut order: Vec<u32> = (0..rows.times_ns.len() as u32).collect();
    match ascending {
        true => order.sort_by_key(|row| rows.times_ns[*row as usize]),
        false => order.sort_by_key(|row| std::cmp::Reverse(rows.times_ns[*row as usize])),
    }
    Ok(rows.take(&order))
}

/// About how many bytes it takes to order rows: their numbers, half of them once more while they are sorted,
/// and the positions by which columns are copied.
fn order_bytes(rows: &RowBatch) -> usize {
    16 * rows.times_ns.len()
}
