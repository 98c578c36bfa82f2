//! Aggregates over the rows of an inner query, which are reduced while the inner query gives them: memory grows with the
//! windows of the groups, not with the inner query's result.

use super::aggregate::projection_of;
use super::calls::{Calls, ReducedCall};
use super::group::{Group, Inputs, ReducedGroups, group_values};
use super::row_batch::{Projection, rows_of_frame};
use super::windows::{first_row_ns, windows_between};
use crate::plan::{CallPlan, Fill, Function, MINIMUM_TIME_NS, Plan, PlanSource};
use nyala_core::Result;
use nyala_core::store::Windows;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, Frame, FrameStream, QueryMemory};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// About how many bytes a group takes while its rows arrive, and after that, besides its windows.
const OPEN_GROUP_BYTES: usize = 1 << 10;
const REDUCED_GROUP_BYTES: usize = 1 << 8;

/// The inner query, if its rows need not be held: it is the only source, each call keeps at most two values per window,
/// and the windows do not depend on the rows.
pub fn reducible(plan: &Plan) -> Option<&Plan> {
    let [PlanSource::Subquery(inner)] = plan.sources.as_slice() else { return None };
    let keeps_little = |call: &CallPlan| {
        call.distinct_tags.is_none() && call.function.and_then(Function::aggregate).is_some()
    };
    let known_windows =
        plan.groups.windows.is_none() || (plan.fill != Fill::None && plan.times.first_ns > MINIMUM_TIME_NS);
    (known_windows && !plan.calls.is_empty() && plan.calls.iter().all(keeps_little)).then_some(&**inner)
}

/// Reduces the rows of an inner query, which `frames` gives.
pub async fn reduce(
    plan: &Plan,
    inner: &Plan,
    mut frames: impl FrameStream,
    memory: &QueryMemory,
) -> Result<VecDeque<Inputs>> {
    let Some(first) = frames.next().await? else { return Ok(VecDeque::new()) };
    let windows = match plan.groups.windows {
        None => Some(Windows::single(plan.time_range())),
        Some(rule) => {
            let first_ns = plan.times.first_ns.min(first_row_ns(inner));
            windows_between(plan, rule, first_ns, plan.times.last_ns)?
        }
    };
    let Some(windows) = windows else { return Ok(VecDeque::new()) };
    let (calls, projection) = projection_of(plan);
    let (open, reduced) = (BTreeMap::new(), Vec::new());
    let mut groups = Groups { plan, windows: &windows, memory, calls: &calls, projection, open, reduced };
    // If both queries group by the same tags, a group ends when the next one begins.
    let is_alike = plan.groups.tags == inner.groups.tags;
    let mut next = Some(first);
    while let Some(frame) = next {
        groups.feed(&frame.alone(), is_alike).await?;
        next = frames.next().await?;
    }
    groups.end(|_| true).await?;
    Ok(groups.by_name())
}

type Key = (Arc<str>, Vec<String>);

/// Whether a key is that of one group of the inner query only: bytes that are no text look alike in it.
fn is_exact((_, values): &Key) -> bool {
    !values.iter().any(|value| value.contains(char::REPLACEMENT_CHARACTER))
}

/// The groups of the outer query.
struct Groups<'a> {
    plan: &'a Plan,
    windows: &'a Windows,
    memory: &'a QueryMemory,
    calls: &'a [(&'a CallPlan, usize)],
    projection: Projection,
    open: BTreeMap<Key, (Calls<'a>, MemoryCharge)>,
    reduced: Vec<(Key, Vec<ReducedCall>)>,
}

impl<'a> Groups<'a> {
    /// Adds the rows of a frame.
    async fn feed(&mut self, frame: &Frame, is_alike: bool) -> Result<()> {
        let key = (frame.name.clone(), group_values(frame, &self.plan.groups.tags));
        if !self.open.contains_key(&key) {
            if is_alike {
                self.end(is_exact).await?;
            }
            let mut held = self.memory.hold();
            held.charge(OPEN_GROUP_BYTES)?;
            let calls = Calls::new(self.plan, self.calls, self.projection.shown, self.windows, self.memory);
            self.open.insert(key.clone(), (calls, held));
        }
        let (calls, _) = self.open.get_mut(&key).expect("is open");
        match rows_of_frame(frame, &self.projection, self.plan.inner_rows.as_ref())? {
            Some(rows) => calls.feed(rows),
            None => Ok(()),
        }
    }

    /// Finishes open groups.
    async fn end(&mut self, has_ended: fn(&Key) -> bool) -> Result<()> {
        for (key, (calls, _held)) in self.open.extract_if(.., |key, _| has_ended(key)) {
            let reduced = calls.finish().await?;
            self.memory.charge(REDUCED_GROUP_BYTES + reduced.iter().map(bytes_of).sum::<usize>())?;
            self.reduced.push((key, reduced));
        }
        Ok(())
    }

    /// All groups, by name, in the order of the answer.
    fn by_name(self) -> VecDeque<Inputs> {
        let (plan, mut all) = (self.plan, VecDeque::<Inputs>::new());
        let mut groups = self.reduced;
        groups.sort_by(|(one, _), (other, _)| one.cmp(other));
        if !plan.ascending {
            groups.reverse();
        }
        for ((name, values), calls) in groups {
            if all.back().is_none_or(|inputs| inputs.name != name) {
                let reduced = ReducedGroups { windows: self.windows.clone(), groups: VecDeque::new() };
                all.push_back(Inputs {
                    name,
                    inputs: Vec::new(),
                    groups: Vec::new(),
                    reduced: Some(reduced),
                });
            }
            let inputs = all.back_mut().expect("just added");
            inputs.groups.push(Group::of(plan, &values, Vec::new()));
            inputs.reduced.as_mut().expect("was made so").groups.push_back(calls);
        }
        all
    }
}

/// About how many bytes a reduced call takes.
fn bytes_of((reduction, references): &ReducedCall) -> usize {
    let columns = references.iter().chain([&reduction.values]);
    columns.map(Column::memory_bytes).sum::<usize>() + 24 * reduction.windows.len()
}
