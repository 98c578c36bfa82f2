//! Plans that are used again: found for a statement, or made so that the next one finds them.

use super::prepared::{Prepared, PreparedPlan};
use crate::error::SqlResult;
use crate::local_times;
use crate::long_values::has_long_values;
use crate::measurement::{SampleValues, is_of_measurements};
use crate::plans::{Found, KnownPlan, Reused, check_only_reads, parameterized, tables_of};
use crate::server::SqlServer;
use crate::statement::Statement;
use arrow_schema::DataType;
use datafusion::execution::SessionState;
use nyala_db::users::Principal;
use std::sync::Arc;

/// About how many bytes a plan takes for each byte of its text.
const BYTES_PER_LETTER: usize = 64;

/// The plan of a statement, if it is known and still right.
pub(crate) async fn find(
    server: &SqlServer,
    context: &str,
    principal: &Principal,
    statement: &Statement,
) -> SqlResult<Option<Prepared>> {
    let Some(shape) = &statement.shape else { return Ok(None) };
    let Found::Plan(plan) = server.plans.find(context, shape) else { return Ok(None) };
    if !plan.is_right(&server.catalog, principal).await? {
        return Ok(None);
    }
    let value = |(number, data_type): &(usize, DataType)| shape.literals[*number].as_type(data_type);
    let Some(values) = plan.literals.iter().map(value).collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(Some(Prepared::of_known(plan, statement.clone(), values)))
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
    let is_utc = state.config_options().execution.time_zone.as_deref().is_none_or(local_times::is_utc);
    let mut unfit: Vec<usize> = Vec::new();
    let (prepared, literals, values) = loop {
        let wanted = |number: usize| !shape.has_parameters && !unfit.contains(&number);
        let (ast, numbers) = parameterized(&statement.ast, &shape.literals, wanted);
        let changed = Statement { ast: Arc::new(ast), ..statement.clone() };
        let Ok(prepared) = Prepared::of_query(state, changed, given).await else { return Ok(None) };
        let literals: Vec<(usize, DataType)> =
            numbers.into_iter().zip(prepared.parameters.iter().cloned()).collect();
        let mut values = Vec::new();
        let before = unfit.len();
        for (number, data_type) in &literals {
            // A text of a time means what the zone of the session says, which the planner knows.
            let is_local = !is_utc && matches!(data_type, DataType::Timestamp(..));
            match shape.literals[*number].as_type(data_type).filter(|_| !is_local) {
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
    if planned.as_ref().is_ok_and(has_long_values) {
        server.plans.insert_never(context, shape);
        return Ok(None);
    }
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
        tables: tables.into(),
        bytes: letters * BYTES_PER_LETTER,
    });
    server.plans.insert(context, shape, known.clone());
    Ok(Some(Prepared::of_known(known, statement.clone(), values)))
}
