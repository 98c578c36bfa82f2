//! The bounds of what functions compute, as the planner asks for them.

use arrow_schema::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDFImpl;
use datafusion::logical_expr::interval_arithmetic::Interval;

/// Any value of the function's type. Without that type the planner forgets how rows are sorted by an expression that the
/// function is a part of.
pub(crate) fn of(function: &dyn ScalarUDFImpl, given: &[&Interval]) -> Result<Interval> {
    let types: Vec<DataType> = given.iter().map(|own| own.data_type()).collect();
    Interval::make_unbounded(&function.return_type(&types)?)
}
