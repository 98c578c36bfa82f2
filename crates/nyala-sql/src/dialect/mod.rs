//! What PostgreSQL means where DataFusion means something else, or nothing.
//!
//! [`operators`] are those of dates, intervals and truths, [`casts`] round numbers and read times as they are written,
//! [`template`] are patterns such as `YYYY-MM-DD` of `to_char`, `to_date` and `to_timestamp`. What can be told from the text of
//! a statement alone is in `rewrite`. [`text_kinds`] and [`json_tests`] are about UUIDs and JSON. [`at_zone`] is AT TIME ZONE,
//! [`set_operation`] are types in UNION and the like. [`lateral`] and [`subquery_value`] are places of subqueries that DataFusion has none for.

pub(crate) mod at_zone;
mod between;
mod call_limits;
mod casts;
mod date_part;
mod domain;
pub(crate) mod extract;
mod formatted;
mod formatted_number;
mod group_frames;
mod interval;
mod json_tests;
mod lateral;
mod lateral_limit;
mod narrowed_float;
mod number_reading;
mod number_template;
pub(crate) mod numeric;
mod operators;
pub(crate) mod rounded_time;
mod set_operation;
mod subquery_value;
mod template;
mod text_kinds;
mod text_of;

pub(crate) use call_limits::CallLimits;
pub(crate) use casts::Casts;
pub(crate) use group_frames::GroupFrames;
pub(crate) use lateral::LateralRows;
pub(crate) use set_operation::SetOperations;
pub(crate) use subquery_value::SubqueryValues;

use crate::local_times::with_local_times;
use casts::with_casts;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{Expr, ScalarUDF};
use std::sync::Arc;

/// What [`Casts`] and [`LocalTimes`](crate::local_times::LocalTimes) make of an expression that is in no plan.
pub(crate) fn analyzed_expression(expression: Expr, schema: &DFSchema, zone: &str) -> Result<Expr> {
    with_local_times(with_casts(expression, schema, zone)?, schema, zone)
}

/// Makes operators and functions known to a planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(at_zone::AtZone::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(numeric::AsNumeric::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(number_reading::ToNumber::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(rounded_time::RoundedTime::default())))?;
    state.register_expr_planner(Arc::new(operators::Operators))?;
    let date_part = state.udf(date_part::NAME)?;
    state.register_udf(Arc::new(ScalarUDF::from(extract::Extract::over(date_part.clone()))))?;
    state.register_udf(Arc::new(ScalarUDF::from(date_part::DatePart::over(date_part))))?;
    for name in domain::NAMES {
        let known = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(domain::Domain::over(known))))?;
    }
    for name in ["to_char", "to_date", "to_timestamp"] {
        let known = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(formatted::Formatted::over(known))))?;
    }
    Ok(())
}
