//! Functions of consecutive points: one operator each, over batches of points in the order of the answer.
//!
//! An operator keeps only what it needs of earlier points (the previous value, the last values of a moving average), so that
//! rows pass through it without being held. Its results for a batch have times of points of that batch.

mod cumulative_sum;
mod derivative;
mod difference;
mod elapsed;
mod forecast;
mod indicator;
mod integral;
mod moving_average;
mod number;

use crate::plan::{CallPlan, Plan, Transformation};
use nyala_core::Result;
use nyala_exec::{Column, QueryMemory, ValueType};
use std::future::{Future, ready};
use std::pin::Pin;

/// Points in the order of the answer, each with a value.
#[derive(Debug, Clone)]
pub struct Series {
    /// Their times, ns.
    pub times_ns: Vec<i64>,
    /// Their values, none of them NULL.
    pub values: Column,
}

impl Series {
    /// No points.
    pub fn empty() -> Self {
        Self { times_ns: Vec::new(), values: Column::Null(0) }
    }

    /// The rows with a value.
    pub fn of_rows(times_ns: &[i64], values: &Column) -> Self {
        let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Self { times_ns: times_ns.to_vec(), values: values.clone() };
        };
        let positions: Vec<Option<u32>> = nulls.inner().set_indices_u32().map(Some).collect();
        let times_ns = nulls.inner().set_indices().map(|row| times_ns[row]).collect();
        Self { times_ns, values: values.take(&positions) }
    }

    /// The rows with a value between two times.
    pub fn between(times_ns: &[i64], values: &Column, first_ns: i64, last_ns: i64) -> Self {
        let points = Self::of_rows(times_ns, values);
        let range = first_ns..=last_ns;
        let start = points.times_ns.iter().take_while(|time_ns| !range.contains(time_ns)).count();
        let end = points.times_ns.iter().rev().take_while(|time_ns| !range.contains(time_ns)).count();
        match points.times_ns.len().saturating_sub(start + end) {
            length if length == points.times_ns.len() => points,
            length => points.slice(start.min(points.times_ns.len()), length),
        }
    }

    /// Some of the points.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        let times_ns = self.times_ns[start..start + length].to_vec();
        Self { times_ns, values: self.values.slice(start, length) }
    }

    /// The points of all parts, one after the other.
    pub fn concatenate(parts: &[Self]) -> Self {
        let parts: Vec<&Self> = parts.iter().filter(|part| !part.times_ns.is_empty()).collect();
        match parts.as_slice() {
            [] => Self::empty(),
            [part] => (*part).clone(),
            parts => {
                let values: Vec<Column> = parts.iter().map(|part| part.values.clone()).collect();
                let times_ns = parts.iter().flat_map(|part| &part.times_ns).copied().collect();
                Self { times_ns, values: Column::concatenate(&values) }
            }
        }
    }

    /// These points and then others.
    #[must_use]
    pub fn followed_by(mut self, other: Self) -> Self {
        if other.times_ns.is_empty() {
            return self;
        }
        if self.times_ns.is_empty() {
            return other;
        }
        self.times_ns.extend(other.times_ns);
        self.values = Column::concatenate(&[self.values, other.values]);
        self
    }
}

/// A function of consecutive points.
pub trait Transform: Send {
    /// The results for the next points, of which there is at least one.
    fn feed(&mut self, points: &Series) -> Result<Series>;

    /// The remaining results after all points. A long computation is pending from time to time.
    fn finish(&mut self) -> Finish<'_> {
        at_once(Series::empty())
    }
}

/// The remaining results.
pub type Finish<'a> = Pin<Box<dyn Future<Output = Result<Series>> + Send + 'a>>;

fn at_once<'a>(series: Series) -> Finish<'a> {
    Box::pin(ready(Ok(series)))
}

/// The transformations of one call; each takes the results of the previous one.
pub struct Pipeline {
    steps: Vec<Box<dyn Transform>>,
}

impl Pipeline {
    /// The transformations of a call in one group.
    pub fn new(plan: &Plan, call: &CallPlan, memory: &QueryMemory) -> Self {
        let mut input = call.gathered_type();
        let mut steps = Vec::with_capacity(call.transformations.len());
        for transformation in &call.transformations {
            // Without a type there are no values.
            let Some(value_type) = input else { break };
            steps.push(step(*transformation, value_type, plan, memory));
            input = transformation.output(input);
        }
        Self { steps }
    }

    /// The results for the next points.
    pub fn feed(&mut self, mut points: Series) -> Result<Series> {
        for step in &mut self.steps {
            if points.times_ns.is_empty() {
                break;
            }
            points = step.feed(&points)?;
        }
        Ok(points)
    }

    /// The remaining results after all rows.
    pub async fn finish(&mut self) -> Result<Series> {
        let mut points = Series::empty();
        for step in &mut self.steps {
            if !points.times_ns.is_empty() {
                points = step.feed(&points)?;
            }
            points = points.followed_by(step.finish().await?);
        }
        Ok(points)
    }
}

fn step(
    transformation: Transformation,
    input: ValueType,
    plan: &Plan,
    memory: &QueryMemory,
) -> Box<dyn Transform> {
    macro_rules! of_numbers {
        ($operator:ident $($argument:expr),*) => {
            match input {
                ValueType::Integer => Box::new($operator::<i64>::new($($argument),*)),
                ValueType::Unsigned => Box::new($operator::<u64>::new($($argument),*)),
                _ => Box::new($operator::<f64>::new($($argument),*)),
            }
        };
    }
    use cumulative_sum::CumulativeSum;
    use derivative::Derivative;
    use difference::Difference;
    use forecast::HoltWinters;
    use indicator::Followed;
    use integral::Integral;
    use moving_average::MovingAverage;
    match transformation {
        Transformation::Derivative { unit_ns, non_negative } => {
            of_numbers!(Derivative unit_ns, non_negative, plan.ascending)
        }
        Transformation::Difference { non_negative } => of_numbers!(Difference non_negative),
        Transformation::Elapsed { unit_ns } => Box::new(elapsed::Elapsed::new(unit_ns)),
        Transformation::MovingAverage(count) => of_numbers!(MovingAverage count, memory),
        Transformation::CumulativeSum => of_numbers!(CumulativeSum),
        Transformation::Integral { unit_ns } => of_numbers!(Integral unit_ns, plan),
        Transformation::Indicator(indicator) => of_numbers!(Followed indicator, memory),
        Transformation::HoltWinters { horizon, season, with_fit, interval_ns } => {
            of_numbers!(HoltWinters(horizon, season, with_fit), interval_ns, memory)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::memory::MemoryBudget;

    /// Feeds points one by one and all at once: results must not depend on batches.
    fn transformed(mut make: impl FnMut() -> Box<dyn Transform>, points: &Series) -> Series {
        let (mut whole, mut single) = (make(), make());
        let all = whole.feed(points).unwrap();
        let mut joined = Series::empty();
        for row in 0..points.times_ns.len() {
            let point = Series { times_ns: vec![points.times_ns[row]], values: points.values.slice(row, 1) };
            joined = joined.followed_by(single.feed(&point).unwrap());
        }
        assert_eq!(all.times_ns, joined.times_ns);
        let scalars = |series: &Series| -> Vec<_> {
            (0..series.times_ns.len()).map(|row| series.values.scalar(row)).collect()
        };
        assert_eq!(scalars(&all), scalars(&joined));
        all
    }

    #[test]
    fn results_do_not_depend_on_batches() {
        let points = Series {
            times_ns: vec![0, 0, 3, 4, 4, 9, 12],
            values: Column::Integer(vec![5, 9, -2, 7, 7, i64::MAX, i64::MIN].into()),
        };
        let memory = QueryMemory::new(1 << 20, &MemoryBudget::new(1 << 30));
        let all = transformed(|| Box::new(difference::Difference::<i64>::new(true)), &points);
        assert_eq!(all.times_ns, [4, 9, 12]);
        let all = transformed(|| Box::new(derivative::Derivative::<i64>::new(1, false, true)), &points);
        assert_eq!(all.times_ns, [3, 4, 9, 12]);
        let average =
            || -> Box<dyn Transform> { Box::new(moving_average::MovingAverage::<i64>::new(3, &memory)) };
        assert_eq!(transformed(average, &points).times_ns, [3, 4, 4, 9, 12]);
        transformed(|| Box::new(elapsed::Elapsed::new(2)), &points);
        transformed(|| Box::new(cumulative_sum::CumulativeSum::<i64>::new()), &points);
    }
}
