//! A `double precision` that becomes a `real`, which cannot hold all of them: DataFusion gives an infinity, or zero.

use crate::error::{SqlError, SqlState};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The shorter float.
pub(super) fn of(float: Expr) -> Expr {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    ScalarUDF::from(Narrowed { signature }).call(vec![float])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Narrowed {
    signature: Signature,
}

fn narrowed(own: f64) -> Result<f32, SqlError> {
    let short = own as f32;
    let refused = |words| Err(SqlError::new(SqlState::OUT_OF_RANGE, words));
    if short.is_infinite() && own.is_finite() {
        return refused("value out of range: overflow");
    }
    if short == 0.0 && own != 0.0 {
        return refused("value out of range: underflow");
    }
    Ok(short)
}

impl ScalarUDFImpl for Narrowed {
    fn name(&self) -> &str {
        "float::narrowed"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float32)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let values = arguments.args[0].to_array(if is_constant { 1 } else { arguments.number_rows })?;
        let values = values.as_primitive::<Float64Type>().iter();
        let short = values.map(|own| own.map(narrowed).transpose());
        let short: ArrayRef = Arc::new(short.collect::<Result<PrimitiveArray<Float32Type>, SqlError>>()?);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&short, 0)?),
            false => ColumnarValue::Array(short),
        })
    }
}
