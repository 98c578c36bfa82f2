//! A plan that is used again, for statements that read measurements only.
//!
//! The names of a plan mean something only as long as its tables have the columns that they had. So a plan names its
//! tables, and is right as long as each of them is the same, with the same fields and tags.

use crate::error::SqlResult;
use crate::measurement::MeasurementTable;
use crate::walk::WalkPlan;
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use nyala_db::catalog::{Catalog, Field, Measurement};
use nyala_db::users::{Principal, Privilege};
use std::fmt;
use std::sync::Arc;

/// A plan that is used again.
pub(crate) struct KnownPlan {
    /// The types of the parameters that the client gives.
    pub(crate) parameters: Vec<DataType>,
    /// The columns of the answer.
    pub(crate) columns: SchemaRef,
    pub(crate) reused: Reused,
    /// What it was made with.
    pub(crate) config: SessionConfig,
    /// The literals that are parameters, in order, with their types.
    pub(crate) literals: Vec<(usize, DataType)>,
    pub(crate) tables: Arc<[KnownTable]>,
    pub(crate) bytes: usize,
}

/// A measurement as it was when a plan was made.
pub(crate) struct KnownTable {
    database: String,
    policy: String,
    measurement: Arc<Measurement>,
    fields: Arc<Vec<Field>>,
    tags: Vec<String>,
}

/// How much of the planning is done.
#[derive(Debug)]
pub(crate) enum Reused {
    /// All of it.
    Physical(Arc<dyn ExecutionPlan>),
    /// The plan is optimised, but has parameters where only their values can stand.
    Logical(LogicalPlan),
}

/// The measurements that a plan reads; `None` if it reads nothing, or anything else.
pub(crate) fn tables_of(plan: &LogicalPlan) -> SqlResult<Option<Vec<KnownTable>>> {
    let (tables, has_others) = measurements_of(plan)?;
    Ok((!has_others && !tables.is_empty()).then_some(tables))
}

/// The measurements that a plan reads, and whether it reads other tables, too.
pub(crate) fn measurements_of(plan: &LogicalPlan) -> SqlResult<(Vec<KnownTable>, bool)> {
    let (mut tables, mut has_others) = (Vec::new(), false);
    plan.each_with_subqueries(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            match provider.downcast_ref::<MeasurementTable>() {
                Some(table) => tables.push(KnownTable {
                    database: table.database.clone(),
                    policy: table.policy.clone(),
                    measurement: table.measurement.clone(),
                    fields: table.measurement.fields(),
                    tags: table.measurement.tag_keys(),
                }),
                None => has_others = true,
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((tables, has_others))
}

impl KnownTable {
    /// Whether a plan that was made of it still gives its rows. It may have got more fields and tags since.
    pub(crate) async fn is_usable(&self, catalog: &Catalog) -> SqlResult<bool> {
        let (fields, tags) = (self.measurement.fields(), self.measurement.tag_keys());
        let has_fields =
            Arc::ptr_eq(&fields, &self.fields) || self.fields.iter().all(|field| fields.contains(field));
        Ok(has_fields && self.tags.iter().all(|tag| tags.contains(tag)) && self.is_living(catalog).await?)
    }

    /// Whether it has the columns that it had.
    async fn is_unchanged(&self, catalog: &Catalog) -> SqlResult<bool> {
        let fields = self.measurement.fields();
        let has_fields = Arc::ptr_eq(&fields, &self.fields) || fields == self.fields;
        Ok(has_fields && self.measurement.tag_keys() == self.tags && self.is_living(catalog).await?)
    }

    /// Whether its name still means it.
    async fn is_living(&self, catalog: &Catalog) -> SqlResult<bool> {
        let found = catalog.measurement(&self.database, &self.policy, self.measurement.name()).await?;
        Ok(found.is_some_and(|found| Arc::ptr_eq(&found, &self.measurement)))
    }
}

impl fmt::Debug for KnownTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownTable({}.{}.{})", self.database, self.policy, self.measurement.name())
    }
}

impl fmt::Debug for KnownPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownPlan({:?})", self.reused)
    }
}

impl KnownPlan {
    /// Whether its tables are what they were, and may be read.
    pub(crate) async fn is_right(&self, catalog: &Catalog, principal: &Principal) -> SqlResult<bool> {
        for known in &*self.tables {
            if !principal.may(Privilege::Read, &known.database) {
                return Ok(false);
            }
            if !known.is_unchanged(catalog).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a measurement of it was dropped: then it only holds memory.
    pub(super) fn is_dead(&self) -> bool {
        self.tables.iter().any(|known| known.measurement.was_dropped())
    }
}
