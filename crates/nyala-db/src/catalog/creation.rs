//! Creation of measurements and fields that points name for the first time.
//!
//! Everything that a batch creates is one change of the store, because each change costs a sync, whatever its size.

use super::policy_measurements::PolicyKey;
use super::series_table::SeriesTable;
use super::{Catalog, FieldType, Measurement, RetentionPolicy, SEPARATOR};
use nyala_core::store::Alteration;
use nyala_core::{ColumnId, Error, ErrorKind, Result, TableId, TableSchema};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A measurement, and the fields to write to it.
pub(crate) type FieldsToWrite<'a> = (&'a Arc<Measurement>, &'a [(String, FieldType)]);

/// A measurement, and those of its fields that have no column.
type NewFields<'a> = (&'a Measurement, BTreeSet<(&'a str, FieldType)>);

/// How often measurements are created anew that another server has created and dropped meanwhile.
const CREATION_TRIES: usize = 8;

impl Catalog {
    /// The measurements of these names, with their series loaded; `None` for a name that does not exist.
    pub(crate) async fn measurements_named(
        &self,
        database: &str,
        policy: &str,
        names: &[impl AsRef<str>],
    ) -> Result<Vec<Option<Arc<Measurement>>>> {
        let key = (database.to_owned(), policy.to_owned());
        let found: Vec<_> = {
            let state = self.state.read();
            let all = state.measurements.get(&key);
            names.iter().map(|name| all.and_then(|all| all.get(name.as_ref())).cloned()).collect()
        };
        if found.iter().any(Option::is_none) {
            self.check_readable(database, policy)?;
        }
        SeriesTable::load_all(found.iter().flatten().map(|own| own.stored())).await?;
        Ok(found)
    }

    /// Creates the measurements of these names that do not exist.
    pub(crate) async fn create_measurements(
        &self,
        database: &str,
        policy: &RetentionPolicy,
        mut names: Vec<String>,
    ) -> Result<()> {
        let _changing = self.changing.lock().await;
        // The database may have been dropped since the caller looked it up.
        let known = self.existing_database(database)?;
        let policy = known.existing_policy(&policy.name)?;
        let key = (database.to_owned(), policy.name.clone());
        names.sort_unstable();
        names.dedup();
        let schema = |name: &String| {
            let table_name = format!("{database}{SEPARATOR}{}{SEPARATOR}{name}", policy.name);
            TableSchema::measurement(table_name, policy.shard_duration_ns)
        };
        let retain_unknown = |names: &mut Vec<String>| {
            let state = self.state.read();
            let all = state.measurements.get(&key);
            names.retain(|name| all.is_none_or(|all| all.get(name).is_none()));
        };
        retain_unknown(&mut names);
        let mut tries = CREATION_TRIES;
        loop {
            let schemas: Vec<TableSchema> = names.iter().map(schema).collect();
            match self.store.create_tables(schemas.clone()).await {
                // They may have been dropped already, and created again by another server.
                Ok(_) if self.is_shared() => {
                    self.follow_tables();
                    return Ok(());
                }
                Ok(tables) => {
                    let made = names.iter().zip(tables).zip(&schemas);
                    self.add_created(&key, made.map(|((name, table), schema)| (&**name, table, schema)));
                    return Ok(());
                }
                // Another server has created one of them, and perhaps dropped it since.
                Err(error) if error.kind() == ErrorKind::Conflict && self.is_shared() && tries > 0 => {
                    let before = names.len();
                    self.follow_tables();
                    retain_unknown(&mut names);
                    if names.len() == before {
                        tries -= 1;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds measurements whose tables were just created in a store of one's own.
    fn add_created<'a>(
        &self,
        key: &PolicyKey,
        made: impl Iterator<Item = (&'a str, TableId, &'a TableSchema)>,
    ) {
        let mut state = self.state.write();
        let all = state.measurements.entry(key.clone()).or_default();
        let mut bytes = 0;
        for (name, table, schema) in made {
            let stored = Arc::new(self.series_table(name, table, schema).just_created());
            bytes += stored.memory_bytes();
            all.insert(Arc::new(Measurement::whole(name.to_owned(), stored)));
        }
        drop(state);
        self.add_series_memory(bytes);
    }

    /// The columns of fields that are about to be written. New columns are added.
    pub(crate) async fn columns_for_write(
        &self,
        to_write: &[FieldsToWrite<'_>],
    ) -> Result<Vec<Vec<ColumnId>>> {
        let known = || -> Option<Vec<_>> {
            to_write.iter().map(|(measurement, fields)| measurement.shown_columns(fields)).collect()
        };
        if let Some(columns) = known() {
            return Ok(columns);
        }
        let _altering = self.altering.lock().await;
        self.add_columns(to_write).await?;
        to_write.iter().for_each(|(measurement, fields)| measurement.show_fields(fields));
        let columns = to_write.iter().map(|(measurement, fields)| measurement.stored().columns_of(fields));
        let words = || Error::new(ErrorKind::Retry, "the measurement is being changed by other servers");
        columns.collect::<Option<_>>().ok_or_else(words)
    }

    /// Adds the columns that some fields lack. The caller holds `altering`.
    pub(super) async fn add_columns(&self, to_write: &[FieldsToWrite<'_>]) -> Result<()> {
        let mut new: BTreeMap<TableId, NewFields<'_>> = BTreeMap::new();
        for (measurement, fields) in to_write {
            for (name, field_type) in measurement.stored().without_column(fields) {
                let table = new.entry(measurement.table()).or_insert((measurement, BTreeSet::new()));
                table.1.insert((name, field_type));
            }
        }
        let mut changes = Vec::with_capacity(new.len());
        for (table, (measurement, fields)) in &new {
            let schema = self.store.schema(*table)?;
            if schema.columns.len() + fields.len() > self.store.capabilities().columns_max {
                return Err(Error::limit(format!(
                    "measurement {:?} has too many fields",
                    measurement.name()
                )));
            }
            let add = |(name, field_type): &(&str, FieldType)| match self.is_shared() {
                // Another server may be adding it.
                true => Alteration::EnsureColumn((*name).to_owned(), field_type.column_type()),
                false => Alteration::add_column(*name, field_type.column_type()),
            };
            changes.push((*table, fields.iter().map(add).collect()));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let schemas = self.store.alter_tables(changes).await?;
        for ((measurement, fields), schema) in new.values().zip(&schemas) {
            measurement.stored().set_columns(schema);
            self.add_series_memory(fields.len() * SeriesTable::FIELD_BYTES);
        }
        Ok(())
    }
}
