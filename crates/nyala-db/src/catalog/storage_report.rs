//! What measurements and tables of SQL take on disk, and what maintenance of the store does, by the names that users know.

use super::{Catalog, Measurement};
use crate::relations::{Index, Relation};
use nyala_core::store::{MaintenanceTask, PartStorage, TablePart, TableStorage};
use nyala_core::{ColumnId, Error, Result, TableId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A table of the store as users know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableName {
    /// Its database; empty if it belongs to the server itself.
    pub database: String,
    /// The retention policy of a measurement.
    pub policy: Option<String>,
    /// The measurement, or the table of SQL.
    pub name: String,
}

/// What a measurement or a table takes.
#[derive(Debug, Clone)]
pub struct StorageReport {
    /// Which one.
    pub table: TableName,
    /// The whole of it; the parts are in `parts`.
    pub storage: TableStorage,
    /// What its files are made of.
    pub parts: Vec<ReportedPart>,
}

/// What a measurement or a table takes as a whole.
#[derive(Debug, Clone)]
pub struct TableSizes {
    /// Which one.
    pub table: TableName,
    /// Its rows; `None`: they would have to be counted.
    pub rows: Option<u64>,
    /// Its files.
    pub disk_bytes: u64,
    /// Its rows that are in no file yet.
    pub memory_bytes: u64,
}

/// A part of a table's files.
#[derive(Debug, Clone)]
pub struct ReportedPart {
    /// The name of the column; empty: it is no column.
    pub column: String,
    /// What it is: `time`, `field`, `column`, `series`, `keys` or `other`.
    pub kind: &'static str,
    /// The type of its values.
    pub value_type: String,
    /// What it takes.
    pub storage: PartStorage,
}

/// How a column is shown: its name, its kind and the type of its values.
type ShownColumn = (String, &'static str, String);

impl Catalog {
    /// What the measurements of a name take in all retention policies of a database, or in one of them, and the table of
    /// SQL of that name. Series are not loaded for that.
    pub async fn storage(
        &self,
        database: &str,
        policy: Option<&str>,
        name: &str,
    ) -> Result<Vec<StorageReport>> {
        let known = self.existing_database(database)?;
        let policies = match policy {
            Some(policy) => vec![known.existing_policy(policy)?.name.clone()],
            None => known.policies.iter().map(|policy| policy.name.clone()).collect(),
        };
        let mut reports = Vec::new();
        for policy in policies {
            let key = (database.to_owned(), policy.clone());
            let found = self.state.read().measurements.get(&key).and_then(|all| all.get(name)).cloned();
            if let Some(measurement) = found {
                let name = measurement.name().to_owned();
                let table = TableName { database: database.to_owned(), policy: Some(policy), name };
                let columns = columns_of_measurement(&measurement);
                reports.push(self.storage_of(table, measurement.table(), columns).await?);
            }
        }
        let relation = self.relations().find(database, name).filter(|_| policy.is_none());
        if let Some((relation, definition)) = relation.as_ref().and_then(|own| Some((own, own.table()?))) {
            let columns = definition.columns.iter().map(|column| {
                (column.id, (column.name.clone(), "column", column.declared_type.name().to_owned()))
            });
            reports.push(self.storage_of(name_of(relation), definition.table, columns.collect()).await?);
        }
        let relations = if policy.is_none() { self.relations().of(database) } else { Vec::new() };
        for (relation, table) in relations.iter().filter_map(|own| Some((own, own.table()?))) {
            let Some(index) = table.index(name) else { continue };
            let columns = index.columns.iter().chain(table.key.columns()).enumerate().map(|(place, id)| {
                let own = table.columns.iter().find(|own| own.id == *id);
                let (name, value_type) =
                    own.map_or(("", "bigint"), |own| (&*own.name, own.declared_type.name()));
                (Index::value_column(place), (name.to_owned(), "column", value_type.to_owned()))
            });
            let shown = TableName { name: name.to_owned(), ..name_of(relation) };
            reports.push(self.storage_of(shown, index.table, columns.collect()).await?);
        }
        match reports.is_empty() {
            true => Err(Error::missing(format!("measurement or table not found: {name}"))),
            false => Ok(reports),
        }
    }

    /// What each measurement and each table of SQL of a database takes, the largest first. Nothing is read for that.
    pub async fn table_sizes(&self, database: &str) -> Result<Vec<TableSizes>> {
        let known = self.existing_database(database)?;
        // A store that keeps no files says so.
        self.store.maintenance()?;
        let mut tables = Vec::new();
        for policy in &known.policies {
            for own in self.known_tables(database, &policy.name) {
                let (database, policy) = (database.to_owned(), Some(policy.name.clone()));
                tables.push((own.table(), TableName { database, policy, name: own.name().to_string() }));
            }
        }
        let relations = self.relations().all();
        let relations = relations.iter().filter(|own| own.database == database);
        tables.extend(relations.flat_map(|own| stores_of(own)));
        let mut all = Vec::with_capacity(tables.len());
        for (id, table) in tables {
            // One that was dropped meanwhile takes nothing.
            let Ok(partitions) = self.store.partitions(id).await else { continue };
            all.push(TableSizes {
                table,
                rows: partitions.iter().map(|partition| partition.rows).sum(),
                disk_bytes: partitions.iter().map(|partition| partition.disk_bytes).sum(),
                memory_bytes: partitions.iter().map(|partition| partition.memory_bytes).sum(),
            });
        }
        all.sort_by_key(|own| std::cmp::Reverse((own.disk_bytes, own.memory_bytes)));
        Ok(all)
    }

    async fn storage_of(
        &self,
        name: TableName,
        table: TableId,
        columns: HashMap<ColumnId, ShownColumn>,
    ) -> Result<StorageReport> {
        let schema = self.store.schema(table)?;
        let mut storage = self.store.table_storage(table).await?;
        let shown = |part: PartStorage| {
            let (column, kind, value_type) = match part.part {
                TablePart::Column(id) => match (columns.get(&id), schema.column(id)) {
                    (Some(shown), _) => shown.clone(),
                    (None, Some(column)) if schema.is_series_keyed() && schema.is_key(id) => {
                        (column.name.clone(), "time", "timestamp".to_owned())
                    }
                    // Rows of tables without a key have a number.
                    _ => (String::new(), "keys", String::new()),
                },
                TablePart::Keys if schema.is_series_keyed() => (String::new(), "series", String::new()),
                TablePart::Keys => (String::new(), "keys", String::new()),
                TablePart::Other => (String::new(), "other", String::new()),
            };
            ReportedPart { column, kind, value_type, storage: part }
        };
        let parts = std::mem::take(&mut storage.parts).into_iter().map(shown).collect();
        Ok(StorageReport { table: name, storage, parts })
    }

    /// What maintenance does, and what waits for it.
    pub fn maintenance(&self) -> Result<Vec<(MaintenanceTask, TableName)>> {
        let tasks = self.store.maintenance()?;
        let names = self.table_names(&tasks.iter().filter_map(|task| task.table).collect());
        let named = tasks.into_iter().map(|task| {
            let name = task.table.map(|table| {
                // Tables of the server itself, such as that of series.
                let own = || self.store.schema(table).map_or_else(|_| String::new(), |own| own.shown_name());
                names
                    .get(&table)
                    .cloned()
                    .unwrap_or_else(|| TableName { name: own(), ..TableName::default() })
            });
            (task, name.unwrap_or_default())
        });
        Ok(named.collect())
    }

    /// Those of some tables that users know.
    fn table_names(&self, wanted: &HashSet<TableId>) -> HashMap<TableId, TableName> {
        if wanted.is_empty() {
            return HashMap::new();
        }
        let state = self.state.read();
        let measurements = state.measurements.iter().flat_map(|((database, policy), all)| {
            let of_them = all.tables().filter(|table| wanted.contains(&table.table()));
            of_them.map(move |table| {
                let (database, policy) = (database.clone(), Some(policy.clone()));
                (table.table(), TableName { database, policy, name: table.name().to_string() })
            })
        });
        let mut names: HashMap<TableId, TableName> = measurements.collect();
        let relations = self.relations().all();
        let of_them = relations.iter().flat_map(|own| stores_of(own));
        names.extend(of_them.filter(|(table, _)| wanted.contains(table)));
        names
    }
}

/// The tables of the store that belong to a relation: that of its rows has its name, the others those of its indexes.
fn stores_of(relation: &Relation) -> Vec<(TableId, TableName)> {
    let Some(table) = relation.table() else { return Vec::new() };
    let indexes = table.indexes.iter();
    let indexes = indexes.map(|own| (own.table, TableName { name: own.name.clone(), ..name_of(relation) }));
    std::iter::once((table.table, name_of(relation))).chain(indexes).collect()
}

fn name_of(relation: &Relation) -> TableName {
    TableName { database: relation.database.clone(), policy: None, name: relation.name.clone() }
}

fn columns_of_measurement(measurement: &Arc<Measurement>) -> HashMap<ColumnId, ShownColumn> {
    let fields = measurement.stored().columns.read();
    let shown = |field: &super::Field| {
        (field.column, (field.name.clone(), "field", field.field_type.name().to_owned()))
    };
    fields.iter().map(shown).collect()
}
