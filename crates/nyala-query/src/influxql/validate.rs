//! What a SELECT must satisfy beyond the grammar.

use super::ast::Select;
use super::error::SemanticError;
use super::expr::Expr;

/// The window of `GROUP BY time(…)` in nanoseconds; 0 without one.
pub fn group_by_interval(select: &Select) -> Result<i64, SemanticError> {
    let Some(call) = select.time_dimension() else { return Ok(0) };
    if !(1..=2).contains(&call.args.len()) {
        return Err(SemanticError::new("time dimension expected 1 or 2 arguments"));
    }
    match call.args[0] {
        Expr::Duration(nanoseconds) => Ok(nanoseconds),
        _ => Err(SemanticError::new("time dimension must have duration argument")),
    }
}
