//! Aggregates of groups and windows of time: by the store on its own blocks ([`PushDown`]), or of rows as they come
//! ([`Accumulator`]). Both keep the states of the contract ([`MeasureState`]), which become columns in one place
//! ([`states`]).

mod accumulator;
mod push_down;
mod slots;
mod states;

pub use accumulator::{Accumulator, RowId};
pub use push_down::{PushDown, StatesOfGroups, StoredGroups};
pub use slots::{NO_SLOT, WindowSlots};

use crate::column::Column;
use nyala_core::store::AggregateFunction;

/// What stores and rows are asked for alike. Others need more of a window than a value or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// How many values.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The earliest.
    First,
    /// The latest.
    Last,
    /// The largest less the smallest.
    Spread,
}

impl Aggregate {
    /// The measures it is made of.
    pub fn measures(self) -> &'static [AggregateFunction] {
        match self {
            Aggregate::Count => &[AggregateFunction::Count],
            Aggregate::Sum | Aggregate::Mean => &[AggregateFunction::Sum],
            Aggregate::Min => &[AggregateFunction::Min],
            Aggregate::Max => &[AggregateFunction::Max],
            Aggregate::First => &[AggregateFunction::First],
            Aggregate::Last => &[AggregateFunction::Last],
            Aggregate::Spread => &[AggregateFunction::Min, AggregateFunction::Max],
        }
    }
}

/// The windows of a group that have a value, ascending.
#[derive(Debug)]
pub struct Reduction {
    /// Which windows.
    pub windows: Vec<u32>,
    /// Their values.
    pub values: Column,
    /// Times of the selected rows, ns; none where nothing was selected.
    pub times_ns: Vec<i64>,
}

impl Reduction {
    /// No window.
    pub fn nothing() -> Self {
        Self { windows: Vec::new(), values: Column::Null(0), times_ns: Vec::new() }
    }

    /// Adds the windows of the next slice: later ones when going forwards, else earlier ones.
    pub fn append(&mut self, more: Reduction, ascending: bool) {
        let own = std::mem::replace(self, Self::nothing());
        let (earlier, later) = if ascending { (own, more) } else { (more, own) };
        *self = Reduction {
            windows: [earlier.windows, later.windows].concat(),
            values: Column::concatenate(&[earlier.values, later.values]),
            times_ns: [earlier.times_ns, later.times_ns].concat(),
        };
    }
}
