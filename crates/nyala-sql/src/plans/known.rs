//! A plan that is used again, for statements that read measurements only.
//!
//! The names of a plan mean something only as long as its tables have the columns that they had. So a plan names its
//! tables, and is right as long as each of them is the same, with the same fields and tags.

use super::cache::Found;
use super::literals::parameterized;
use crate::error::SqlResult;
use crate::measurement::{MeasurementTable, SampleValues, is_of_measurements};
use crate::prepared::{Prepared, PreparedPlan};
use crate::server::SqlServer;
use crate::session::check_only_reads;
use crate::statement::Statement;
use arrow_schema::{DataType, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use nyala_db::catalog::{Field, Measurement};
use nyala_db::users::{Principal, Privilege};
use std::fmt;
use std::sync::Arc;

/// About how many bytes a plan takes for each byte of its text.
const BYTES_PER_LETTER: usize = 64;

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
    pub(super) literals: Vec<(usize, DataType)>,
    tables: Vec<KnownTable>,
    pub(super) bytes: usize,
}

/// A measurement as it was when a plan was made.
struct KnownTable {
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

/// The plan of a statement, if it is known and still right.
pub(crate) async fn find(
    server: &SqlServer,
    context: &str,
    principal: &Principal,
    statement: &Statement,
) -> SqlResult<Option<Prepared>> {
    let Some(shape) = &statement.shape else { return Ok(None) };
    let Found::Plan(plan) = server.plans.find(context, shape) else { return Ok(None) };
    if !plan.is_right(server, principal).await? {
        return Ok(None);
    }
    let value = |(number, data_type): &(usize, DataType)| shape.literals[*number].as_type(data_type);
    let Some(values) = plan.literals.iter().map(value).collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(Some(plan.prepared(statement.clone(), values)))
}

/// Plans a query so that the plan can be used again, and keeps it. `None` if that is not possible: then it must be planned
/// as it is, also to find out what is wrong with it.
pub(crate) async fn make(
    server: &SqlServer,
    context: &str,
    state: &mut SessionState,
    statement: &Statement,
    given: &[Option<DataType>],
) -> SqlResult<Option<Prepared>> {
    let Some(shape) = &statement.shape else { return Ok(None) };
    if matches!(server.plans.find(context, shape), Found::Never) {
        return Ok(None);
    }
    let mut unfit: Vec<usize> = Vec::new();
    let (prepared, literals, values) = loop {
        let wanted = |number: usize| !shape.has_parameters && !unfit.contains(&number);
        let (ast, numbers) = parameterized(&statement.ast, &shape.literals, wanted);
        let changed = Statement { ast, ..statement.clone() };
        let Ok(prepared) = Prepared::of_query(state, changed, given).await else { return Ok(None) };
        let literals: Vec<(usize, DataType)> =
            numbers.into_iter().zip(prepared.parameters.iter().cloned()).collect();
        let mut values = Vec::new();
        let before = unfit.len();
        for (number, data_type) in &literals {
            match shape.literals[*number].as_type(data_type) {
                Some(value) => values.push(value),
                None => unfit.push(*number),
            }
        }
        if unfit.len() == before {
            break (prepared, literals, values);
        }
    };
    let PreparedPlan::Query { plan, is_optimized: true } = &prepared.plan else {
        server.plans.insert_never(context, shape);
        return Ok(None);
    };
    check_only_reads(plan)?;
    let Some(tables) = tables_of(plan)? else {
        server.plans.insert_never(context, shape);
        return Ok(None);
    };
    let samples = if shape.has_parameters { Vec::new() } else { values.clone() };
    state.config_mut().set_extension(Arc::new(SampleValues(samples)));
    let planned = state.query_planner().create_physical_plan(plan, state).await;
    state.config_mut().set_extension(Arc::new(SampleValues(Vec::new())));
    let reused = match planned {
        Ok(physical) if is_of_measurements(&physical) => Reused::Physical(physical),
        _ => Reused::Logical(plan.clone()),
    };
    let letters = format!("{}", plan.display_indent()).len();
    let known = Arc::new(KnownPlan {
        parameters: if shape.has_parameters { prepared.parameters.clone() } else { Vec::new() },
        columns: prepared.columns.clone().expect("a query has columns"),
        reused,
        config: state.config().clone(),
        literals,
        tables,
        bytes: letters * BYTES_PER_LETTER,
    });
    server.plans.insert(context, shape, known.clone());
    Ok(Some(known.prepared(statement.clone(), values)))
}

/// The measurements that a plan reads; `None` if it reads anything else.
fn tables_of(plan: &LogicalPlan) -> SqlResult<Option<Vec<KnownTable>>> {
    let (mut tables, mut has_others) = (Vec::new(), false);
    plan.apply_with_subqueries(|node| {
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
    Ok((!has_others && !tables.is_empty()).then_some(tables))
}

impl fmt::Debug for KnownPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownPlan({:?})", self.reused)
    }
}

impl KnownPlan {
    fn prepared(self: Arc<Self>, statement: Statement, literals: Vec<ScalarValue>) -> Prepared {
        Prepared {
            statement,
            parameters: self.parameters.clone(),
            columns: Some(self.columns.clone()),
            plan: PreparedPlan::Known { plan: self, literals },
        }
    }

    /// Whether its tables are what they were, and may be read.
    async fn is_right(&self, server: &SqlServer, principal: &Principal) -> SqlResult<bool> {
        for known in &self.tables {
            if !principal.may(Privilege::Read, &known.database) {
                return Ok(false);
            }
            let own = &known.measurement;
            let found = server.catalog.measurement(&known.database, &known.policy, own.name()).await?;
            let is_same = found.is_some_and(|found| Arc::ptr_eq(&found, own));
            let fields = own.fields();
            let has_fields = Arc::ptr_eq(&fields, &known.fields) || fields == known.fields;
            if !is_same || !has_fields || own.tag_keys() != known.tags {
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
