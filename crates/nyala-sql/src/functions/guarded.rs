//! Functions of DataFusion with guards.
//!
//! Where values can be far longer than what they are made of, they are computed in parts, and refused beyond
//! [`BATCH_BYTES_MAX`]. And functions that cannot tell how they order what they know nothing of have an error, with which the
//! planner forgets how rows are sorted: they say that they do not know.

use super::time_ns;
use crate::row_wise::{BATCH_BYTES_MAX, too_long};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::concat;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The most bytes that the value of a row takes.
type Estimate = fn(&[ArrayRef], usize) -> usize;

const FUNCTIONS: &[(&str, Estimate)] = &[
    ("generate_series", series_bytes),
    // A replacement at each place of the text, and a part of the text for each letter of the replacement.
    ("regexp_replace", |given, row| (length(given, 0, row) + 1).saturating_mul(length(given, 2, row) + 1)),
    ("repeat", |given, row| length(given, 0, row).saturating_mul(count(given, 1, row))),
    ("replace", replaced_bytes),
];

/// No function whose order depends on its arguments looks at more of them.
const ARGUMENTS_MAX: usize = 4;

/// Functions without any bound, which PostgreSQL does not have.
const UNKNOWN: &[&str] =
    &["array_repeat", "array_resize", "arrow_cast", "arrow_try_cast", "list_repeat", "list_resize", "range"];

/// Guards the functions that a planner knows.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for name in UNKNOWN {
        state.deregister_udf(name)?;
    }
    let all: Vec<Arc<ScalarUDF>> = state.scalar_functions().values().cloned().collect();
    for inner in all {
        let estimate = FUNCTIONS.iter().find(|own| own.0 == inner.name()).map(|own| own.1);
        if estimate.is_some() || !knows_what_it_does_not_know(&inner) {
            state.register_udf(Arc::new(ScalarUDF::from(Guarded { inner, estimate })))?;
        }
    }
    Ok(())
}

/// Whether a function has no error for arguments of which nothing is known.
fn knows_what_it_does_not_know(function: &ScalarUDF) -> bool {
    let arguments = vec![ExprProperties::new_unknown(); ARGUMENTS_MAX];
    let ranges: Vec<&Interval> = arguments.iter().map(|own| &own.range).collect();
    function.output_ordering(&arguments).is_ok() && function.evaluate_bounds(&ranges).is_ok()
}

/// The value of an argument in a row. Constants have one for all rows.
fn value(given: &[ArrayRef], place: usize, row: usize) -> Option<(&ArrayRef, usize)> {
    let own = given.get(place)?;
    let row = if own.len() == 1 { 0 } else { row };
    own.is_valid(row).then_some((own, row))
}

fn text(given: &[ArrayRef], place: usize, row: usize) -> Option<&str> {
    let (own, row) = value(given, place, row)?;
    match own.data_type() {
        DataType::Utf8 => Some(own.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(own.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(own.as_string_view().value(row)),
        _ => None,
    }
}

/// The bytes of a text.
fn length(given: &[ArrayRef], place: usize, row: usize) -> usize {
    text(given, place, row).map_or(0, str::len)
}

fn count(given: &[ArrayRef], place: usize, row: usize) -> usize {
    let Some((own, row)) = value(given, place, row) else { return 0 };
    own.as_primitive_opt::<Int64Type>().map_or(0, |own| usize::try_from(own.value(row)).unwrap_or(0))
}

fn replaced_bytes(given: &[ArrayRef], row: usize) -> usize {
    let [own, from, to] = [0, 1, 2].map(|place| text(given, place, row).unwrap_or_default());
    let bytes = |places: usize| own.len().saturating_add(places.saturating_mul(to.len()));
    match bytes(own.len() / from.len().max(1) + 1) {
        // Counting is worth it only then.
        many if many > BATCH_BYTES_MAX / 2 => bytes(own.matches(from).count()),
        few => few,
    }
}

/// The bytes of an array of the numbers or times from one to another in steps.
fn series_bytes(given: &[ArrayRef], row: usize) -> usize {
    let number = |place| value(given, place, row).and_then(|(own, row)| approximate(own, row));
    let (Some(first), Some(last)) = (number(0), number(1)) else { return 0 };
    let step = number(2).unwrap_or(1.0).abs();
    if step == 0.0 {
        // The function refuses it.
        return 0;
    }
    // A conversion that is too large for the type gives its end.
    (((last - first).abs() / step + 1.0) * size_of::<i64>() as f64) as usize
}

/// A number; of a date, a time or an interval the nanoseconds. A month has at least 28 days, and is not known to be more than
/// other parts that take it back.
fn approximate(own: &ArrayRef, row: usize) -> Option<f64> {
    const DAY_NS: f64 = 86_400e9;
    Some(match ScalarValue::try_from_array(own, row).ok()? {
        ScalarValue::Date32(Some(days)) => f64::from(days) * DAY_NS,
        ScalarValue::IntervalMonthDayNano(Some(own))
            if own.months.signum() * own.days.signum() < 0
                || i64::from(own.months.signum() + own.days.signum()) * own.nanoseconds.signum() < 0 =>
        {
            f64::MIN_POSITIVE
        }
        ScalarValue::IntervalMonthDayNano(Some(own)) => {
            f64::from(own.months) * 28.0 * DAY_NS + f64::from(own.days) * DAY_NS + own.nanoseconds as f64
        }
        ScalarValue::Int32(Some(own)) => f64::from(own),
        ScalarValue::Int64(Some(own)) => own as f64,
        other => time_ns(&other)? as f64,
    })
}

/// A function with guards.
#[derive(Debug)]
struct Guarded {
    inner: Arc<ScalarUDF>,
    estimate: Option<Estimate>,
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Guarded {}

impl std::hash::Hash for Guarded {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Guarded {
    /// The ends of the parts.
    fn parts(&self, estimate: Estimate, given: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        let (mut ends, mut bytes) = (Vec::new(), 0_usize);
        for row in 0..rows {
            let own_bytes = estimate(given, row);
            if own_bytes > BATCH_BYTES_MAX {
                return Err(too_long(self.name()));
            }
            bytes += own_bytes;
            if bytes > BATCH_BYTES_MAX {
                ends.push(row);
                bytes = own_bytes;
            }
        }
        ends.push(rows);
        Ok(ends)
    }

    fn part(arguments: &ScalarFunctionArgs, first: usize, end: usize) -> ScalarFunctionArgs {
        let part = |own: &ColumnarValue| match own {
            ColumnarValue::Array(own) => ColumnarValue::Array(own.slice(first, end - first)),
            ColumnarValue::Scalar(own) => ColumnarValue::Scalar(own.clone()),
        };
        let args = arguments.args.iter().map(part).collect();
        ScalarFunctionArgs { args, number_rows: end - first, ..arguments.clone() }
    }
}

impl ScalarUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.inner.return_type(given)
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(given)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn simplify(&self, given: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(given, context)
    }

    fn preimage(&self, given: &[Expr], literal: &Expr, context: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(given, literal, context)
    }

    fn conditional_arguments<'a>(&self, given: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(given)
    }

    fn short_circuits(&self) -> bool {
        self.inner.inner().short_circuits()
    }

    fn output_ordering(&self, given: &[ExprProperties]) -> Result<SortProperties> {
        Ok(self.inner.output_ordering(given).unwrap_or_default())
    }

    fn evaluate_bounds(&self, given: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(given).or_else(|_| Interval::make_unbounded(&DataType::Null))
    }

    fn preserves_lex_ordering(&self, given: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(given)
    }

    fn strictly_order_preserving(&self, given: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(given)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(estimate) = self.estimate else { return self.inner.invoke_with_args(arguments) };
        let is_constant = arguments.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let whole = |own: &ColumnarValue| match own {
            ColumnarValue::Array(own) => Ok(own.clone()),
            // A constant is not copied for each row.
            ColumnarValue::Scalar(own) => own.to_array_of_size(1),
        };
        let given: Vec<ArrayRef> = arguments.args.iter().map(whole).collect::<Result<_>>()?;
        let ends = self.parts(estimate, &given, rows)?;
        if ends.len() == 1 {
            return self.inner.invoke_with_args(arguments);
        }
        let (mut values, mut first, mut bytes) = (Vec::new(), 0, 0);
        for end in ends {
            let part = self.inner.invoke_with_args(Self::part(&arguments, first, end))?;
            let part = part.into_array(end - first)?;
            bytes += part.get_array_memory_size();
            if bytes > BATCH_BYTES_MAX {
                return Err(too_long(self.name()));
            }
            values.push(part);
            first = end;
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&values)?))
    }
}
