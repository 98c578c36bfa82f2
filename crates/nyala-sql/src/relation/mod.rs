//! A table of users as a table of plans.
//!
//! [`columns`] says which columns it has, [`filter`] which conditions the store judges, [`key_range`] which keys conditions
//! leave, [`index_range`] which index finds them, and [`scan`] how rows are read. [`entries`] are those of indexes. [`datum`], [`input`] and [`assign`] give values the types of columns, as
//! PostgreSQL does, whose errors they report.

pub(crate) mod assign;
pub(crate) mod columns;
pub(crate) mod datum;
pub(crate) mod decimal;
pub(crate) mod declared_type;
pub(crate) mod entries;
pub(crate) mod filter;
mod index_range;
pub(crate) mod input;
pub(crate) mod key_range;
mod known;
pub(crate) mod literal;
pub(crate) mod output;
mod parts;
mod prefilter;
pub(crate) mod queried_column;
mod reading;
pub(crate) mod rules;
mod scan;
pub(crate) mod second_digits;
mod shown;
pub(crate) mod time_text;

use crate::awaited::{Awaited, at_once};
use async_trait::async_trait;
use columns::TableColumns;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use filter::Conditions;
pub(crate) use known::{altered_since, check_known};
use nyala_core::TableId;
use nyala_db::catalog::Catalog;
use nyala_db::relations::{Index, Relation, TableDefinition};
use scan::RelationScan;
pub(crate) use shown::shown_as;
use std::fmt;
use std::sync::Arc;

/// A table, as plans see it.
#[derive(Clone)]
pub(crate) struct RelationTable {
    catalog: Arc<Catalog>,
    name: String,
    table: TableId,
    columns: Arc<TableColumns>,
    indexes: Arc<[Index]>,
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
        let (name, columns) = (relation.name.clone(), Arc::new(columns));
        Self { catalog, name, table: table.table, columns, indexes: table.indexes.as_slice().into() }
    }

    /// The table of the store that holds its rows.
    pub(crate) fn stored(&self) -> TableId {
        self.table
    }

    fn scan_under(
        self,
        projection: Vec<usize>,
        conditions: Conditions,
        limit: Option<usize>,
    ) -> Awaited<'static, Result<Arc<dyn ExecutionPlan>>> {
        Box::pin(async move {
            let rows = self.rows().await;
            let scan = RelationScan::new(self, projection, conditions, limit, rows)?;
            Ok(Arc::new(scan) as Arc<dyn ExecutionPlan>)
        })
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

    fn scan<'life0, 'life1, 'life2, 'life3, 'awaited>(
        &'life0 self,
        _: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> Awaited<'awaited, Result<Arc<dyn ExecutionPlan>>>
    where
        Self: 'awaited,
        'life0: 'awaited,
        'life1: 'awaited,
        'life2: 'awaited,
        'life3: 'awaited,
    {
        let all = || (0..self.columns.columns.len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        match Conditions::of(filters, &self.columns) {
            Ok(conditions) => self.clone().scan_under(projection, conditions, limit),
            Err(error) => at_once(Err(error)),
        }
    }
}
