//! Aggregates over the rows of an inner query, which are reduced as they come: memory follows the windows of the groups,
//! and not the inner query's result.

use super::aggregate::wanted_of;
use super::calls::{Calls, ReducedCall};
use super::group::{Group, Inputs, group_values};
use super::rows::{ReadColumns, rows_of_frame};
use super::select::{SelectStream, windows_between};
use crate::plan::{CallPlan, Fill, Function, MINIMUM_TIME_NS, Plan, PlanSource};
use nyala_core::Result;
use nyala_core::store::{SnapshotRef, Windows};
use nyala_exec::memory::Held;
use nyala_exec::{Column, Frame, QueryMemory};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a group takes while its rows come, and then, beside its windows, bytes, about.
const OPEN_GROUP_BYTES: usize = 1 << 10;
const GROUP_BYTES: usize = 1 << 8;

/// What became of the rows of the groups under one name.
pub struct Reduced {
    /// The windows.
    pub windows: Windows,
    /// The calls of the groups, in the order of these.
    pub groups: VecDeque<Vec<ReducedCall>>,
}

/// The inner query whose rows need not be held: the only source of calls each of which keeps a value or two of a
/// window, in windows that do not depend on which rows there are.
pub fn reducible(plan: &Plan) -> Option<&Plan> {
    let [PlanSource::Subquery(inner)] = plan.sources.as_slice() else { return None };
    let keeps_little =
        |call: &CallPlan| call.apart.is_none() && call.function.and_then(Function::aggregate).is_some();
    let known =
        plan.groups.windows.is_none() || (plan.fill != Fill::None && plan.times.first_ns > MINIMUM_TIME_NS);
    (known && !plan.calls.is_empty() && plan.calls.iter().all(keeps_little)).then_some(&**inner)
}

/// Reduces the rows of an inner query.
pub async fn reduce(
    plan: &Plan,
    inner: &Plan,
    snapshot: SnapshotRef,
    memory: &QueryMemory,
) -> Result<VecDeque<Inputs>> {
    let mut frames = SelectStream::open(Arc::new(inner.clone()), snapshot, memory.clone()).await?;
    let Some(first) = frames.next().await? else { return Ok(VecDeque::new()) };
    let windows = match plan.groups.windows {
        None => Some(Windows::single(plan.time_range())),
        Some(rule) => windows_between(plan, rule, plan.times.first_ns, plan.times.last_ns)?,
    };
    let Some(windows) = windows else { return Ok(VecDeque::new()) };
    let (calls, wanted) = wanted_of(plan);
    let (open, reduced) = (BTreeMap::new(), Vec::new());
    let mut groups = Groups { plan, windows: &windows, memory, calls: &calls, wanted, open, reduced };
    // Where groups are the inner query's, each is over when the next begins.
    let is_alike = plan.groups.tags == inner.groups.tags;
    let mut next = Some(first);
    while let Some(frame) = next {
        groups.feed(&frame.alone(), is_alike).await?;
        next = frames.next().await?;
    }
    groups.end().await?;
    Ok(groups.by_name())
}

type Key = (Arc<str>, Vec<String>);

/// The groups of the outer query.
struct Groups<'a> {
    plan: &'a Plan,
    windows: &'a Windows,
    memory: &'a QueryMemory,
    calls: &'a [(&'a CallPlan, usize)],
    wanted: ReadColumns,
    open: BTreeMap<Key, (Calls<'a>, Held)>,
    reduced: Vec<(Key, Vec<ReducedCall>)>,
}

impl<'a> Groups<'a> {
    /// Takes in the rows of a frame.
    async fn feed(&mut self, frame: &Frame, is_alike: bool) -> Result<()> {
        let key = (frame.name.clone(), group_values(frame, &self.plan.groups.tags));
        if !self.open.contains_key(&key) {
            if is_alike {
                self.end().await?;
            }
            let mut held = self.memory.hold();
            held.charge(OPEN_GROUP_BYTES)?;
            let calls = Calls::new(self.plan, self.calls, self.wanted.shown, self.windows, self.memory);
            self.open.insert(key.clone(), (calls, held));
        }
        let (calls, _) = self.open.get_mut(&key).expect("is open");
        match rows_of_frame(frame, &self.wanted, self.plan.inner_rows.as_ref())? {
            Some(rows) => calls.feed(rows),
            None => Ok(()),
        }
    }

    /// Ends the groups that are open.
    async fn end(&mut self) -> Result<()> {
        while let Some((key, (calls, _held))) = self.open.pop_first() {
            let reduced = calls.finish().await?;
            self.memory.charge(GROUP_BYTES + reduced.iter().map(bytes_of).sum::<usize>())?;
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
                let reduced = Reduced { windows: self.windows.clone(), groups: VecDeque::new() };
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

/// What a reduced call takes, bytes, about.
fn bytes_of((reduction, references): &ReducedCall) -> usize {
    let columns = references.iter().chain([&reduction.values]);
    columns.map(Column::memory_bytes).sum::<usize>() + 24 * reduction.windows.len()
}
