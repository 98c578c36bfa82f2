//! Casts: a number that becomes a whole one is rounded (as `round` of floats does, to the even one of two), and a text that becomes a
//! time is read as tables read it. So is one that is compared with a UUID or JSON.

use super::{narrowed_float, text_kinds, text_of};
use crate::error::SqlState;
use crate::relation::input::{Surroundings, read};
use crate::walk::{Walk, WalkPlan, read_schema};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array};
use arrow_schema::{DataType, TimeUnit};
use chrono_tz::Tz;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::math::expr_fn::round;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};
use datafusion::optimizer::AnalyzerRule;
use nyala_core::Value;
use nyala_db::relations::DeclaredType;
use std::sync::Arc;

/// Has casts mean what they mean in PostgreSQL.
#[derive(Debug)]
pub(crate) struct Casts;

impl AnalyzerRule for Casts {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = options.execution.time_zone.as_deref();
        let zone = zone.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC);
        let done = plan.changed_up_with_subqueries(&mut |node| {
            let schema = read_schema(&node);
            let names = NamePreserver::new(&node);
            node.with_changed_expressions(&mut |own| {
                let name = names.save(&own);
                let changed = own.changed_up(&mut |inner| changed(inner, &schema, zone))?;
                Ok(changed.update_data(|own| name.restore(own)))
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &str {
        "casts"
    }
}

/// The same for one expression.
pub(crate) fn with_casts(expression: Expr, schema: &DFSchema, zone: &str) -> Result<Expr> {
    let zone = zone.parse().unwrap_or(Tz::UTC);
    Ok(expression.changed_up(&mut |inner| changed(inner, schema, zone))?.data)
}

fn changed(expression: Expr, schema: &DFSchema, zone: Tz) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression
        && func.name() == "round"
        && let [number] = &args[..]
        && let Ok(own) = number.get_type(schema)
        && own.is_floating()
    {
        let whole = ScalarUDF::from(Whole::default()).call(vec![cast(number.clone(), DataType::Float64)]);
        return Ok(Transformed::yes(if own == DataType::Float64 { whole } else { cast(whole, own) }));
    }
    let Expr::Cast(Cast { expr, field }) = expression else {
        return Ok(text_kinds::compared(expression, schema));
    };
    if let (Expr::Literal(ScalarValue::Utf8(Some(text)), metadata), wanted) = (&*expr, field.data_type())
        && let Some(time) = time_of(text, wanted, zone)?
    {
        return Ok(Transformed::yes(Expr::Literal(time, metadata.clone())));
    }
    let given = expr.to_field(schema).ok().map(|(_, own)| own);
    if let Some(given) = given.as_ref().filter(|own| field.data_type().is_string() && text_of::writes(own)) {
        let text = cast(text_of::of(*expr, given.data_type()), field.data_type().clone());
        return Ok(Transformed::yes(text));
    }
    if *field.data_type() == DataType::Float32
        && given.is_some_and(|own| *own.data_type() == DataType::Float64)
    {
        return Ok(Transformed::yes(narrowed_float::of(*expr)));
    }
    let is_whole = |own: &Expr| match own {
        Expr::ScalarFunction(own) => {
            matches!((own.func.name(), own.args.len()), ("float::whole" | "round", 1))
        }
        _ => false,
    };
    if !field.data_type().is_integer() || is_whole(&expr) {
        return Ok(Transformed::no(Expr::Cast(Cast { expr, field })));
    }
    let rounded = match expr.get_type(schema) {
        Ok(DataType::Float16 | DataType::Float32 | DataType::Float64) => {
            ScalarUDF::from(Whole::default()).call(vec![cast(*expr, DataType::Float64)])
        }
        Ok(own) if own.is_decimal() => round(vec![*expr]),
        _ => return Ok(Transformed::no(Expr::Cast(Cast { expr, field }))),
    };
    Ok(Transformed::yes(Expr::Cast(Cast { expr: Box::new(rounded), field })))
}

/// The date or time that a text means; `None` if it is for others to read.
fn time_of(text: &str, wanted: &DataType, zone: Tz) -> Result<Option<ScalarValue>> {
    let declared = match wanted {
        DataType::Date32 => DeclaredType::Date,
        DataType::Timestamp(TimeUnit::Nanosecond, None) => DeclaredType::Timestamp,
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => DeclaredType::Timestamptz,
        _ => return Ok(None),
    };
    // Other words may mean the time of the statement.
    let text = text.trim();
    if !text.starts_with(|own: char| own.is_ascii_digit()) && text != "epoch" {
        return Ok(None);
    }
    match read(text, declared, &Surroundings { zone, now_ns: 0 }) {
        Ok(Value::Int(value)) => Ok(Some(match wanted {
            DataType::Timestamp(_, zone) => ScalarValue::TimestampNanosecond(Some(value), zone.clone()),
            _ => ScalarValue::Date32(i32::try_from(value).ok()),
        })),
        Err(error) if error.code == SqlState::DATETIME_OUT_OF_RANGE => Err(error.into()),
        _ => Ok(None),
    }
}

/// The whole number next to a float, the even one if two are next to it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    signature: Signature,
}

impl Default for Whole {
    fn default() -> Self {
        Self { signature: Signature::exact(vec![DataType::Float64], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        "float::whole"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &arguments.args[0] {
            ColumnarValue::Scalar(ScalarValue::Float64(own)) => {
                ColumnarValue::Scalar(ScalarValue::Float64(own.map(f64::round_ties_even)))
            }
            other => {
                let values = other.to_array(arguments.number_rows)?;
                let rounded: Float64Array = values.as_primitive::<Float64Type>().unary(f64::round_ties_even);
                ColumnarValue::Array(Arc::new(rounded) as ArrayRef)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let moment = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let read = |text: &str, wanted: &DataType| {
            time_of(text, wanted, Tz::UTC).map(|own| own.map(|own| own.to_string())).ok()
        };
        assert_eq!(read("1970-01-01 00:01", &moment), Some(Some("60000000000".to_owned())));
        assert_eq!(read("1970-01-02", &DataType::Date32), Some(Some("1970-01-02".to_owned())));
        assert_eq!(read("now", &moment), Some(None));
        assert_eq!(read("2024-02-30", &DataType::Date32), None);
    }
}
