//! The measurements of one retention policy: those with a table of their own, and the members of its group.
//!
//! They are kept apart, so that nobody walks through thousands of members to find the tables.

use super::measurement::Measurement;
use super::series_table::SeriesTable;
use std::collections::BTreeMap;
use std::sync::Arc;

/// (database, retention policy).
pub(super) type PolicyKey = (String, String);

/// What is known of one retention policy.
#[derive(Default)]
pub(super) struct PolicyMeasurements {
    /// Measurements with a table of their own, by name.
    own: BTreeMap<String, Arc<Measurement>>,
    /// Members of the group, by name. No name is in both maps.
    members: BTreeMap<String, Arc<Measurement>>,
    pub(super) group: Option<Arc<Measurement>>,
    /// Why the names of the members are not all known, if so.
    pub(super) unreadable: Option<String>,
}

impl PolicyMeasurements {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Measurement>> {
        self.own.get(name).or_else(|| self.members.get(name))
    }

    /// Whether any measurement has a table of its own.
    pub(super) fn has_own_tables(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether a measurement has a table of its own.
    pub(super) fn has_own_table(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// All measurements in order of name.
    pub(super) fn by_name(&self) -> Vec<Arc<Measurement>> {
        let mut all: Vec<_> = self.own.values().chain(self.members.values()).cloned().collect();
        all.sort_by(|a, b| a.name().cmp(b.name()));
        all
    }

    /// All measurements, and the group.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Measurement>> {
        self.own.values().chain(self.members.values()).chain(&self.group)
    }

    /// All tables of points.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<SeriesTable>> {
        self.own.values().chain(&self.group).map(|own| own.stored())
    }

    /// Adds a measurement. It replaces another of its name.
    pub(super) fn insert(&mut self, measurement: Arc<Measurement>) {
        let Self { own, members, .. } = self;
        let (same, others) = if measurement.is_member() { (members, own) } else { (own, members) };
        others.remove(measurement.name());
        same.insert(measurement.name().to_owned(), measurement);
    }

    pub(super) fn remove_member(&mut self, name: &str) {
        self.members.remove(name);
    }

    /// Removes the measurements of a table that was dropped.
    pub(super) fn remove_table(&mut self, table: &SeriesTable) {
        let is_its = |measurement: &Arc<Measurement>| measurement.table() == table.table();
        if self.group.as_ref().is_some_and(is_its) {
            (self.group, self.unreadable) = (None, None);
            self.members.clear();
        } else if self.own.get(table.name()).is_some_and(is_its) {
            // Otherwise another server has created a measurement of the same name since.
            self.own.remove(table.name());
        }
    }
}
