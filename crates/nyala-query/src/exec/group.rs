//! Groups: the rows that make one result series, by the name of the source and by tag values.

use super::calls::ReducedCall;
use super::measurement::MeasurementRows;
use crate::plan::{MeasurementPlan, Plan};
use nyala_core::store::{SnapshotRef, Windows};
use nyala_core::{Result, TimeRange};
use nyala_exec::{Frame, GroupTags};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

/// About how many bytes a group takes besides its values.
const GROUP_BYTES: usize = 128;

/// A source of rows.
pub enum Input {
    /// Series of a measurement.
    Measurement(MeasurementRows),
    /// A frame of an inner query.
    Frame(Frame),
}

/// The sources with one name, and their groups in the order of the answer.
pub struct Inputs {
    /// The name.
    pub name: Arc<str>,
    /// The sources.
    pub inputs: Vec<Input>,
    /// The groups.
    pub groups: Vec<Group>,
    /// Their calls, if these were computed while the rows were read.
    pub reduced: Option<ReducedGroups>,
}

/// The calls of groups under one name, computed while their rows were read.
pub struct ReducedGroups {
    /// The windows.
    pub windows: Windows,
    /// The calls of each group, in the order of the groups.
    pub groups: VecDeque<Vec<ReducedCall>>,
}

/// One result series.
pub struct Group {
    /// Its tags.
    pub tags: GroupTags,
    /// The positions of its sources, each with the group in that source.
    pub members: Members,
}

/// The sources of a group.
pub enum Members {
    /// One source: the usual case.
    One([(usize, usize); 1]),
    /// Any number.
    Some(Vec<(usize, usize)>),
}

impl Deref for Members {
    type Target = [(usize, usize)];

    fn deref(&self) -> &[(usize, usize)] {
        match self {
            Members::One(member) => member,
            Members::Some(members) => members,
        }
    }
}

impl Input {
    /// The series of a measurement that a plan selects.
    pub async fn measurement(plan: &Plan, source: &MeasurementPlan, snapshot: SnapshotRef) -> Self {
        Input::Measurement(MeasurementRows::find(plan, source, snapshot).await)
    }

    /// About how many bytes the series and groups of a measurement take.
    pub fn memory_bytes(&self) -> usize {
        let Input::Measurement(rows) = self else { return 0 };
        let (values, bytes) = rows.group_values.size();
        // Values are also in the map that groups are collected in, and in the groups.
        3 * (bytes + values * size_of::<String>())
            + 4 * rows.group_series.count()
            + GROUP_BYTES * rows.group_values.len()
    }

    fn name(&self) -> Arc<str> {
        match self {
            Input::Measurement(rows) => rows.measurement.name().into(),
            Input::Frame(frame) => frame.name.clone(),
        }
    }

    /// The tag values of its groups.
    fn groups(&self, group_tags: &[String]) -> Vec<Vec<String>> {
        match self {
            Input::Measurement(rows) => {
                let values = &rows.group_values;
                (0..values.len()).map(|group| values.of(group).map(str::to_owned).collect()).collect()
            }
            Input::Frame(frame) => vec![group_values(frame, group_tags)],
        }
    }

    /// The range of times of its rows, if it has any.
    pub async fn time_bounds(&self) -> Result<Option<TimeRange>> {
        match self {
            Input::Measurement(rows) => rows.time_bounds().await,
            Input::Frame(frame) => {
                let times = || frame.times_ns.iter().copied();
                Ok(times().min().zip(times().max()).map(|(first, last)| TimeRange::new(first, last + 1)))
            }
        }
    }
}

impl Group {
    /// The group with these tag values and members.
    pub fn of(plan: &Plan, values: &[String], members: Vec<(usize, usize)>) -> Self {
        let tags = GroupTags::of(&plan.groups.tags, values.iter().map(String::as_str));
        Self { tags, members: Members::Some(members) }
    }
}

/// The values of tags in a frame.
pub fn group_values(frame: &Frame, group_tags: &[String]) -> Vec<String> {
    group_tags.iter().map(|key| frame.tags.get(key).unwrap_or_default().to_owned()).collect()
}

impl Inputs {
    /// Collects sources by name, in the order of the answer.
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
        // The groups of a single measurement are sorted and distinct, even if values that are not UTF-8 look the same as text.
        if let [Input::Measurement(rows)] = inputs.as_slice() {
            let tags = GroupTags::of_groups(&plan.groups.tags, rows.group_values.clone());
            let numbered = tags.enumerate();
            let mut groups: Vec<Group> =
                numbered.map(|(number, tags)| Group { tags, members: Members::One([(0, number)]) }).collect();
            if !plan.ascending {
                groups.reverse();
            }
            return Self { name, inputs, groups, reduced: None };
        }
        let mut members: BTreeMap<Vec<String>, Vec<(usize, usize)>> = BTreeMap::new();
        for (position, input) in inputs.iter().enumerate() {
            for (group, values) in input.groups(&plan.groups.tags).into_iter().enumerate() {
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

    /// The measurement, if it is the only source; then each of its groups is one result series.
    pub fn only_measurement(&self) -> Option<&MeasurementRows> {
        match self.inputs.as_slice() {
            [Input::Measurement(rows)] => Some(rows),
            _ => None,
        }
    }
}
