//! The types that fields have in the shards of corrected points.

use crate::catalog::{Catalog, Field, FieldType, Measurement, ShardStarts, add_shards};
use nyala_core::store::WriteBatch;
use nyala_core::{Error, Result};
use std::collections::BTreeSet;

/// The shards in which fields get values.
#[derive(Debug, Default)]
pub(super) struct FieldShards {
    fields: Vec<(Field, BTreeSet<i64>)>,
}

impl FieldShards {
    /// Notes that a field gets values at some times.
    pub(super) fn add(&mut self, field: &Field, times_ns: &[i64], starts: &ShardStarts) {
        let is_same = |(known, _): &(Field, _)| known.column == field.column;
        let position = self.fields.iter().position(is_same).unwrap_or_else(|| {
            self.fields.push((field.clone(), BTreeSet::new()));
            self.fields.len() - 1
        });
        add_shards(&mut self.fields[position].1, times_ns, starts);
    }

    fn each(&self) -> impl Iterator<Item = (&Field, i64)> {
        self.fields
            .iter()
            .flat_map(|(field, shards_ns)| shards_ns.iter().map(move |start_ns| (field, *start_ns)))
    }
}

impl Catalog {
    /// Gives fields their types in shards that do not have them yet, durably. The caller holds the table lock.
    ///
    /// # Errors
    /// Conflict if a field has another type in one of the shards.
    pub(super) async fn claim_types(&self, measurement: &Measurement, wanted: &FieldShards) -> Result<()> {
        let check = |field: &Field, start_ns: i64, known: FieldType| match known == field.field_type {
            true => Ok(()),
            false => Err(Error::conflict(format!(
                "field {:?} of {:?} has the type {} in the shard that begins at {start_ns} ns, not {}: nothing was changed",
                field.name,
                measurement.name(),
                known.name(),
                field.field_type.name()
            ))),
        };
        for (field, start_ns) in wanted.each() {
            if let Some(known) = measurement.shard_type(start_ns, &field.name) {
                check(field, start_ns, known)?;
            }
        }
        for (field, start_ns) in wanted.each() {
            // A writer may have been first.
            let known = measurement.claim_shard_type(start_ns, &field.name, field.field_type);
            check(field, start_ns, known)?;
        }
        let table = measurement.stored();
        if let Some(log) = table.change_log() {
            return match table.register_names(log).await? {
                true => Ok(()),
                false => {
                    Err(Error::conflict("another server has given a field another type: nothing was changed"))
                }
            };
        }
        let records = table.unsaved_records(std::iter::empty());
        let operations = records.operations(self.series_records());
        if !operations.is_empty() {
            self.store().write(WriteBatch { operations }).await?;
            table.saved(&records);
        }
        Ok(())
    }
}
