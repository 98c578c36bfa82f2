//! A cast to `numeric` without digits: a whole number keeps having none behind the point, a decimal keeps its own, and so does a
//! literal. All others get ten.

use crate::common_type::NUMERIC;
use crate::relation::decimal::Written;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// What the cast is rewritten to.
pub(crate) const NAME: &str = "as::numeric";

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AsNumeric {
    signature: Signature,
}

impl Default for AsNumeric {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

fn type_of(given: &DataType, literal: Option<&ScalarValue>) -> DataType {
    let text = literal.and_then(|own| own.try_as_str().flatten());
    match given {
        own if own.is_integer() => DataType::Decimal128(20, 0),
        DataType::Decimal128(..) => given.clone(),
        _ => match text.and_then(|text| Written::read(text.trim())).and_then(|own| own.scale()) {
            Some(scale) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale),
            None => NUMERIC,
        },
    }
}

impl ScalarUDFImpl for AsNumeric {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(type_of(&given[0], None))
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        let literal = given.scalar_arguments.first().copied().flatten();
        let data_type = type_of(given.arg_fields[0].data_type(), literal);
        Ok(Arc::new(Field::new(NAME, data_type, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = arguments.return_field.data_type();
        let options = CastOptions { safe: false, ..CastOptions::default() };
        Ok(match &arguments.args[0] {
            ColumnarValue::Array(values) => {
                ColumnarValue::Array(cast_with_options(values, data_type, &options)?)
            }
            ColumnarValue::Scalar(value) => {
                let value = cast_with_options(&value.to_array()?, data_type, &options)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?)
            }
        })
    }
}
