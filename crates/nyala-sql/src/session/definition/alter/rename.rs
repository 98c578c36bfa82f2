//! Other names for tables, views, columns and constraints. Rows are stored under numbers, so nothing of them changes.

use super::actions::duplicate_column;
use super::dependents::Dependent;
use super::measurement::new_name;
use super::view_text::{Replacement, identifier, is_open};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::parsed;
use crate::identifier::folded;
use crate::session::Session;
use crate::session::definition::{changed, table_of, taken};
use crate::target::{Place, check_name};
use crate::walk::each_expression_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, RenameTableNameKind};
use nyala_db::relations::{Body, Check, Key, Relation, RelationChange, TableDefinition};
use std::sync::Arc;

impl Session {
    pub(super) async fn rename_relation(
        &mut self,
        relation: &Arc<Relation>,
        name: &RenameTableNameKind,
    ) -> SqlResult<()> {
        let place = Place { database: relation.database.clone(), schema: None, name: new_name(name)? };
        place.check_new()?;
        if self.is_name_taken(&place.database, &place.name) {
            return Err(taken(&place.name));
        }
        let mut definition = relation.definition.clone();
        if let Body::Table(table) = &mut definition.body {
            // A check may name its table.
            let plain = |parts: &[Ident]| parts.last().cloned().map(Expr::Identifier);
            change_checks(table, |inner| match inner {
                Expr::CompoundIdentifier(parts) => plain(parts),
                _ => None,
            })?;
        }
        let dependents = self.dependents(relation).await?;
        let by = Replacement { relation, name: &place.name, columns: None };
        let mut changes = dependents.iter().map(|own| own.changed(&by)).collect::<SqlResult<Vec<_>>>()?;
        let (before, name) = (relation.clone(), place.name.clone());
        changes.push(RelationChange { before, name, after: Some(definition) });
        self.change_names(&dependents, &changes).await
    }

    pub(super) async fn rename_column(
        &mut self,
        relation: &Arc<Relation>,
        old: &Ident,
        new: &Ident,
    ) -> SqlResult<()> {
        if relation.view().is_some() {
            return Err(SqlError::unsupported("another name for a column of a view")
                .with_hint("Use CREATE OR REPLACE VIEW."));
        }
        let (old, new) = (folded(old), folded(new));
        check_name(&new)?;
        let before = table_of(relation)?;
        if before.column(&old).is_none() {
            return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, format!("column \"{old}\" does not exist")));
        }
        if before.column(&new).is_some() {
            return Err(duplicate_column(&new, &relation.name));
        }
        let mut table = before.clone();
        for column in table.columns.iter_mut().filter(|column| column.name == old) {
            column.name.clone_from(&new);
        }
        change_checks(&mut table, |inner| match inner {
            Expr::Identifier(name) if folded(name) == old => Some(Expr::Identifier(identifier(&new))),
            Expr::CompoundIdentifier(parts) if parts.last().map(folded).as_ref() == Some(&old) => {
                Some(Expr::Identifier(identifier(&new)))
            }
            _ => None,
        })?;
        let dependents = self.dependents(relation).await?;
        // In the order of the table: `*` of a view means all of them.
        let names = before.columns.iter().map(|column| &column.name);
        let now = |known: &String| if *known == old { new.clone() } else { known.clone() };
        let concerned = |own: &&Dependent| {
            own.used.contains(&old) || is_open(&own.definition, std::slice::from_ref(&new))
        };
        let mut changes = Vec::new();
        for own in dependents.iter().filter(concerned).filter(|own| !own.used.is_empty()) {
            let used = names.clone().filter(|name| own.used.contains(*name));
            let columns = used.map(|known| (now(known), known.clone())).collect();
            let by = Replacement { relation, name: &relation.name, columns: Some(columns) };
            changes.push(own.changed(&by)?);
        }
        changes.push(changed(relation, table));
        self.change_names(&dependents, &changes).await
    }

    pub(in crate::session::definition) async fn rename_constraint(
        &mut self,
        relation: &Arc<Relation>,
        old: &Ident,
        new: &Ident,
    ) -> SqlResult<()> {
        let (old, new) = (folded(old), folded(new));
        check_name(&new)?;
        let mut table = table_of(relation)?.clone();
        let is_key = |name: &str| matches!(&table.key, Key::Declared { name: own, .. } if own == name);
        let is_check = |name: &str| table.checks.iter().any(|check| check.name == name);
        let is_indexed = table.index(&old).is_some();
        if !is_key(&old) && !is_check(&old) && !is_indexed {
            let message = format!("constraint \"{old}\" for table \"{}\" does not exist", relation.name);
            return Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message));
        }
        if !is_check(&old) && self.is_name_taken(&relation.database, &new) {
            return Err(taken(&new));
        }
        if is_key(&new) || is_check(&new) || table.index(&new).is_some() {
            let message = format!("constraint \"{new}\" for relation \"{}\" already exists", relation.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        match &mut table.key {
            Key::Declared { name, .. } if *name == old => name.clone_from(&new),
            _ if is_indexed => {
                let own = table.indexes.iter_mut().filter(|index| index.name == old);
                own.for_each(|index| index.name.clone_from(&new));
            }
            _ => {
                for check in table.checks.iter_mut().filter(|check| check.name == old) {
                    check.name.clone_from(&new);
                }
                table.checks.sort_by(|a, b| a.name.cmp(&b.name));
            }
        }
        self.change_names(&[], &[changed(relation, table)]).await
    }

    async fn change_names(&mut self, dependents: &[Dependent], changes: &[RelationChange]) -> SqlResult<()> {
        self.check_views(dependents, changes).await?;
        self.publish(changes).await
    }
}

/// Replaces parts of the checks of a table.
fn change_checks(table: &mut TableDefinition, replace: impl Fn(&Expr) -> Option<Expr>) -> SqlResult<()> {
    for Check { expression, .. } in &mut table.checks {
        let mut tree = parsed(expression)?;
        let mut is_changed = false;
        each_expression_mut(&mut tree, &mut |inner| {
            if let Some(other) = replace(inner) {
                *inner = other;
                is_changed = true;
            }
        });
        if is_changed {
            *expression = tree.to_string();
        }
    }
    Ok(())
}
