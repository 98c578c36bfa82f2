//! A value that is computed for each row, for DataFusion, which finds out what is constant in an IN list by evaluating it for no
//! row: a CASE seems to be then.

use arrow_schema::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NAME: &str = "each::row";

/// The value, with a cell for each row.
pub(crate) fn of(value: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(EachRow { signature }).call(vec![value])
}

/// Whether a value is one of these already.
pub(crate) fn is(value: &Expr) -> bool {
    matches!(value, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EachRow {
    signature: Signature,
}

impl ScalarUDFImpl for EachRow {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given[0].clone())
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(given.arg_fields[0].clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(arguments.args[0].to_array(arguments.number_rows)?))
    }
}
