//! Groups: measurements that share a table, because they are many and have one field. See `measurement`.

use super::series_table::SeriesTable;
use super::{Catalog, Measurement, Place, RetentionPolicy, SEPARATOR, State};
use crate::series::TagFilter;
use nyala_core::{Error, ErrorKind, Result, TableSchema, TimeRange};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the table of a group is called where something fails; no measurement is.
pub(super) const GROUP_NAME: &str = "";

impl Catalog {
    /// Tells of which measurements a retention policy has a table: they came by line protocol, and samples of their
    /// metrics go there.
    pub fn own_tables(&self, database: &str, policy: &str) -> impl Fn(&str) -> bool + use<'_> {
        let policy = self.database(database).and_then(|known| Some(known.policy(policy)?.name.clone()));
        let place = (database.to_owned(), policy.unwrap_or_default());
        let has_any = {
            let state = self.state.read();
            let all = state.measurements.get(&place);
            all.is_some_and(|all| all.values().any(|known| !known.is_member()))
        };
        move |name| {
            let is_own = || {
                let state = self.state.read();
                let known = state.measurements.get(&place).and_then(|all| all.get(name));
                known.is_some_and(|known| !known.is_member())
            };
            has_any && is_own()
        }
    }

    /// The group of a retention policy, its series loaded; made if there is none.
    pub(crate) async fn group(&self, database: &str, policy: &RetentionPolicy) -> Result<Arc<Measurement>> {
        let place = (database.to_owned(), policy.name.clone());
        self.check_readable(database, &policy.name)?;
        let known = |place: &Place| self.state.read().groups.get(place).cloned();
        let group = match known(&place) {
            Some(group) => group,
            None => {
                let _changing = self.changing.lock().await;
                match known(&place) {
                    Some(group) => group,
                    None => self.create_group(place).await?,
                }
            }
        };
        group.stored().load().await?;
        Ok(group)
    }

    async fn create_group(&self, place: Place) -> Result<Arc<Measurement>> {
        // Database or policy may have been dropped since the caller looked.
        let known = self.existing_database(&place.0)?;
        let policy = known.existing_policy(&place.1)?;
        let table_name = format!("{}{SEPARATOR}{}{SEPARATOR}{GROUP_NAME}", place.0, place.1);
        let schema = TableSchema::measurement(table_name, policy.shard_duration_ns);
        let table = self.store.create_table(schema.clone()).await?;
        let (store, records) = (self.store.clone(), self.series_records.clone());
        let stored = SeriesTable::created(GROUP_NAME.into(), table, &schema, store, records);
        let group = Arc::new(Measurement::group(Arc::new(stored)));
        self.state.write().groups.insert(place, group.clone());
        Ok(group)
    }

    /// Makes sure that a group has members of these names. The caller shares the membership.
    pub(crate) async fn create_members(
        &self,
        database: &str,
        policy: &str,
        group: &Arc<Measurement>,
        names: &BTreeSet<String>,
    ) -> Result<()> {
        let place = (database.to_owned(), policy.to_owned());
        let is_there = |name: &String| {
            let state = self.state.read();
            let known = state.measurements.get(&place).and_then(|all| all.get(name));
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
        let all = state.measurements.entry(place).or_default();
        for name in new {
            group.stored().add_member(name);
            bytes += Measurement::MEMBER_BYTES + name.len();
            all.insert(name.clone(), Arc::new(Measurement::member(name.clone(), group.stored().clone())));
        }
        drop(state);
        self.add_series_memory(bytes);
        Ok(())
    }

    /// Drops what the groups of a database have of a name; whether there was anything.
    pub(super) async fn drop_members(&self, database: &str, name: &str) -> Result<bool> {
        let mut found = false;
        for policy in &self.existing_database(database)?.policies {
            let place = (database.to_owned(), policy.name.clone());
            let member = self.state.read().measurements.get(&place).and_then(|all| all.get(name)).cloned();
            let Some(member) = member.filter(|member| member.is_member()) else { continue };
            let table = member.stored();
            table.load().await?;
            let _stay = self.recall(&member, TimeRange::ALL, &TagFilter::All).await?;
            let _owned = table.membership().own().await;
            if member.has_ended() {
                continue;
            }
            self.delete_owned(&member, &TagFilter::All, TimeRange::ALL, false).await?;
            self.forget_member(&member).await?;
            found = true;
        }
        Ok(found)
    }

    /// Takes a member out of its group, which has no points of it. The caller owns the membership. Whatever becomes of its
    /// records, from here on it is not there, and the next writer takes their removal along.
    pub(crate) async fn forget_member(&self, member: &Measurement) -> Result<()> {
        {
            let _changing = self.changing.lock().await;
            member.end();
            let mut state = self.state.write();
            let State { measurements, groups, .. } = &mut *state;
            let of_table = groups.iter().find(|(_, group)| group.table() == member.table());
            if let Some(all) = of_table.and_then(|(place, _)| measurements.get_mut(place)) {
                all.remove(member.name());
            }
        }
        self.give_back_series_memory(Measurement::MEMBER_BYTES + member.name().len());
        member.stored().forget_member(member.name());
        member.stored().save_removals(None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Members;
    use nyala_core::store::memory::MemoryStore;

    #[tokio::test]
    async fn a_member_that_was_dropped_is_not_held_though_its_table_is() {
        let catalog = Catalog::open(Arc::new(MemoryStore::default())).await.unwrap();
        catalog.create_database("d", None).await.unwrap();
        let policy = catalog.database("d").unwrap().policies[0].clone();
        let group = catalog.group("d", &policy).await.unwrap();
        let names = ["a".to_owned(), "b".to_owned()].into();
        catalog.create_members("d", "autogen", &group, &names).await.unwrap();
        let member = async |name| catalog.measurement("d", "autogen", name).await.unwrap();
        let (a, b) = (member("a").await.unwrap(), member("b").await.unwrap());
        assert!(catalog.drop_measurement("d", "a").await.unwrap());
        let held = Members::try_share(&[a.clone(), b.clone()]).unwrap();
        assert!(held.hold(&[b]) && !held.hold(&[a]));
        assert!(member("a").await.is_none());
    }
}
