//! A table of the system as a table of plans. Its rows are computed when a statement is executed.

use super::cell;
use super::content::{self, Scope};
use super::objects::Objects;
use super::system_table::SystemTable;
use super::viewer::Viewer;
use crate::awaited::Awaited;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, Session, TableProvider};
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::collections::HashSet;
use std::sync::Arc;

/// A table of the system in a database.
#[derive(Debug, Clone)]
pub(crate) struct CatalogTable {
    table: &'static SystemTable,
    viewer: Arc<Viewer>,
    database: String,
}

impl CatalogTable {
    pub(super) fn of(table: &'static SystemTable, viewer: Arc<Viewer>, database: String) -> Self {
        Self { table, viewer, database }
    }

    /// A scan of the rows that are about some relations.
    fn scan_of(
        self,
        names: Arc<dyn CatalogProviderList>,
        projection: Option<Vec<usize>>,
        only: Option<HashSet<u32>>,
    ) -> Awaited<'static, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let Self { table, viewer, database } = &self;
            let objects = Objects::of(viewer, database);
            let scope = Scope { viewer, database, objects: &objects, names, only };
            let rows = content::rows(table, &scope).await;
            let projection = projection.unwrap_or_else(|| (0..table.columns.len()).collect());
            let batch = cell::batch(table, &rows, &projection)?;
            let schema = batch.schema();
            let scan = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)?;
            Ok(scan as Arc<dyn ExecutionPlan>)
        })
    }
}

#[async_trait]
impl TableProvider for CatalogTable {
    fn schema(&self) -> arrow_schema::SchemaRef {
        self.table.fields.clone()
    }

    fn table_type(&self) -> TableType {
        if self.table.is_view { TableType::View } else { TableType::Base }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // They only spare the work for other relations.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn scan<'life0, 'life1, 'life2, 'life3, 'awaited>(
        &'life0 self,
        session: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        _: Option<usize>,
    ) -> Awaited<'awaited, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 'awaited,
        'life0: 'awaited,
        'life1: 'awaited,
        'life2: 'awaited,
        'life3: 'awaited,
    {
        self.clone().scan_of(session.catalog_list().clone(), projection.cloned(), wanted(filters))
    }
}

/// The columns that hold the number of the relation that a row is about.
const RELATION_COLUMNS: [&str; 4] = ["attrelid", "adrelid", "indrelid", "conrelid"];

/// The numbers of the relations that conditions leave; `None`: all.
fn wanted(filters: &[Expr]) -> Option<HashSet<u32>> {
    filters.iter().find_map(numbers)
}

fn numbers(filter: &Expr) -> Option<HashSet<u32>> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let value = if is_relation(left) {
                right
            } else if is_relation(right) {
                left
            } else {
                return None;
            };
            Some(HashSet::from([number(value)?]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            numbers(left).or_else(|| numbers(right))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Some(&numbers(left)? | &numbers(right)?)
        }
        Expr::InList(list) if !list.negated && is_relation(&list.expr) => {
            list.list.iter().map(number).collect()
        }
        _ => None,
    }
}

fn is_relation(expression: &Expr) -> bool {
    matches!(expression, Expr::Column(Column { name, .. }) if RELATION_COLUMNS.contains(&&**name))
}

fn number(expression: &Expr) -> Option<u32> {
    match expression {
        Expr::Literal(ScalarValue::Int64(Some(own)), _) => u32::try_from(*own).ok(),
        _ => None,
    }
}
