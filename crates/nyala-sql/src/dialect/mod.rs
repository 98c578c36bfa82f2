//! What PostgreSQL means where DataFusion means something else, or nothing.
//!
//! [`operators`] are those of dates, intervals and truths, [`casts`] round numbers and read times as they are written,
//! [`template`] are patterns such as `YYYY-MM-DD` of `to_char`, `to_date` and `to_timestamp`. What can be told from the text of
//! a statement alone is in `rewrite`. [`at_zone`] is AT TIME ZONE.

pub(crate) mod at_zone;
mod casts;
mod formatted;
mod interval;
mod operators;
mod template;

pub(crate) use casts::Casts;

use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// Makes operators and functions known to a planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(at_zone::AtZone::default())))?;
    state.register_expr_planner(Arc::new(operators::Operators))?;
    for name in ["to_char", "to_date", "to_timestamp"] {
        let known = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(formatted::Formatted::over(known))))?;
    }
    Ok(())
}
