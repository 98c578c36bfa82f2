//! Which rows make one result series: sources by name, groups by tag values.

use super::frame::Frame;
use super::inner::Reduced;
use super::measurement::{MeasurementRows, time_range};
use crate::plan::{MeasurementPlan, Plan};
use nyala_core::store::SnapshotRef;
use nyala_core::{Result, TimeRange};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a group takes besides its values, about.
const GROUP_BYTES: usize = 128;

/// A source of rows under one name.
pub enum Input {
    /// Series of a measurement.
    Measurement(MeasurementRows),
    /// A frame of an inner query.
    Frame(Frame),
}

/// The sources under one name, and their groups in the order of the answer.
pub struct Inputs {
    /// The name.
    pub name: Arc<str>,
    /// The sources.
    pub inputs: Vec<Input>,
    /// The groups.
    pub groups: Vec<Group>,
    /// What became of their rows, where these were not held.
    pub reduced: Option<Reduced>,
}

/// What one result series is made of.
pub struct Group {
    /// Its tags.
    pub tags: Arc<[(String, String)]>,
    /// Positions of its sources, each with the group in that source.
    pub members: Vec<(usize, usize)>,
}

impl Input {
    /// The series of a measurement that a plan wants.
    pub fn measurement(plan: &Plan, source: &MeasurementPlan, snapshot: SnapshotRef) -> Self {
        Input::Measurement(MeasurementRows::find(plan, source, snapshot))
    }

    /// What the series and groups of a measurement take in memory, bytes, about.
    pub fn memory_bytes(&self) -> usize {
        let Input::Measurement(rows) = self else { return 0 };
        let values = rows.group_values.iter().flatten().map(|value| value.len() + size_of::<String>());
        let series = rows.group_series.iter().map(|series| 4 * series.len());
        // Values stand in the map that groups are put together with, and in the groups, too.
        3 * values.sum::<usize>() + series.sum::<usize>() + GROUP_BYTES * rows.group_values.len()
    }

    fn name(&self) -> Arc<str> {
        match self {
            Input::Measurement(rows) => rows.measurement().name().into(),
            Input::Frame(frame) => frame.name.clone(),
        }
    }

    /// Tag values of its groups.
    fn groups(&self, group_tags: &[String]) -> Vec<Vec<String>> {
        match self {
            Input::Measurement(rows) => rows.group_values.clone(),
            Input::Frame(frame) => vec![group_values(frame, group_tags)],
        }
    }

    /// Times between which its rows lie, if it has any.
    pub fn time_bounds(&self, plan: &Plan) -> Result<Option<TimeRange>> {
        match self {
            Input::Measurement(rows) => {
                rows.snapshot().time_bounds(rows.measurement().table(), time_range(plan))
            }
            Input::Frame(frame) => {
                let times = || frame.times_ns.iter().copied();
                Ok(times().min().zip(times().max()).map(|(first, last)| TimeRange::new(first, last + 1)))
            }
        }
    }
}

impl Group {
    /// The group with these values of the tags, and its members.
    pub fn of(plan: &Plan, values: &[String], members: Vec<(usize, usize)>) -> Self {
        Self { tags: plan.group_tags.iter().cloned().zip(values.iter().cloned()).collect(), members }
    }
}

/// The values of tags in a frame.
pub fn group_values(frame: &Frame, group_tags: &[String]) -> Vec<String> {
    let value = |key: &String| {
        let tag = frame.tags.iter().find(|(own, _)| own == key);
        tag.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    group_tags.iter().map(value).collect()
}

impl Inputs {
    /// Puts sources together by name, in the order of the answer.
    pub fn by_name(plan: &Plan, inputs: Vec<Input>) -> VecDeque<Self> {
        let mut names: BTreeMap<Arc<str>, Vec<Input>> = BTreeMap::new();
        for input in inputs {
            names.entry(input.name()).or_default().push(input);
        }
        let mut all: VecDeque<Self> =
            names.into_iter().map(|(name, inputs)| Self::with_groups(plan, name, inputs)).collect();
        if !plan.ascending {
            all.make_contiguous().reverse();
        }
        all
    }

    fn with_groups(plan: &Plan, name: Arc<str>, inputs: Vec<Input>) -> Self {
        // The groups of a single measurement are in order, and differ, though values that are no text may look the same.
        if let [Input::Measurement(rows)] = inputs.as_slice() {
            let numbered = rows.group_values.iter().enumerate();
            let mut groups: Vec<Group> =
                numbered.map(|(number, values)| Group::of(plan, values, vec![(0, number)])).collect();
            if !plan.ascending {
                groups.reverse();
            }
            return Self { name, inputs, groups, reduced: None };
        }
        let mut members: BTreeMap<Vec<String>, Vec<(usize, usize)>> = BTreeMap::new();
        for (position, input) in inputs.iter().enumerate() {
            for (group, values) in input.groups(&plan.group_tags).into_iter().enumerate() {
                members.entry(values).or_default().push((position, group));
            }
        }
        let mut groups: Vec<Group> =
            members.into_iter().map(|(values, members)| Group::of(plan, &values, members)).collect();
        if !plan.ascending {
            groups.reverse();
        }
        Self { name, inputs, groups, reduced: None }
    }

    /// The measurement, when it is the only source; then each of its groups is a result series.
    pub fn only_measurement(&self) -> Option<&MeasurementRows> {
        match self.inputs.as_slice() {
            [Input::Measurement(rows)] => Some(rows),
            _ => None,
        }
    }
}
