//! The function that marks the comparison of times in the condition of a join. It is never computed.

use crate::error::{SqlError, SqlState};
use arrow_schema::DataType;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The name of the function, which nobody writes.
pub(super) const MARKER: &str = "asof::match";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsofMatch {
    signature: Signature,
}

impl Default for AsofMatch {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// Makes the function known to a planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(AsofMatch::default())))?;
    Ok(())
}

/// What is wrong with a join.
pub(super) fn refused(words: &str) -> SqlError {
    SqlError::new(SqlState::UNSUPPORTED, format!("ASOF JOIN: {words}"))
        .with_hint("For example, a ASOF JOIN b ON a.host = b.host AND a.time >= b.time.")
}

impl ScalarUDFImpl for AsofMatch {
    fn name(&self) -> &str {
        MARKER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(refused("the comparison of times must be joined to others by AND").into())
    }
}
