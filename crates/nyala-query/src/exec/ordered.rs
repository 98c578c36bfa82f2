//! The rows of a group in the order of the answer.

use super::group::{Group, Input, Inputs};
use super::measurement::MeasurementRows;
use super::order::TimeOrder;
use super::rows::{ReadColumns, Rows, rows_of_frame};
use crate::plan::Plan;
use nyala_core::Result;
use nyala_exec::QueryMemory;
use nyala_exec::memory::Held;

/// Rows in the order of the answer.
pub enum OrderedRows {
    /// Those of a single measurement, as they are read.
    Read(Box<TimeOrder>),
    /// Those of several sources, put together in memory, with the account of them.
    Merged { rows: Option<Rows>, _held: Held },
}

impl OrderedRows {
    /// Opens a group. `needed`: how many rows may be asked for.
    pub async fn open(
        plan: &Plan,
        inputs: &Inputs,
        group: &Group,
        wanted: ReadColumns,
        needed: usize,
        memory: &QueryMemory,
    ) -> Result<Self> {
        Ok(match (&*group.members, inputs.only_measurement()) {
            ([(_, member)], Some(rows)) => {
                Self::Read(Box::new(ordered(plan, rows, *member, &wanted, needed, memory).await?))
            }
            _ => {
                let mut held = memory.hold();
                let rows = merged(plan, inputs, group, &wanted, needed, memory, &mut held).await?;
                Self::Merged { rows, _held: held }
            }
        })
    }

    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Rows>> {
        match self {
            Self::Read(reader) => reader.next().await,
            Self::Merged { rows, .. } => Ok(rows.take()),
        }
    }
}

async fn ordered(
    plan: &Plan,
    rows: &MeasurementRows,
    member: usize,
    wanted: &ReadColumns,
    needed: usize,
    memory: &QueryMemory,
) -> Result<TimeOrder> {
    let ordered = rows.read_ordered(member, wanted, plan.ascending, needed, memory).await?;
    Ok(match plan.groups.row_tags {
        0 => ordered,
        // InfluxDB reads one row of each series more than would do.
        _ => ordered.limit_series(needed.saturating_add(1)),
    })
}

async fn merged(
    plan: &Plan,
    inputs: &Inputs,
    group: &Group,
    wanted: &ReadColumns,
    needed: usize,
    memory: &QueryMemory,
    held: &mut Held,
) -> Result<Option<Rows>> {
    let mut parts: Vec<Rows> = Vec::new();
    for (input, member) in group.members.iter() {
        match &inputs.inputs[*input] {
            Input::Measurement(rows) => {
                let mut reader = ordered(plan, rows, *member, wanted, needed, memory).await?;
                while let Some(rows) = reader.next().await? {
                    held.charge(rows.memory_bytes())?;
                    parts.push(rows);
                }
            }
            Input::Frame(frame) => {
                parts.extend(rows_of_frame(frame, wanted, plan.inner_rows.as_ref())?);
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
