//! A measurement as a table.
//!
//! [`columns`] says which columns it has, [`filter`] which conditions the store and the index of series judge, [`scan`]
//! how rows are read, and [`tags`] how the tags of their series become columns.

mod aggregate;
mod columns;
mod conditions;
mod filter;
mod input;
mod latest;
mod latest_rule;
mod scan;
mod tags;

pub(crate) use aggregate::PushDownAggregates;
pub(crate) use latest_rule::PushDownLatest;

use crate::error::outside;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use columns::Columns;
use conditions::ScanConditions;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use nyala_db::catalog::Measurement;
use scan::MeasurementScan;
use std::fmt;
use std::sync::Arc;

/// From how many series on the rows of a scan are read by several tasks: with fewer, starting them costs more than it
/// saves.
const PARALLEL_SERIES_MIN: usize = 64;

/// A measurement of a retention policy.
pub(crate) struct MeasurementTable {
    measurement: Arc<Measurement>,
    columns: Arc<Columns>,
}

impl MeasurementTable {
    /// A measurement, which must be loaded, with the fields that it has now.
    pub(crate) fn of(measurement: Arc<Measurement>) -> Self {
        let columns = Arc::new(Columns::of(&measurement));
        Self { measurement, columns }
    }
}

impl fmt::Debug for MeasurementTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeasurementTable({})", self.measurement.name())
    }
}

#[async_trait]
impl TableProvider for MeasurementTable {
    fn schema(&self) -> SchemaRef {
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
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.columns.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let conditions = ScanConditions::of(filters, &self.columns).map_err(outside)?;
        let series = self.measurement.series().select(conditions.known_tags()).len() as usize;
        let tasks = match series < PARALLEL_SERIES_MIN && !self.measurement.has_evicted_series() {
            true => 1,
            false => session.config().target_partitions(),
        };
        let scan = MeasurementScan::new(
            self.measurement.clone(),
            self.columns.clone(),
            projection,
            Arc::new(conditions),
            limit,
            tasks,
        )?;
        Ok(Arc::new(scan))
    }
}
