//! Columns of the store that no definition shows.
//!
//! A column that is dropped disappears with the change of the record. The store keeps it as long as somebody may look at the
//! time before: queries that have begun, and those of the past. A column that is added is created in the store first, so that
//! one which no record knows is left by a server that stopped half-way.

use super::{Body, Relations};
use nyala_core::store::{Alteration, Feature, Freshness};
use nyala_core::{ColumnId, ErrorKind, Result, TableId};
use std::sync::Arc;

/// How long a column that was dropped is kept for queries that know it, ns: a minute is more than they need from their plan to
/// their snapshot.
const KEPT_NS: i64 = 60_000_000_000;

impl Relations {
    /// Drops columns that were created for definitions which do not list them.
    pub(super) async fn drop_orphan_columns(&self) -> Result<()> {
        for relation in self.all() {
            let Some(table) = relation.table() else { continue };
            // A table that is missing is not found by queries either.
            let Ok(schema) = self.store.schema(table.table) else { continue };
            let is_known = |id| table.has(id) || table.dropped.iter().any(|own| own.id == id);
            let orphans: Vec<ColumnId> =
                schema.columns.iter().map(|column| column.id).filter(|id| !is_known(*id)).collect();
            match self.drop_columns(table.table, &orphans).await {
                // A store of the past cannot be changed.
                Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
                dropped => dropped?,
            }
        }
        Ok(())
    }

    /// Drops the columns whose past nobody can ask for any more. Returns how many there were.
    pub(crate) async fn drop_past_columns(&self, now_ns: i64) -> Result<u64> {
        let mut count = 0;
        for relation in self.all() {
            let Some(table) = relation.table() else { continue };
            let mut past: Vec<ColumnId> = Vec::new();
            for dropped in &table.dropped {
                let is_old = dropped.at_ns.saturating_add(KEPT_NS) <= now_ns;
                if is_old && !self.is_remembered(dropped.at_ns).await? {
                    past.push(dropped.id);
                }
            }
            if past.is_empty() {
                continue;
            }
            // Nobody alters the table meanwhile.
            let _shared = relation.lock.read().await;
            self.drop_columns(table.table, &past).await?;
            let forget = |before: Option<&Arc<super::Relation>>| {
                let mut definition = super::existing(before, &relation.name)?.definition.clone();
                if let Body::Table(own) = &mut definition.body
                    && own.table == table.table
                {
                    own.dropped.retain(|dropped| !past.contains(&dropped.id));
                }
                Ok(Some(definition))
            };
            match self.change(&relation.database, &relation.name, forget).await {
                // It was dropped or renamed meanwhile: next time.
                Err(error) if error.kind() == ErrorKind::Missing => {}
                changed => drop(changed?),
            }
            count += past.len() as u64;
        }
        Ok(count)
    }

    /// Whether a moment of the past can be asked for.
    async fn is_remembered(&self, at_ns: i64) -> Result<bool> {
        if !self.store.capabilities().features.has(Feature::History) {
            return Ok(false);
        }
        match self.store.snapshot(Freshness::Past(at_ns)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Missing => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn drop_columns(&self, table: TableId, columns: &[ColumnId]) -> Result<()> {
        for id in columns {
            match self.store.alter_table(table, vec![Alteration::DropColumn(*id)]).await {
                // It was dropped, but its record was not changed.
                Err(error) if error.kind() == ErrorKind::Missing => {}
                dropped => drop(dropped?),
            }
        }
        Ok(())
    }
}
