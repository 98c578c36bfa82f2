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
    let Some(Shown { windows: shown, mut positions }) = Shown::of(plan, call, windows, reduction, |rows| {
        held.charge(rows.saturating_mul(FILLED_BYTES + (1 + references.len()) * FILLED_VALUE_BYTES))
    })?
    else {
        let values = reduction.values.slice(0, 0);
        return Ok(Points { times_ns: Vec::new(), values, references: Vec::new(), held });
    };
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
        (Fill::Linear, _) => linear(&reduction.values, &positions, &shown),
    };
    Ok(Points { times_ns, values, references, held })
}

/// The windows that are shown, in the order of the answer, each with the position of its point if it has one.
struct Shown {
    windows: Vec<u32>,
    positions: Vec<Option<u32>>,
}

impl Shown {
    /// One row is shown for each window of the range. As in InfluxDB, a point before the range, which is that
    /// of an inner query's window, takes the place of the next row; without a point, windows before the range
    /// are not shown. `None` if there is no point at all. `charge` is told the number of rows first.
    fn of(
        plan: &Plan,
        call: &CallPlan,
        windows: &Windows,
        reduction: &Reduction,
        charge: impl FnOnce(usize) -> Result<()>,
    ) -> Result<Option<Self>> {
        let (Some(first), Some(last)) = (reduction.windows.first(), reduction.windows.last()) else {
            return Ok(None);
        };
        let index_of = |time_ns: i64| windows.index_of(time_ns).map(|index| index as i64);
        let high = match call.times.last_ns < plan.times.last_ns {
            true => index_of(call.times.last_ns).map_or(windows.count() as i64, |index| index + 1),
            false => windows.count() as i64,
        };
        // Without a lower bound of time the first shown window is the first with a point.
        let low = match (call.times.first_ns > MINIMUM_TIME_NS, plan.ascending) {
            (true, _) => index_of(call.times.first_ns).unwrap_or(0),
            (false, true) => (*first).into(),
            (false, false) => (*last).into(),
        };
        let row_of = |window: i64| if plan.ascending { window - low } else { high - 1 - window };
        let window_of = |row: usize| if plan.ascending { low + row as i64 } else { high - 1 - row as i64 };
        let mut next = 0;
        let rows_of_points = reduction.windows.iter().map(|window| {
            let row = usize::try_from(row_of((*window).into())).unwrap_or(0).max(next);
            next = row + 1;
            row
        });
        let rows_of_points: Vec<usize> = rows_of_points.collect();
        let mut most = plan.windows_needed().unwrap_or(usize::MAX);
        if plan.fill == Fill::Linear {
            // A line is drawn to the next point, even beyond the limit.
            most = rows_of_points.iter().map(|row| row + 1).find(|rows| *rows >= most).unwrap_or(most);
        }
        let rows = usize::try_from(high - low).unwrap_or(0).max(next).min(most);
        charge(rows)?;
        let mut windows: Vec<u32> = (0..rows).map(|row| window_of(row) as u32).collect();
        let mut positions: Vec<Option<u32>> = vec![None; rows];
        let points = rows_of_points.iter().zip(&reduction.windows).zip(0..);
        for ((row, window), position) in points.take_while(|((row, _), _)| **row < rows) {
            windows[*row] = *window;
            positions[*row] = Some(position);
        }
        Ok(Some(Self { windows, positions }))
    }
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

/// Fills gaps with numbers on the straight line between the points around them. `windows`: those that are
/// shown.
fn linear(values: &Column, positions: &[Option<u32>], windows: &[u32]) -> Column {
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
        let from_window = windows[pair[0]];
        let span = f64::from(windows[pair[1]].abs_diff(from_window));
        let gap = pair[0] + 1..pair[1];
        for (window, value) in windows[gap.clone()].iter().zip(&mut filled_values[gap]) {
            let part = f64::from(window.abs_diff(from_window));
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
