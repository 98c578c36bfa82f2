//! Computes the calls of a group from its rows.
//!
//! All windows are computed in one pass. If that takes more memory than the query has, fewer windows are computed at a
//! time. If a single window takes more, functions that need all of its values read them in several passes.

use super::calls::{Calls, ReducedCall};
use super::group::{Group, Input, Inputs};
use super::ordered_rows::OrderedRows;
use super::reduce::{KeySearch, SquareSums};
use super::row_batch::{Projection, RowBatch, rows_of_frame};
use crate::plan::{CallPlan, Function, Plan, PointLimit};
use nyala_core::store::{Direction, Order, Windows};
use nyala_core::{Error, ErrorKind, Result, TimeRange};
use nyala_exec::aggregate::check_text_bytes;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, Distinct, QueryMemory};

/// The rows of a group, and what is to be computed from them.
pub struct GroupRows<'a> {
    plan: &'a Plan,
    inputs: &'a Inputs,
    group: &'a Group,
    memory: &'a QueryMemory,
    projection: Projection,
    /// The calls, each with the column of its argument.
    calls: Vec<(&'a CallPlan, usize)>,
    order: Order,
}

impl<'a> GroupRows<'a> {
    /// The rows of a group.
    pub fn new(plan: &'a Plan, inputs: &'a Inputs, group: &'a Group, memory: &'a QueryMemory) -> Self {
        let (calls, projection) = projection_of(plan);
        // Sums are added in the order of keys, as in the store. If other columns are shown, rows must be in order of time,
        // because among equal rows the earliest supplies those columns.
        let order = match plan.references.is_empty() {
            true => Order::Key(Direction::Forward),
            false => Order::Time(Direction::Forward),
        };
        Self { plan, inputs, group, memory, projection, calls, order }
    }

    /// Computes all calls.
    pub async fn reduce(&self, windows: &Windows) -> Result<Vec<ReducedCall>> {
        if self.calls.iter().any(|(call, _)| call.function.is_none()) {
            return self.follow(windows).await;
        }
        let mut reduced: Option<Vec<ReducedCall>> = None;
        let mut texts_held = self.memory.hold();
        let (mut first, mut length) = (0, windows.count());
        while first < windows.count() {
            let counted = self.count_so_far();
            let slice = windows.part(first, length.min(windows.count() - first));
            let mut more = match self.reduce_at_once(&self.calls, &slice).await {
                Err(error) if error.kind() == ErrorKind::Limit && slice.count() > 1 => {
                    length = slice.count().div_ceil(2);
                    self.read_again_from(counted);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Limit => {
                    self.read_again_from(counted);
                    self.reduce_in_passes(&slice, error).await?
                }
                other => other?,
            };
            more.iter_mut()
                .flat_map(|(more, _)| &mut more.windows)
                .for_each(|window| *window += first as u32);
            hold_texts(reduced.as_deref().unwrap_or_default(), &more, &mut texts_held)?;
            reduced = Some(match reduced {
                None => more,
                Some(before) => before.into_iter().zip(more).map(append).collect(),
            });
            first += slice.count();
        }
        match reduced {
            Some(reduced) => Ok(reduced),
            None => self.reduce_at_once(&self.calls, windows).await,
        }
    }

    /// Computes calls of which some take each row as a point.
    async fn follow(&self, windows: &Windows) -> Result<Vec<ReducedCall>> {
        let mut calls = Calls::new(self.plan, &self.calls, self.projection.shown, windows, self.memory);
        let projection = self.projection.clone();
        let (plan, memory) = (self.plan, self.memory);
        let mut rows =
            OrderedRows::open(plan, self.inputs, self.group, projection, usize::MAX, memory).await?;
        while let Some(rows) = rows.next().await? {
            calls.feed(rows)?;
        }
        calls.finish().await
    }

    /// Computes some calls in one pass over the rows.
    async fn reduce_at_once(
        &self,
        calls: &[(&CallPlan, usize)],
        windows: &Windows,
    ) -> Result<Vec<ReducedCall>> {
        let mut calls = Calls::new(self.plan, calls, self.projection.shown, windows, self.memory);
        self.visit(windows.span(), |rows| calls.feed(rows)).await?;
        calls.finish().await
    }

    /// Computes all calls of a single window that does not fit into memory; `error` said so.
    async fn reduce_in_passes(&self, window: &Windows, error: Error) -> Result<Vec<ReducedCall>> {
        let mut reduced = Vec::new();
        let counted = self.count_so_far();
        for (call, argument) in &self.calls {
            self.read_again_from(counted);
            let of_call = TimeRange::new(call.times.first_ns, call.times.last_ns.saturating_add(1));
            let range = match call.times == self.plan.times {
                // Rows of an inner query's windows may lie before the range.
                true => window.span(),
                false => window.span().intersect(of_call),
            };
            reduced.push(match call.function {
                Some(function @ (Function::Median | Function::Percentile(_))) => {
                    self.search(function, *argument, range).await?
                }
                Some(Function::Stddev) => self.deviation(*argument, range).await?,
                // Passes cannot shrink the result of other functions. Computed alone, one may fit.
                _ if self.calls.len() > 1 => {
                    self.reduce_at_once(&[(call, *argument)], window).await?.pop().expect("one was computed")
                }
                _ => return Err(error),
            });
        }
        Ok(reduced)
    }

    /// Finds a median or percentile.
    async fn search(&self, function: Function, argument: usize, range: TimeRange) -> Result<ReducedCall> {
        let mut held = self.memory.hold();
        held.charge(KeySearch::BYTES)?;
        let shows_times = self.plan.is_selector() && self.plan.groups.windows.is_none();
        let has_rows = !self.plan.references.is_empty();
        let mut search = KeySearch::new(function, shows_times || has_rows);
        let counted = self.count_so_far();
        loop {
            self.read_again_from(counted);
            self.visit(range, |rows| {
                search.feed(&rows.times_ns, range, &rows.columns[argument]);
                Ok(())
            })
            .await?;
            if search.end_pass() {
                break;
            }
        }
        let mut references: Vec<Column> = Vec::new();
        if has_rows {
            self.read_again_from(counted);
            self.visit(range, |rows| {
                if let (true, Some(row)) =
                    (references.is_empty(), search.find(&rows.times_ns, &rows.columns[argument]))
                {
                    let columns = rows.columns[self.projection.shown..].iter();
                    references = columns.map(|column| column.slice(row, 1)).collect();
                }
                Ok(())
            })
            .await?;
        }
        if references.is_empty() {
            references = self.plan.references.iter().map(|_| Column::Null(0)).collect();
        }
        Ok((search.finish(), references))
    }

    /// Computes a standard deviation.
    async fn deviation(&self, argument: usize, range: TimeRange) -> Result<ReducedCall> {
        let mut sums = SquareSums::default();
        let counted = self.count_so_far();
        for pass in 0..2 {
            self.read_again_from(counted);
            self.visit(range, |rows| {
                sums.feed(pass, &rows.times_ns, range, &rows.columns[argument]);
                Ok(())
            })
            .await?;
        }
        Ok((sums.finish(), Vec::new()))
    }

    /// The counter of rows that are read; all measurements of a statement share it.
    fn points(&self) -> Option<&PointLimit> {
        self.inputs.inputs.iter().find_map(|input| match input {
            Input::Measurement(rows) => rows.points.as_deref(),
            Input::Frame(_) => None,
        })
    }

    fn count_so_far(&self) -> usize {
        self.points().map_or(0, PointLimit::count_so_far)
    }

    /// Resets the counter, because rows that are read again count once.
    fn read_again_from(&self, count: usize) {
        if let Some(points) = self.points() {
            points.go_back_to(count);
        }
    }

    /// Visits the rows of a time range. Rows of an inner query that lie outside of it are visited, too: `feed` ignores them.
    async fn visit(&self, time: TimeRange, mut feed: impl FnMut(RowBatch) -> Result<()>) -> Result<()> {
        for (input, member) in self.group.members.iter() {
            match &self.inputs.inputs[*input] {
                Input::Measurement(rows) => {
                    let mut reader = rows.read(*member, &self.projection, self.order, time).await?;
                    while let Some(rows) = reader.next().await? {
                        feed(rows)?;
                    }
                }
                Input::Frame(frame) => {
                    if let Some(rows) = rows_of_frame(frame, &self.projection, self.plan.inner_rows.as_ref())?
                    {
                        feed(rows)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The calls of a plan, each with the column of its argument, and the columns that they read.
pub fn projection_of(plan: &Plan) -> (Vec<(&CallPlan, usize)>, Projection) {
    let mut references = Distinct::default();
    let mut calls: Vec<(&CallPlan, usize)> = Vec::with_capacity(plan.calls.len());
    for call in &plan.calls {
        calls.push((call, references.position(call.argument.clone())));
    }
    let mut references = references.into_list();
    let shown = references.len();
    references.extend(plan.references.iter().cloned());
    (calls, Projection { references, shown, tags_by_series: false })
}

/// Charges the texts of a slice until all slices are computed. An error if a column cannot hold those of all slices.
fn hold_texts(before: &[ReducedCall], more: &[ReducedCall], held: &mut MemoryCharge) -> Result<()> {
    let columns = |calls: &[ReducedCall]| -> Vec<usize> {
        let columns = calls
            .iter()
            .flat_map(|(reduction, references)| [&reduction.values].into_iter().chain(references));
        columns.map(Column::text_bytes).collect()
    };
    let (before, more) = (columns(before), columns(more));
    before.iter().zip(&more).try_for_each(|(before, more)| check_text_bytes(before + more))?;
    held.charge(more.iter().sum())
}

/// Joins the windows of two slices of time.
fn append((before, after): (ReducedCall, ReducedCall)) -> ReducedCall {
    let (mut reduction, references) = before;
    reduction.append(after.0, true);
    let references = references.into_iter().zip(after.1);
    let references = references.map(|(before, after)| Column::concatenate(&[before, after])).collect();
    (reduction, references)
}
