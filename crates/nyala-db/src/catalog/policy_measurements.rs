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
    /// Other names of measurements with a table of their own: each is a measurement that has the same table. A name that is
    /// in another map means what it says there.
    aliases: BTreeMap<String, Arc<Measurement>>,
    pub(super) group: Option<Arc<Measurement>>,
    /// Why the names of the members are not all known, if so.
    pub(super) unreadable: Option<String>,
}

impl PolicyMeasurements {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Measurement>> {
        self.own.get(name).or_else(|| self.members.get(name)).or_else(|| self.aliases.get(name))
    }

    /// The name of the measurement that an alias stands for.
    pub(super) fn meaning_of(&self, alias: &str) -> Option<Arc<str>> {
        let is_own = self.own.contains_key(alias) || self.members.contains_key(alias);
        self.aliases.get(alias).filter(|_| !is_own).map(|found| found.stored().name())
    }

    /// All aliases in order, each with the name of its measurement.
    pub(super) fn aliases(&self) -> impl Iterator<Item = (&String, Arc<str>)> {
        self.aliases.keys().filter_map(|alias| Some((alias, self.meaning_of(alias)?)))
    }

    pub(super) fn add_alias(&mut self, measurement: Arc<Measurement>) {
        self.aliases.insert(measurement.name().to_owned(), measurement);
    }

    pub(super) fn remove_alias(&mut self, alias: &str) -> Option<Arc<Measurement>> {
        self.aliases.remove(alias)
    }

    /// Gives a measurement with a table of its own another name. It may be one of its aliases.
    pub(super) fn rename(&mut self, old: &str, renamed: Arc<Measurement>) {
        self.own.remove(old);
        self.aliases.remove(renamed.name());
        self.own.insert(renamed.name().to_owned(), renamed);
    }

    /// Whether any measurement has a table of its own.
    pub(super) fn has_own_tables(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether a measurement has a table of its own.
    pub(super) fn has_own_table(&self, name: &str) -> bool {
        self.get(name).is_some_and(|found| !found.is_member())
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
            return;
        }
        self.aliases.retain(|_, alias| alias.table() != table.table());
        let name = table.name();
        if self.own.get(&*name).is_some_and(is_its) {
            // Otherwise another server has created a measurement of the same name since.
            self.own.remove(&*name);
        }
    }
}
