//! `DROP TABLE`, `DROP VIEW`, `DROP SEQUENCE` and `TRUNCATE`.

use super::table_of;
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::session::Session;
use crate::target::Place;
use datafusion::sql::sqlparser::ast::{ObjectName, Truncate, TruncateIdentityOption};
use nyala_core::TableSchema;
use nyala_db::relations::{Body, Relation};
use std::sync::Arc;

/// What a statement drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DroppedKind {
    Table,
    View,
    Sequence { is_cascade: bool },
}

impl DroppedKind {
    pub(super) fn of(relation: &Relation) -> Self {
        match &relation.definition.body {
            Body::Table(_) => Self::Table,
            Body::View(_) => Self::View,
            Body::Sequence(_) => Self::Sequence { is_cascade: false },
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
            Self::Sequence { .. } => "sequence",
        }
    }
}

impl Session {
    pub(super) async fn drop_relations(
        &mut self,
        dropped: DroppedKind,
        if_exists: bool,
        is_cascade: bool,
        names: &[ObjectName],
    ) -> SqlResult<CommandTag> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let place = self.writable_place(name)?;
            let kind = dropped.word();
            match place.relation(self.relations()) {
                Some(relation) if DroppedKind::of(&relation).word() == kind => found.push((place, relation)),
                Some(relation) => {
                    let message = format!("\"{}\" is not a {kind}", place.name);
                    let other = DroppedKind::of(&relation).word();
                    return Err(SqlError::new(SqlState::WRONG_OBJECT, message)
                        .with_hint(format!("Use DROP {} to remove a {other}.", other.to_uppercase())));
                }
                None if if_exists => {}
                None => {
                    let message = format!("{kind} \"{}\" does not exist", place.shown());
                    return Err(SqlError::new(SqlState::UNKNOWN_TABLE, message));
                }
            }
        }
        self.check_numbered(found.iter().map(|(_, relation)| relation))?;
        let relations: Vec<_> = found.iter().map(|(_, relation)| relation.clone()).collect();
        let above = self.views_above(&relations, is_cascade)?.into_iter().map(|view| {
            let place = Place { database: view.database.clone(), schema: None, name: view.name.clone() };
            (place, view)
        });
        for (place, relation) in above.chain(found) {
            if let DroppedKind::Sequence { is_cascade } = dropped {
                self.drop_sequence(&relation, is_cascade)?;
                continue;
            }
            if self.transaction.is_some() {
                self.put_uncommitted(&relation.database, &relation.name, None);
                if let Some(table) = relation.table() {
                    self.drop_owned(&relation.database, table);
                }
                continue;
            }
            // Whoever is writing rows finishes first.
            let (_alone, relation) = self.locked_relation(&place, &relation).await?;
            let dropped = self.server.catalog.drop_relation(&relation.database, &relation.name).await?;
            if !dropped && !if_exists {
                let message = format!("table \"{}\" does not exist", relation.name);
                return Err(SqlError::new(SqlState::UNKNOWN_TABLE, message));
            }
        }
        Ok(CommandTag::of(match dropped {
            DroppedKind::Table => "DROP TABLE",
            DroppedKind::View => "DROP VIEW",
            DroppedKind::Sequence { .. } => "DROP SEQUENCE",
        }))
    }

    pub(super) async fn truncate(&mut self, truncate: &Truncate) -> SqlResult<CommandTag> {
        let mut found = Vec::with_capacity(truncate.table_names.len());
        for target in &truncate.table_names {
            found.push(self.existing_table(&target.name)?);
        }
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
            return Err(SqlError::unsupported("TRUNCATE of parts of a table"));
        }
        for (place, relation) in found {
            if self.transaction.is_some() {
                self.truncate_uncommitted(&relation).await?;
                if truncate.identity == Some(TruncateIdentityOption::Restart) {
                    self.restart_owned(&relation.database, table_of(&relation)?)?;
                }
                continue;
            }
            let catalog = Arc::clone(&self.server.catalog);
            let (_alone, relation) = self.locked_alone(&place, &relation).await?;
            let schemas = self.schemas_without_rows(&relation)?;
            catalog.truncate_relation(&relation, schemas).await?;
        }
        Ok(CommandTag::of("TRUNCATE TABLE"))
    }

    /// Replaces the rows of a table by none, when the transaction is committed.
    async fn truncate_uncommitted(&mut self, relation: &Relation) -> SqlResult<()> {
        let mut stores = Vec::new();
        for schema in self.schemas_without_rows(relation)? {
            stores.push(self.create_uncommitted(&relation.database, &relation.name, schema).await?);
        }
        let definition = relation.definition.with_stores(&stores);
        self.put_uncommitted(&relation.database, &relation.name, Some(definition));
        Ok(())
    }

    /// The schemas of the store for new tables in the place of old ones.
    pub(in crate::session) fn schemas_without_rows(
        &self,
        relation: &Relation,
    ) -> SqlResult<Vec<TableSchema>> {
        let table = table_of(relation)?;
        let mut schema = (*self.server.catalog.store().schema(table.table)?).clone();
        schema.columns.retain(|column| table.has(column.id));
        let mut schemas = vec![schema];
        for index in &table.indexes {
            schemas.push(index.schema(&schemas[0])?);
        }
        Ok(schemas)
    }
}
