//! Functions that DataFusion gives values of other types: of numbers they have the type of their arguments in PostgreSQL, and
//! `concat` shows truths by one letter.

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, bitwise_and, cast, lit, when};

/// A call with its type; `None` if it has it already.
pub(crate) fn typed(call: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let given = call.args.iter().map(|own| own.get_type(schema).ok());
    let Some(given) = given.collect::<Option<Vec<DataType>>>() else { return Ok(None) };
    let is_short = |own: &DataType| matches!(own, DataType::Int8 | DataType::Int16 | DataType::Int32);
    Ok(match (call.func.name(), &given[..]) {
        ("gcd" | "lcm", [_, _]) if given.iter().all(is_short) => {
            // What it is in 64 bits has to fit.
            let whole = call.args.iter().map(|own| cast(own.clone(), DataType::Int64)).collect();
            Some(cast(call.func.call(whole), DataType::Int32))
        }
        // The planner gives a result the digits of its argument: before the point 0.9 has none, and behind it 1 needs none.
        ("ceil" | "floor" | "round" | "trunc", [DataType::Decimal128(_, scale), ..]) => {
            let number = cast(call.args[0].clone(), DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale));
            let others = call.args[1..].iter().cloned();
            let whole = call.func.call(std::iter::once(number).chain(others).collect());
            Some(match &given[..] {
                [_] => cast(whole, DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)),
                _ => whole,
            })
        }
        ("to_hex", [own]) if is_short(own) => {
            // A negative number has as many digits as its type.
            let bits = bitwise_and(cast(call.args[0].clone(), DataType::Int64), lit(i64::from(u32::MAX)));
            Some(call.func.call(vec![bits]))
        }
        ("signum", [DataType::Decimal128(..)]) => {
            let (number, zero) = (&call.args[0], lit(ScalarValue::Decimal128(Some(0), 1, 0)));
            let one = |own: i128| lit(ScalarValue::Decimal128(Some(own), 1, 0));
            let sign = when(number.clone().gt(zero.clone()), one(1))
                .when(number.clone().lt(zero.clone()), one(-1))
                .when(number.clone().eq(zero), one(0))
                .end()?;
            Some(sign)
        }
        ("concat" | "concat_ws", _) if given.contains(&DataType::Boolean) => {
            let shown = call.args.iter().zip(&given).map(|(own, data_type)| match data_type {
                DataType::Boolean => when(own.clone(), lit("t")).when(own.clone().is_false(), lit("f")).end(),
                _ => Ok(own.clone()),
            });
            Some(call.func.call(shown.collect::<Result<_>>()?))
        }
        _ => None,
    })
}
