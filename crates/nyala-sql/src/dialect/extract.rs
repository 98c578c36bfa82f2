//! `extract(part FROM time)`, which gives a `numeric`: seconds have six digits behind the point. `date_part` gives floats.

use super::date_part::{DatePart, exact_us, microseconds_in};
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, lit,
};
use std::sync::Arc;

/// What it is rewritten to.
pub(crate) const NAME: &str = "extract";

/// The seconds of the longest interval have 16 digits, and six behind the point.
const PRECISION: u8 = 24;

/// The function, over `date_part` and that of DataFusion.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Extract {
    part: DatePart,
    inner: Arc<ScalarUDF>,
}

impl Extract {
    pub(super) fn over(inner: Arc<ScalarUDF>) -> Self {
        Self { part: DatePart::over(inner.clone()), inner }
    }
}

fn type_of(part: Option<&ScalarValue>) -> DataType {
    let part = part.and_then(|own| own.try_as_str().flatten()).unwrap_or_default().to_lowercase();
    let scale = match (microseconds_in(&part), &*part) {
        (Some(1_000_000), _) | (_, "epoch") => 6,
        (Some(1_000), _) => 3,
        _ => 0,
    };
    DataType::Decimal128(PRECISION, scale)
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(type_of(None))
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = match given.arg_fields.get(1).map(|own| own.data_type()) {
            // A day has whole seconds.
            Some(DataType::Date32) => DataType::Decimal128(PRECISION, 0),
            _ => type_of(given.scalar_arguments.first().copied().flatten()),
        };
        let field = self.inner.return_field_from_args(given)?;
        Ok(Arc::new(field.as_ref().clone().with_name(NAME).with_data_type(data_type)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = arguments.return_field.data_type().clone();
        let is_constant = matches!(arguments.args[1], ColumnarValue::Scalar(_));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let part = match &arguments.args[0] {
            ColumnarValue::Scalar(part) => part.try_as_str().flatten().unwrap_or_default().to_lowercase(),
            ColumnarValue::Array(_) => String::new(),
        };
        let found = match exact_us(&self.part, &part, &arguments, rows)? {
            // Whatever the part, its last digit is a microsecond.
            Some(us) => {
                Arc::new(us.as_primitive::<Decimal128Type>().clone().with_data_type(data_type)) as ArrayRef
            }
            None => cast(&self.part.invoke_with_args(arguments)?.to_array(rows)?, &data_type)?,
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }

    fn preimage(&self, arguments: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        // Of a year it is a range of times, which the store can judge.
        match literal.as_literal() {
            Some(ScalarValue::Decimal128(Some(year), _, 0)) if year.unsigned_abs() < 1_000_000 => {
                self.inner.inner().preimage(arguments, &lit(*year as i32), info)
            }
            _ => Ok(PreimageResult::None),
        }
    }
}
