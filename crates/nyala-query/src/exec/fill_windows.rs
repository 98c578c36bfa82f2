//! The result of one call in one group as points, with empty windows filled.

use super::fill_nulls::with_number;
use super::transform::{Pipeline, Series};
use crate::plan::{CallPlan, Fill, Function, MINIMUM_TIME_NS, Plan};
use nyala_core::Result;
use nyala_core::store::Windows;
use nyala_exec::aggregate::Reduction;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, QueryMemory, Scalar};

/// About how many bytes a window takes while it is filled, besides its columns: numbers and positions.
const FILLED_BYTES: usize = 32;
/// About how many bytes each of its values takes.
const FILLED_VALUE_BYTES: usize = 32;

/// Points in the order of the answer.
pub struct Points {
    /// Their times, ns.
    pub times_ns: Vec<i64>,
    /// Their values.
    pub values: Column,
    /// The other columns of the selected rows, if the query shows any.
    pub references: Vec<Column>,
    /// The memory of windows that were filled.
    held: MemoryCharge,
}

impl Points {
    /// The points of a reduction: ordered, filled, transformed, cut to the limit.
    pub async fn of(
        plan: &Plan,
        call: &CallPlan,
        windows: &Windows,
        mut reduction: Reduction,
        mut references: Vec<Column>,
        memory: &QueryMemory,
    ) -> Result<Self> {
        let held = memory.hold();
        let Some(function) = call.function else {
            // Each row was a point and was transformed already.
            let points = Self { times_ns: reduction.times_ns, values: reduction.values, references, held };
            return Ok(points.cut(plan.rows.offset, plan.rows.limit));
        };
        // Transformations do not see NULL.
        let counts = matches!(function, Function::Count | Function::CountDistinct);
        let fill = match plan.fill {
            Fill::Null if !call.transformations.is_empty() && !counts => Fill::None,
            fill => fill,
        };
        if !plan.ascending {
            let backwards: Vec<Option<u32>> = (0..reduction.windows.len() as u32).rev().map(Some).collect();
            reduction.windows.reverse();
            reduction.times_ns.reverse();
            reduction.values = reduction.values.take(&backwards);
            references.iter_mut().for_each(|column| *column = column.take(&backwards));
        }
        // Without gaps there is nothing to fill.
        let fills_gaps = plan.groups.windows.is_some()
            && fill != Fill::None
            && function != Function::Distinct
            && !function.selects_several()
            && reduction.windows.len() != windows.count();
        let points = if fills_gaps {
            filled(plan, call, function, windows, &reduction, &references, held)?
        } else {
            let times_ns = match plan.groups.windows {
                _ if function.selects_several() => reduction.times_ns,
                None if call.is_selector() && plan.is_selector() => reduction.times_ns,
                None => vec![plan.aggregate_time_ns(); reduction.windows.len()],
                Some(_) => reduction.windows.iter().map(|at| start_of(windows, *at as usize)).collect(),
            };
            Self { times_ns, values: reduction.values, references, held }
        };
        Ok(points.transformed(plan, call, memory).await?.cut(plan.rows.offset, plan.rows.limit))
    }

    async fn transformed(self, plan: &Plan, call: &CallPlan, memory: &QueryMemory) -> Result<Self> {
        if call.transformations.is_empty() {
            return Ok(self);
        }
        let mut pipeline = Pipeline::new(plan, call, memory);
        let points = pipeline
            .feed(Series::of_rows(&self.times_ns, &self.values))?
            .followed_by(pipeline.finish().await?);
        let Series { times_ns, values } = points;
        Ok(Self { times_ns, values, references: Vec::new(), held: self.held })
    }

    fn cut(self, offset: usize, limit: usize) -> Self {
        let start = offset.min(self.times_ns.len());
        let rest = self.times_ns.len() - start;
        let length = if limit == 0 { rest } else { rest.min(limit) };
        if length == self.times_ns.len() {
            return self;
        }
        Self {
            times_ns: self.times_ns[start..start + length].to_vec(),
            values: self.values.slice(start, length),
            references: self.references.iter().map(|column| column.slice(start, length)).collect(),
            held: self.held,
        }
    }
}

/// The times at which all windows are shown.
pub fn starts_of(windows: &Windows) -> Vec<i64> {
    let mut starts_ns = Vec::with_capacity(windows.count());
    windows.push_starts(0..windows.count(), &mut starts_ns);
    starts_ns.iter_mut().for_each(|start_ns| *start_ns = shown(*start_ns));
    starts_ns
}

fn start_of(windows: &Windows, index: usize) -> i64 {
    shown(windows.range(index).start_ns)
}

/// The time at which a window is shown: its start, or 0 if that is the least time.
fn shown(start_ns: i64) -> i64 {
    if start_ns <= MINIMUM_TIME_NS { 0 } else { start_ns }
}

fn filled(
    plan: &Plan,
    call: &CallPlan,
    function: Function,
    windows: &Windows,
    reduction: &Reduction,
    references: &[Column],
    mut held: MemoryCharge,
) -> Result<Points> {
    let (Some(first), count) = (reduction.windows.first(), windows.count()) else {
        let values = reduction.values.slice(0, 0);
        return Ok(Points { times_ns: Vec::new(), values, references: Vec::new(), held });
    };
    // The windows may begin earlier, for another call with a wider time range.
    let low = match call.times.first_ns > plan.times.first_ns {
        true => windows.index_of(call.times.first_ns).map_or(0, |index| index as u32),
        false => 0,
    };
    let high = match call.times.last_ns < plan.times.last_ns {
        true => windows.index_of(call.times.last_ns).map_or(count as u32, |index| index as u32 + 1),
        false => count as u32,
    };
    // Without a lower bound of time the first shown window is the first with a point.
    let bounded = call.times.first_ns > MINIMUM_TIME_NS;
    let last = reduction.windows[reduction.windows.len() - 1];
    let mut most = plan.windows_needed().unwrap_or(usize::MAX);
    if plan.fill == Fill::Linear {
        // A line is drawn to the next point, even beyond the limit.
        let start = if bounded || !plan.ascending { low } else { *first };
        let positions = reduction.windows.iter().map(|window| match plan.ascending {
            true => (window - start) as usize + 1,
            false => (high - *window) as usize,
        });
        most = positions.filter(|position| *position >= most).min().unwrap_or(most);
    }
    let range = match (bounded, plan.ascending) {
        (true, _) => low..high,
        (false, true) => *first..high,
        (false, false) => last..high,
    };
    let columns = 1 + references.len();
    held.charge(range.len().min(most).saturating_mul(FILLED_BYTES + columns * FILLED_VALUE_BYTES))?;
    let shown: Vec<u32> = match plan.ascending {
        true => range.take(most).collect(),
        false => range.rev().take(most).collect(),
    };
    let mut positions: Vec<Option<u32>> = Vec::with_capacity(shown.len());
    let mut next = 0;
    for window in &shown {
        let here = reduction.windows.get(next) == Some(window);
        positions.push(here.then_some(next as u32));
        next += usize::from(here);
    }
    let references = references.iter().map(|column| column.take(&positions)).collect();
    let times_ns = shown.iter().map(|index| start_of(windows, *index as usize)).collect();
    let values = match (plan.fill, function) {
        (Fill::Null, Function::Count | Function::CountDistinct) => {
            with_number(Fill::Integer(0), &reduction.values.take(&positions))
        }
        (Fill::Null | Fill::None, _) => reduction.values.take(&positions),
        (Fill::Integer(_) | Fill::Number(_), _) => constant(&reduction.values, &positions, plan.fill),
        (Fill::Previous, _) => {
            let mut previous = None;
            for position in &mut positions {
                previous = position.or(previous);
                *position = previous;
            }
            reduction.values.take(&positions)
        }
        (Fill::Linear, _) => linear(&reduction.values, &positions),
    };
    Ok(Points { times_ns, values, references, held })
}

/// Fills every gap with a number, in the type of the column; texts become empty and booleans false.
fn constant(values: &Column, positions: &[Option<u32>], fill: Fill) -> Column {
    let fill = match values {
        Column::String(_) | Column::Tag(_) => Scalar::String(String::new()),
        Column::Boolean(_) => Scalar::Boolean(false),
        numbers => return with_number(fill, &numbers.take(positions)),
    };
    let filled_values: Vec<Option<Scalar>> = positions
        .iter()
        .map(|position| match position {
            Some(row) => values.scalar(*row as usize),
            None => Some(fill.clone()),
        })
        .collect();
    Column::from_scalars(&filled_values)
}

/// Fills gaps with numbers on the straight line between the points around them.
fn linear(values: &Column, positions: &[Option<u32>]) -> Column {
    if !values.is_number() {
        return values.take(positions);
    }
    let mut filled_values: Vec<Option<Scalar>> =
        positions.iter().map(|position| values.scalar((*position)? as usize)).collect();
    let known: Vec<usize> = (0..positions.len()).filter(|index| positions[*index].is_some()).collect();
    for pair in known.windows(2) {
        let (Some(from), Some(to)) = (filled_values[pair[0]].clone(), filled_values[pair[1]].clone()) else {
            continue;
        };
        let span = (pair[1] - pair[0]) as f64;
        for (part, value) in (1_u32..).map(f64::from).zip(&mut filled_values[pair[0] + 1..pair[1]]) {
            *value = Some(match (&from, &to) {
                (Scalar::Integer(from), Scalar::Integer(to)) => {
                    Scalar::Integer((to.wrapping_sub(*from) as f64 / span * part + *from as f64) as i64)
                }
                (Scalar::Unsigned(from), Scalar::Unsigned(to)) => {
                    Scalar::Unsigned(((*to as f64 - *from as f64) / span * part + *from as f64) as u64)
                }
                (Scalar::Float(from), Scalar::Float(to)) => Scalar::Float((to - from) / span * part + from),
                _ => continue,
            });
        }
    }
    Column::from_scalars(&filled_values)
}
