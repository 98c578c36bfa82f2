//! Aggregates of groups and windows of time. The store computes them on its own blocks ([`PushDown`]), or they are
//! accumulated from rows ([`Accumulator`]). Both give the contract's accumulators
//! ([`PartialAggregate`](nyala_core::store::PartialAggregate)), which [`finished`] turns into columns.

mod accumulator;
mod finished;
mod push_down;
mod slots;

pub use accumulator::{Accumulator, RowId};
pub use push_down::{ComputedGroups, PushDown, StoredGroups};
pub use slots::{NO_SLOT, WindowSlots};

use crate::column::{Column, TEXTS_MAX_BYTES};
use nyala_core::store::AggregateFunction;
use nyala_core::{Error, Result};

/// A function that both the store and [`Accumulator`] compute: it keeps no more than two values of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of values.
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
    /// The functions of the contract that it is made of.
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

/// Fails if a column cannot hold so many bytes of text, one text per window.
pub fn check_text_bytes(text_bytes: usize) -> Result<()> {
    match text_bytes <= TEXTS_MAX_BYTES {
        true => Ok(()),
        false => Err(Error::limit(format!(
            "the windows of a group have more than {} GiB of text: narrow the time range, or take wider windows",
            (TEXTS_MAX_BYTES + 1) >> 30
        ))),
    }
}

/// The windows of a group that have a value, ascending, and their values.
#[derive(Debug)]
pub struct Reduction {
    /// The numbers of the windows.
    pub windows: Vec<u32>,
    /// Their values.
    pub values: Column,
    /// Times of the selected rows, ns; none where nothing was selected.
    pub times_ns: Vec<i64>,
}

impl Reduction {
    /// No windows.
    pub fn empty() -> Self {
        Self { windows: Vec::new(), values: Column::Null(0), times_ns: Vec::new() }
    }

    /// About how many bytes of memory it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.windows) + size_of_val(&*self.times_ns) + self.values.memory_bytes()
    }

    /// Adds the windows of the next slice: later ones when going forwards, else earlier ones.
    pub fn append(&mut self, more: Reduction, ascending: bool) {
        let own = std::mem::replace(self, Self::empty());
        let (earlier, later) = if ascending { (own, more) } else { (more, own) };
        *self = Reduction {
            windows: [earlier.windows, later.windows].concat(),
            values: Column::concatenate(&[earlier.values, later.values]),
            times_ns: [earlier.times_ns, later.times_ns].concat(),
        };
    }
}
