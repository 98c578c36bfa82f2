//! The series of a table by groups.

use nyala_core::SeriesId;
use std::ops::Index;

/// The series of groups, ascending within each.
pub struct GroupSeries {
    /// The position of each group's first series, and the end of the last group.
    starts: Vec<u32>,
    series: Vec<SeriesId>,
}

impl GroupSeries {
    /// The series of `groups` groups; `members` are in ascending order, each with its group.
    pub fn of(groups: usize, members: &[(SeriesId, u32)]) -> Self {
        let mut starts = vec![0; groups + 1];
        members.iter().for_each(|(_, group)| starts[*group as usize + 1] += 1);
        (0..groups).for_each(|group| starts[group + 1] += starts[group]);
        let (mut next, mut series) = (starts.clone(), vec![SeriesId(0); members.len()]);
        for (id, group) in members {
            let position = &mut next[*group as usize];
            series[*position as usize] = *id;
            *position += 1;
        }
        Self { starts, series }
    }

    /// Some of the groups, in the order given.
    #[must_use]
    pub fn only(&self, groups: &[usize]) -> Self {
        let mut some = Self { starts: vec![0], series: Vec::new() };
        for group in groups {
            some.series.extend_from_slice(&self[*group]);
            some.starts.push(some.series.len() as u32);
        }
        some
    }

    /// The number of series in all groups.
    pub fn count(&self) -> usize {
        self.series.len()
    }
}

impl Index<usize> for GroupSeries {
    type Output = [SeriesId];

    fn index(&self, group: usize) -> &[SeriesId] {
        &self.series[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}
