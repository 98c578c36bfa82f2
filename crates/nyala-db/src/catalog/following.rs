//! Following the other servers of a shared store: what the catalog knows becomes what the store holds.

use super::group::GROUP_NAME;
use super::record::{member_key, member_of};
use super::series_table::SeriesTable;
use super::{Catalog, Measurement, SEPARATOR, State};
use crate::records::{ChangeLog, Entry};
use nyala_core::store::Freshness;
use nyala_core::{Result, TableId, TableSchema};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Catalog {
    /// Learns everything that was acknowledged by other servers before this call. Does nothing in a store that no other
    /// server uses. A snapshot of the returned freshness has everything that was acknowledged before this call; in a shared
    /// store it costs less than the latest.
    pub async fn follow(&self) -> Result<Freshness> {
        match &self.change_log {
            // Boxed, so that requests to a store of one's own carry nothing of it.
            Some(log) => Box::pin(self.follow_log(log)).await,
            None => Ok(Freshness::Latest),
        }
    }

    async fn follow_log(&self, log: &ChangeLog) -> Result<Freshness> {
        let sequence = log.follow().await?;
        let mut applied = self.applied_news.lock().await;
        let version = log.tables_version();
        let news = log.news();
        if news.databases != applied.databases {
            let _changing = self.changing.lock().await;
            self.learn_databases(&self.database_records.read().await?)?;
            applied.databases = news.databases;
        }
        if self.tables_version.load(Ordering::Acquire) != version {
            self.follow_tables();
            self.tables_version.store(version, Ordering::Release);
        }
        // Members of groups that were just found are among them.
        for (table, number) in log.news().members {
            self.follow_members(table).await?;
            log.members_read(table, number);
        }
        if news.users != applied.users {
            self.users.read_again().await?;
            applied.users = news.users;
        }
        if news.relations != applied.relations {
            self.relations.read_again().await?;
            applied.relations = news.relations;
        }
        Ok(Freshness::AtLeast(sequence))
    }

    /// Like [`Self::follow`]. It also finds changes that have no entry, because their server died before it appended one.
    /// For background work.
    pub async fn follow_thoroughly(&self) -> Result<Freshness> {
        if let Some(log) = &self.change_log {
            log.doubt_records();
            let state = self.state.read();
            let groups = state.measurements.values().filter_map(|all| all.group.as_ref());
            groups.for_each(|group| log.doubt_members(group.table()));
        }
        self.follow().await
    }

    /// Tells the other servers of a change, if there may be any.
    pub(crate) async fn announce(&self, entry: Entry) -> Result<()> {
        match &self.change_log {
            Some(log) => log.append(&entry, |_| ()).await.map(drop),
            None => Ok(()),
        }
    }

    /// What is known of a table of points, which follows the log from now on.
    pub(super) fn series_table(&self, name: &str, table: TableId, schema: &TableSchema) -> SeriesTable {
        let (store, records) = (self.store.clone(), self.series_records.clone());
        SeriesTable::new(name.to_owned(), table, schema, store, records, self.change_log.clone())
    }

    /// Makes a new table follow the log, if there is one.
    pub(super) fn add_follower(&self, table: &Arc<SeriesTable>) {
        if let Some(log) = &self.change_log {
            log.add_follower(table.table(), table);
        }
    }

    /// Makes the known tables of points those of the store.
    pub(super) fn follow_tables(&self) {
        let Some(log) = &self.change_log else { return };
        // First: a table that is created meanwhile must not look dropped.
        let mut state = self.state.write();
        let tables = self.store.tables();
        let existing: HashSet<TableId> = tables.iter().map(|(table, _)| *table).collect();
        let mut known: HashMap<TableId, Arc<SeriesTable>> = HashMap::new();
        for all in state.measurements.values_mut() {
            let dropped: Vec<_> =
                all.tables().filter(|table| !existing.contains(&table.table())).cloned().collect();
            for table in dropped {
                if table.table_lock().mark_dropped() {
                    self.give_back_series_memory(table.memory_bytes());
                }
                all.remove_table(&table);
            }
            known.extend(all.tables().map(|table| (table.table(), table.clone())));
        }
        for (table, schema) in &tables {
            match known.get(table) {
                Some(known) => known.follow_columns(schema),
                None => self.add_table(log, &mut state, *table, schema),
            }
        }
    }

    /// Adds a table of points that another server has created.
    fn add_table(&self, log: &ChangeLog, state: &mut State, table: TableId, schema: &TableSchema) {
        let mut parts = schema.name.splitn(3, SEPARATOR);
        let (Some(database), Some(policy), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        let stored = Arc::new(self.series_table(name, table, schema));
        self.add_follower(&stored);
        self.add_series_memory(stored.memory_bytes());
        let all = state.measurements.entry((database.to_owned(), policy.to_owned())).or_default();
        match name == GROUP_NAME {
            true => {
                all.group = Some(Arc::new(Measurement::group(stored)));
                log.doubt_members(table);
            }
            false => all.insert(Arc::new(Measurement::whole(name.to_owned(), stored))),
        }
    }

    /// Adds the members of a group that other servers have created.
    async fn follow_members(&self, table: TableId) -> Result<()> {
        let is_its =
            |group: &Option<Arc<Measurement>>| group.as_ref().is_some_and(|own| own.table() == table);
        if !self.state.read().measurements.values().any(|all| is_its(&all.group)) {
            return Ok(());
        }
        let mut names = Vec::new();
        let take = |key: &[u8], _: &[u8]| names.extend(member_of(key).map(str::to_owned));
        self.series_records.visit(&member_key(table, ""), take).await?;
        let mut state = self.state.write();
        let Some(all) = state.measurements.values_mut().find(|all| is_its(&all.group)) else { return Ok(()) };
        let Some(stored) = all.group.as_ref().map(|group| group.stored().clone()) else { return Ok(()) };
        let mut bytes = 0;
        for name in names {
            if all.get(&name).is_none() {
                bytes += Measurement::MEMBER_BYTES + name.len();
                all.insert(Arc::new(Measurement::member(name, stored.clone())));
            }
        }
        self.add_series_memory(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::ParseOptions;
    use crate::series::TagFilter;
    use crate::write::LineWriter;
    use nyala_core::TimeRange;
    use nyala_core::memory::MemoryBudget;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::store::{Capabilities, Store, StoreRef};

    async fn server(store: &StoreRef) -> LineWriter {
        let catalog = Arc::new(Catalog::open(store.clone()).await.unwrap());
        LineWriter::new(catalog, MemoryBudget::new(1 << 40), usize::MAX)
    }

    async fn hosts(server: &LineWriter) -> Vec<String> {
        server.catalog().follow().await.unwrap();
        let mut all = Vec::new();
        for measurement in server.catalog().measurements("d", "autogen").await.unwrap() {
            let series = measurement.series();
            all.extend(series.values_of("host", &series.all()));
        }
        all
    }

    /// The log keeps 64 entries in tests.
    #[tokio::test]
    async fn a_server_that_missed_entries_reads_everything_again() {
        let own = MemoryStore::default().capabilities();
        let capabilities = Capabilities { is_shared: true, ..own };
        let store: StoreRef = Arc::new(MemoryStore::with_capabilities(capabilities));
        let (first, second) = (server(&store).await, server(&store).await);
        let write = async |server: &LineWriter, lines: &str| {
            let report = server.write("d", "", ParseOptions::default(), lines.as_bytes()).await.unwrap();
            assert_eq!(report.complaint(), None);
        };
        first.catalog().create_database("d", None).await.unwrap();
        write(&first, "m,host=a v=1 1\nm,host=b v=1 1").await;
        assert_eq!(hosts(&second).await, ["a", "b"]);
        let m = first.catalog().measurement("d", "autogen", "m").await.unwrap().unwrap();
        let of = |host: &str| TagFilter::Equal("host".into(), host.into());
        first.catalog().delete_points(&m, &of("a"), TimeRange::ALL).await.unwrap();
        for number in 0..40 {
            write(&first, &format!("m,host=h{number} v=1 1")).await;
            write(&first, &format!("m,host=b,other=x{number} v=1 1")).await;
        }
        first.catalog().delete_points(&m, &of("h7"), TimeRange::ALL).await.unwrap();
        write(&first, "m,host=z v=1,w=2i 1\nn,host=y v=1 1").await;
        let expected = hosts(&first).await;
        assert_eq!(expected.len(), 42);
        assert_eq!(hosts(&second).await, expected);
        let fields = second.catalog().measurement("d", "autogen", "m").await.unwrap().unwrap().fields();
        assert_eq!(fields.len(), 2);
        // Hidden series are shown again, also where their hiding was read from records.
        let third = server(&store).await;
        assert_eq!(hosts(&third).await, expected);
        write(&second, "m,host=a v=1 1\nm,host=h7 v=1 1").await;
        for server in [&first, &second, &third, &server(&store).await] {
            assert_eq!(hosts(server).await.len(), 44);
        }
    }
}
