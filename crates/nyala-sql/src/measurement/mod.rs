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
mod statistics;
mod tags;

use aggregate::MeasurementAggregate;
pub(crate) use aggregate::PushDownAggregates;
pub(crate) use latest_rule::PushDownLatest;

use crate::awaited::{Awaited, at_once};
use crate::error::outside;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
pub use columns::COMPUTED_KEY;
use columns::Columns;
pub(crate) use columns::{SERIES, Source, TIME, TIME_NS, ZONE, time_type};
use conditions::ScanConditions;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use filter::Conditions;
use nyala_db::catalog::Measurement;
use nyala_db::selection::PointSelection;
use scan::MeasurementScan;
use statistics::Known;
use std::fmt;
use std::sync::Arc;

/// From how many series on the rows of a scan are read by several tasks: with fewer, starting them costs more than it
/// To find the tags of so many series takes about a millisecond.
const MANY_SERIES: u64 = 4096;
/// saves.
const PARALLEL_SERIES_MIN: usize = 64;

/// Values that the parameters of a plan are likely to have, for the planner.
pub(crate) struct SampleValues(pub(crate) Vec<ScalarValue>);

/// Whether a plan reads nothing but measurements: then it holds nothing of a single execution.
pub(crate) fn is_of_measurements(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    match children.is_empty() {
        true => plan.is::<MeasurementScan>() || plan.is::<MeasurementAggregate>(),
        false => children.into_iter().all(is_of_measurements),
    }
}

/// A measurement of a retention policy.
pub(crate) struct MeasurementTable {
    pub(crate) database: String,
    pub(crate) policy: String,
    pub(crate) measurement: Arc<Measurement>,
    columns: Arc<Columns>,
}

impl MeasurementTable {
    /// A measurement, which must be loaded, with the fields that it has now, and its hidden column if `with_hidden`.
    pub(crate) fn of(measurement: Arc<Measurement>, database: &str, policy: &str, with_hidden: bool) -> Self {
        let columns = Arc::new(Columns::of(&measurement, with_hidden));
        Self { database: database.to_owned(), policy: policy.to_owned(), measurement, columns }
    }
}

impl MeasurementTable {
    /// What its columns are called, and what they show.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.columns.schema.fields().iter().map(|field| field.name().as_str()).zip(&self.columns.sources)
    }

    /// Their names and types.
    pub(crate) fn shown_schema(&self) -> &SchemaRef {
        &self.columns.schema
    }

    /// The points that satisfy conditions which were pushed down to its scan, with values for their parameters.
    ///
    /// # Errors
    /// Invalid if a value cannot be compared with its column.
    pub(crate) fn selection(&self, filters: &[Expr]) -> nyala_core::Result<PointSelection> {
        let Conditions { time, tags, predicates } = Conditions::of(filters, &self.columns, &[])?;
        Ok(PointSelection { tags, time, predicates })
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

    fn scan<'life0, 'life1, 'life2, 'life3, 'awaited>(
        &'life0 self,
        session: &'life1 dyn Session,
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
        match self.begin_scan(session, projection, filters, limit) {
            Ok((scan, likely, series)) => with_statistics(scan, self.measurement.clone(), likely, series),
            Err(error) => at_once(Err(error)),
        }
    }
}

impl MeasurementTable {
    /// A scan, with what its conditions probably are, and how many series it probably reads.
    fn begin_scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<(MeasurementScan, Conditions, u64)> {
        let all = || (0..self.columns.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let conditions = ScanConditions::of(filters, &self.columns).map_err(outside)?;
        // The values of parameters when the plan was made are as good an example as any.
        let samples = session.config().get_extension::<SampleValues>();
        let samples = samples.as_ref().map_or(&[][..], |own| &own.0);
        let likely = conditions.likely(&self.columns, samples).into_owned();
        let series = self.measurement.series().select(&likely.tags).len() as usize;
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
        Ok((scan, likely, series as u64))
    }
}

fn with_statistics(
    scan: MeasurementScan,
    measurement: Arc<Measurement>,
    likely: Conditions,
    series: u64,
) -> Awaited<'static, Result<Arc<dyn ExecutionPlan>>> {
    Box::pin(async move {
        let known = Known::of(&measurement, &likely, series).await.map_err(outside)?;
        Ok(Arc::new(scan.with_statistics(&known)) as Arc<dyn ExecutionPlan>)
    })
}
