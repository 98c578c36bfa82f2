//! Groups: many measurements with one field each that share a table. See `measurement`.

use super::policy_measurements::{PolicyKey, PolicyMeasurements};
use super::{Catalog, Measurement, RetentionPolicy, SEPARATOR};
use crate::selection::PointSelection;
use crate::series::TagFilter;
use nyala_core::{Error, ErrorKind, Result, TableSchema, TimeRange};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of a group's table in error messages. No measurement has it.
pub(super) const GROUP_NAME: &str = "";

impl Catalog {
    /// Returns a function that says whether a measurement of a retention policy has a table of its own: one that was
    /// created by line protocol. Samples of its metric are written to that table.
    pub fn own_tables(&self, database: &str, policy: &str) -> impl Fn(&str) -> bool + use<'_> {
        let policy = self.database(database).and_then(|known| Some(known.policy(policy)?.name.clone()));
        let key = (database.to_owned(), policy.unwrap_or_default());
        let has_any =
            self.state.read().measurements.get(&key).is_some_and(PolicyMeasurements::has_own_tables);
        move |name| {
            let is_own =
                || self.state.read().measurements.get(&key).is_some_and(|all| all.has_own_table(name));
            has_any && is_own()
        }
    }

    /// The group of a retention policy, with its series loaded. It is created if it does not exist.
    pub(crate) async fn group(&self, database: &str, policy: &RetentionPolicy) -> Result<Arc<Measurement>> {
        let key = (database.to_owned(), policy.name.clone());
        self.check_readable(database, &policy.name)?;
        let known =
            |key: &PolicyKey| self.state.read().measurements.get(key).and_then(|all| all.group.clone());
        let group = match known(&key) {
            Some(group) => group,
            None => {
                let _changing = self.changing.lock().await;
                match known(&key) {
                    Some(group) => group,
                    None => self.create_group(key).await?,
                }
            }
        };
        group.stored().load().await?;
        Ok(group)
    }

    async fn create_group(&self, key: PolicyKey) -> Result<Arc<Measurement>> {
        // The database or policy may have been dropped since the caller looked it up.
        let known = self.existing_database(&key.0)?;
        let policy = known.existing_policy(&key.1)?;
        let table_name = format!("{}{SEPARATOR}{}{SEPARATOR}{GROUP_NAME}", key.0, key.1);
        let schema = TableSchema::measurement(table_name, policy.shard_duration_ns);
        let created = self.store.create_table(schema.clone()).await;
        if self.is_shared() {
            // It may be another server's: that one was faster, or has dropped this one already.
            match created {
                Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
                _ => self.follow_tables(),
            }
            let state = self.state.read();
            let group = state.measurements.get(&key).and_then(|all| all.group.clone());
            return group.ok_or_else(|| Error::new(ErrorKind::Retry, "the group of metrics was dropped"));
        }
        let stored = Arc::new(self.series_table(GROUP_NAME, created?, &schema).just_created());
        let group = Arc::new(Measurement::group(stored));
        self.state.write().measurements.entry(key).or_default().group = Some(group.clone());
        Ok(group)
    }

    /// Creates the members of a group that do not exist. The caller holds the table lock shared.
    pub(crate) async fn create_members(
        &self,
        database: &str,
        policy: &str,
        group: &Arc<Measurement>,
        names: &BTreeSet<String>,
    ) -> Result<()> {
        let key = (database.to_owned(), policy.to_owned());
        let is_there = |name: &String| {
            let state = self.state.read();
            let known = state.measurements.get(&key).and_then(|all| all.get(name));
            known.map(|known| known.table() == group.table())
        };
        if names.iter().all(|name| is_there(name) == Some(true)) {
            return Ok(());
        }
        let _changing = self.changing.lock().await;
        let new: Vec<&String> = names.iter().filter(|name| is_there(name) != Some(true)).collect();
        if let Some(name) = new.iter().find(|name| is_there(name).is_some()) {
            let words = format!("measurement {name:?} was made by line protocol meanwhile: send it again");
            return Err(Error::new(ErrorKind::Retry, words));
        }
        let mut bytes = 0;
        let mut state = self.state.write();
        let all = state.measurements.entry(key).or_default();
        for name in new {
            group.stored().add_member(name);
            bytes += Measurement::MEMBER_BYTES + name.len();
            all.insert(Arc::new(Measurement::member(name.clone(), group.stored().clone())));
        }
        drop(state);
        self.add_series_memory(bytes);
        Ok(())
    }

    /// Drops the members of a name from the groups of a database. Returns whether there were any.
    pub(super) async fn drop_members(&self, database: &str, name: &str) -> Result<bool> {
        let mut found = false;
        for policy in &self.existing_database(database)?.policies {
            let key = (database.to_owned(), policy.name.clone());
            let member = self.state.read().measurements.get(&key).and_then(|all| all.get(name)).cloned();
            let Some(member) = member.filter(|member| member.is_member()) else { continue };
            let table = member.stored();
            table.load().await?;
            let _pin = self.reload_series(&member, TimeRange::ALL, &TagFilter::All).await?;
            let _lock = table.table_lock().lock_exclusive().await;
            if member.was_dropped() {
                continue;
            }
            found |= !self.is_shared() || member.has_series();
            let all = PointSelection::new(TagFilter::All, TimeRange::ALL);
            self.delete_owned(&member, &all, false).await?;
            // In a shared store a member without series is not shown, and stays: others may be writing to it.
            if !self.is_shared() {
                self.forget_member(&member).await?;
            }
        }
        Ok(found)
    }

    /// Removes a member that has no points from its group. The caller holds the table lock exclusively. Even if writing
    /// the records fails, the member no longer exists, and the next writer removes its records.
    pub(crate) async fn forget_member(&self, member: &Measurement) -> Result<()> {
        {
            let _changing = self.changing.lock().await;
            member.mark_dropped();
            let mut state = self.state.write();
            let is_its = |all: &&mut PolicyMeasurements| {
                all.group.as_ref().is_some_and(|group| group.table() == member.table())
            };
            if let Some(all) = state.measurements.values_mut().find(is_its) {
                all.remove_member(member.name());
            }
        }
        self.give_back_series_memory(Measurement::MEMBER_BYTES + member.name().len());
        member.stored().forget_member(member.name());
        member.stored().save_removals().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::TableLocks;
    use nyala_core::store::memory::MemoryStore;

    #[tokio::test]
    async fn a_dropped_member_is_not_covered_by_the_lock_on_its_table() {
        let catalog = Catalog::open(Arc::new(MemoryStore::default())).await.unwrap();
        catalog.create_database("d", None).await.unwrap();
        let policy = catalog.database("d").unwrap().policies[0].clone();
        let group = catalog.group("d", &policy).await.unwrap();
        let names = ["a".to_owned(), "b".to_owned()].into();
        catalog.create_members("d", "autogen", &group, &names).await.unwrap();
        let member = async |name| catalog.measurement("d", "autogen", name).await.unwrap();
        let (a, b) = (member("a").await.unwrap(), member("b").await.unwrap());
        assert!(catalog.drop_measurement("d", "a").await.unwrap());
        let locks = TableLocks::try_lock(&[a.clone(), b.clone()]).unwrap();
        assert!(locks.cover(&[b]) && !locks.cover(&[a]));
        assert!(member("a").await.is_none());
    }
}
