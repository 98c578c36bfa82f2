//! The views that a change of a relation concerns.

use super::actions::Altered;
use super::view_text::{Replacement, is_open, names, query_of};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::quoted;
use crate::names::DatabaseNames;
use crate::names::view::plan;
use crate::relation::RelationTable;
use crate::session::Session;
use crate::session::definition::drop::DroppedKind;
use crate::walk::{Walk, WalkPlan};
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use nyala_core::TableId;
use nyala_db::relations::{Body, Definition, Relation, RelationChange, ViewDefinition};
use nyala_db::users::Principal;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// A view that names a relation.
pub(super) struct Dependent {
    pub(super) view: Arc<Relation>,
    pub(super) definition: ViewDefinition,
    /// The columns of the relation that it uses.
    pub(super) used: BTreeSet<String>,
    /// Its own columns.
    columns: Vec<(String, DataType)>,
}

impl Session {
    /// What becomes of views when a table is altered.
    ///
    /// # Errors
    /// If a view needs what is to be dropped, or changed into something else.
    pub(super) fn changes_of_views(
        &self,
        relation: &Relation,
        altered: &Altered,
        dependents: &[Dependent],
    ) -> SqlResult<Vec<RelationChange>> {
        let mut dropped: Vec<Arc<Relation>> = Vec::new();
        for (column, is_cascade) in &altered.dropped {
            let using = dependents.iter().filter(|own| own.used.contains(column));
            let mut details = Vec::new();
            let what = format!("column {column} of table {}", quoted(&relation.name));
            for own in using {
                self.collect(&own.view, &what, &mut dropped, &mut details);
            }
            if !is_cascade && !details.is_empty() {
                let message = format!("cannot drop {what} because other objects depend on it");
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
                    .with_detail(details.join("\n"))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
        }
        let is_dropped = |view: &Relation| {
            dropped.iter().any(|own| own.database == view.database && own.name == view.name)
        };
        for column in &altered.retyped {
            let mut kept = dependents.iter().filter(|own| !is_dropped(&own.view));
            if let Some(own) = kept.find(|own| own.used.contains(column)) {
                let message = "cannot alter type of a column used by a view or rule";
                return Err(SqlError::new(SqlState::UNSUPPORTED, message).with_detail(format!(
                    "rule _RETURN on view {} depends on column \"{column}\"",
                    own.view.name
                )));
            }
        }
        let drop = |view: &Arc<Relation>| RelationChange {
            before: view.clone(),
            name: view.name.clone(),
            after: None,
        };
        let mut changes: Vec<RelationChange> = dropped.iter().map(drop).collect();
        for own in dependents.iter().filter(|own| !is_dropped(&own.view)) {
            // It does not see what is new.
            if !own.used.is_empty() && is_open(&own.definition, &altered.added) {
                let used = altered.before.columns.iter().filter(|column| own.used.contains(&column.name));
                let columns = used.map(|column| (column.name.clone(), column.name.clone())).collect();
                let by = Replacement { relation, name: &relation.name, columns: Some(columns) };
                changes.push(own.changed(&by)?);
            }
        }
        Ok(changes)
    }

    /// The views that stand on relations which are to be dropped with them, those above others first.
    ///
    /// # Errors
    /// There are some, and they are not to be dropped.
    pub(in super::super) fn views_above(
        &self,
        relations: &[Arc<Relation>],
        is_cascade: bool,
    ) -> SqlResult<Vec<Arc<Relation>>> {
        let is_same =
            |own: &Relation, other: &Relation| (&own.database, &own.name) == (&other.database, &other.name);
        let is_dropped = |view: &Relation| relations.iter().any(|own| is_same(own, view));
        let (mut views, mut details) = (Vec::new(), Vec::new());
        for relation in relations {
            for view in self.naming(relation).into_iter().filter(|view| !is_dropped(view)) {
                let what = format!("{} {}", DroppedKind::of(relation).word(), quoted(&relation.name));
                self.collect(&view, &what, &mut views, &mut details);
            }
        }
        if !is_cascade && !details.is_empty() {
            let message = match relations {
                [only] => {
                    let kind = DroppedKind::of(only).word();
                    format!("cannot drop {kind} {} because other objects depend on it", quoted(&only.name))
                }
                _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
            };
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
                .with_detail(details.join("\n"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        views.retain(|view| !is_dropped(view));
        views.reverse();
        Ok(views)
    }

    /// The views that name a relation. A view that cannot be planned as it is depends on nothing.
    pub(super) async fn dependents(&self, relation: &Relation) -> SqlResult<Vec<Dependent>> {
        let names = self.all_names(Vec::new());
        let mut dependents = Vec::new();
        for view in self.naming(relation) {
            let Some(definition) = view.view().cloned() else { continue };
            let Some(planned) = planned(&definition, &names).await else { continue };
            let used = match relation.table() {
                Some(table) => used(&planned, table.table)?,
                None => BTreeSet::new(),
            };
            let columns = columns_of(planned.schema().inner());
            dependents.push(Dependent { view, definition, used, columns });
        }
        Ok(dependents)
    }

    /// Fails if a view would not give what it gives now.
    pub(super) async fn check_views(
        &self,
        dependents: &[Dependent],
        changes: &[RelationChange],
    ) -> SqlResult<()> {
        let names = self.all_names(changes.to_vec());
        for own in dependents {
            let changed = changes.iter().find(|change| {
                change.before.database == own.view.database && change.before.name == own.view.name
            });
            let definition = match changed.map(|change| change.after.as_ref().map(|after| &after.body)) {
                Some(Some(Body::View(view))) => view,
                Some(_) => continue,
                None => &own.definition,
            };
            let planned = planned(definition, &names).await;
            if planned.is_none_or(|planned| columns_of(planned.schema().inner()) != own.columns) {
                let message = format!("view \"{}\" would not give the same any more", own.view.name);
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
                    .with_hint("Drop the view first, and create it again."));
            }
        }
        Ok(())
    }

    /// All views that name a relation.
    fn naming(&self, relation: &Relation) -> Vec<Arc<Relation>> {
        let catalog = &self.server.catalog;
        let databases = catalog.databases();
        let all = databases.iter().flat_map(|database| self.relations().of(&database.name));
        all.filter(|own| own.view().is_some_and(|view| names(view, relation))).collect()
    }

    /// Adds a view, and those that depend on it, to the ones that are dropped. `what` is what it depends on.
    fn collect(
        &self,
        view: &Arc<Relation>,
        what: &str,
        dropped: &mut Vec<Arc<Relation>>,
        details: &mut Vec<String>,
    ) {
        if dropped.iter().any(|own| own.database == view.database && own.name == view.name) {
            return;
        }
        dropped.push(view.clone());
        details.push(format!("view {} depends on {what}", quoted(&view.name)));
        for above in self.naming(view) {
            self.collect(&above, &format!("view {}", quoted(&view.name)), dropped, details);
        }
    }

    /// All names there are, whoever may read them, after changes.
    fn all_names(&self, changes: Vec<RelationChange>) -> DatabaseNames {
        DatabaseNames { principal: Principal::Open, changes: changes.into(), ..self.names() }
    }
}

impl Dependent {
    /// The view, with a relation that is replaced.
    pub(super) fn changed(&self, by: &Replacement<'_>) -> SqlResult<RelationChange> {
        let body = Body::View(by.within(&self.definition)?);
        let after = Definition { body, ..self.view.definition.clone() };
        Ok(RelationChange { before: self.view.clone(), name: self.view.name.clone(), after: Some(after) })
    }
}

async fn planned(view: &ViewDefinition, names: &DatabaseNames) -> Option<LogicalPlan> {
    plan(query_of(view)?, view, names).await.ok()
}

fn columns_of(schema: &SchemaRef) -> Vec<(String, DataType)> {
    schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
}

/// The columns of a table that a plan uses.
fn used(plan: &LogicalPlan, table: TableId) -> SqlResult<BTreeSet<String>> {
    let mut names: HashSet<TableReference> = HashSet::new();
    plan.each_with_subqueries(&mut |node| {
        match node {
            LogicalPlan::TableScan(_) => names.extend(scanned(node, table).cloned()),
            LogicalPlan::SubqueryAlias(alias) if scanned(&alias.input, table).is_some() => {
                names.insert(alias.alias.clone());
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut used = BTreeSet::new();
    plan.each_with_subqueries(&mut |node| {
        node.apply_expressions(|expression| {
            expression.each(&mut |inner| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = inner
                    && column.relation.as_ref().is_some_and(|relation| names.contains(relation))
                {
                    used.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(used)
}

/// The name under which a node scans a table.
fn scanned(node: &LogicalPlan, table: TableId) -> Option<&TableReference> {
    let LogicalPlan::TableScan(scan) = node else { return None };
    let provider = source_as_provider(&scan.source).ok()?;
    let found = provider.downcast_ref::<RelationTable>()?;
    (found.stored() == table).then_some(&scan.table_name)
}
