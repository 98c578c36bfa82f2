//! A table of users as a table of plans.
//!
//! [`columns`] says which columns it has, [`filter`] which conditions the store judges, [`key_range`] which keys conditions
//! leave, and [`scan`] how rows are read. [`datum`], [`input`] and [`assign`] give values the types of columns, as
//! PostgreSQL does, whose errors they report.

pub(crate) mod assign;
pub(crate) mod columns;
pub(crate) mod datum;
mod decimal;
pub(crate) mod declared_type;
pub(crate) mod filter;
pub(crate) mod input;
pub(crate) mod key_range;
pub(crate) mod literal;
pub(crate) mod output;
pub(crate) mod rules;
mod scan;
mod time_text;

use async_trait::async_trait;
use columns::TableColumns;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use filter::Conditions;
use nyala_core::TableId;
use nyala_db::catalog::Catalog;
use nyala_db::relations::{Relation, TableDefinition};
use scan::RelationScan;
pub(crate) use scan::shown_as;
use std::fmt;
use std::sync::Arc;

/// A table, as plans see it.
pub(crate) struct RelationTable {
    catalog: Arc<Catalog>,
    name: String,
    table: TableId,
    columns: Arc<TableColumns>,
}

impl RelationTable {
    /// A table, with its hidden key if `with_hidden`.
    pub(crate) fn of(
        catalog: Arc<Catalog>,
        relation: &Relation,
        table: &TableDefinition,
        with_hidden: bool,
    ) -> Self {
        let columns = if with_hidden { TableColumns::all(table) } else { TableColumns::shown(table) };
        Self { catalog, name: relation.name.clone(), table: table.table, columns: Arc::new(columns) }
    }

    /// The table of the store that holds its rows.
    pub(crate) fn stored(&self) -> TableId {
        self.table
    }

    /// About how many rows it has.
    async fn rows(&self) -> Option<usize> {
        let partitions = self.catalog.store().partitions(self.table).await.ok()?;
        let counts: Option<Vec<u64>> = partitions.iter().map(|partition| partition.rows).collect();
        counts.map(|counts| counts.iter().sum::<u64>() as usize)
    }
}

impl fmt::Debug for RelationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelationTable({})", self.name)
    }
}

#[async_trait]
impl TableProvider for RelationTable {
    fn schema(&self) -> arrow_schema::SchemaRef {
        self.columns.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let judged = |filter: &&Expr| match filter::is_judged(filter, &self.columns) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(judged).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.columns.columns.len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let conditions = Conditions::of(filters, &self.columns)?;
        let rows = self.rows().await;
        let (name, columns) = (self.name.clone(), self.columns.clone());
        Ok(Arc::new(RelationScan::new(name, self.table, columns, projection, conditions, limit, rows)?))
    }
}
