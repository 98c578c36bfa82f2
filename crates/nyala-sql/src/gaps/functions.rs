//! The functions that users write. They only mark what is to be done: none of them is ever computed.

use crate::error::{SqlError, SqlState};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Value,
};
use std::sync::Arc;

pub(super) const TIME_BUCKET_GAPFILL: &str = "time_bucket_gapfill";
pub(super) const DATE_BIN_GAPFILL: &str = "date_bin_gapfill";
pub(super) const LOCF: &str = "locf";
pub(super) const INTERPOLATE: &str = "interpolate";

/// The functions, with the names of their arguments and how many of these are needed.
const KNOWN: [(&str, &[&str], usize); 4] = [
    (TIME_BUCKET_GAPFILL, &["bucket_width", "ts", "timezone", "start", "finish"], 2),
    (DATE_BIN_GAPFILL, &["interval", "expression", "origin"], 2),
    (LOCF, &["value", "prev", "treat_null_as_missing"], 1),
    (INTERPOLATE, &["value", "prev", "next"], 1),
];

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct GapFunction {
    name: &'static str,
    signature: Signature,
}

/// Makes the functions known to a planner.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for (name, ..) in KNOWN {
        let function = GapFunction { name, signature: Signature::user_defined(Volatility::Immutable) };
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

impl ScalarUDFImpl for GapFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (_, names, needed) =
            KNOWN.iter().find(|(name, ..)| *name == self.name).expect("it is one of them");
        if given.len() < *needed || given.len() > names.len() {
            let words = format!("{} takes the arguments {}", self.name, names.join(", "));
            return Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, words).into());
        }
        match self.name {
            LOCF => Ok(given.to_vec()),
            INTERPOLATE => match &given[0] {
                own if own.is_integer() || matches!(own, DataType::Float32 | DataType::Float64) => {
                    Ok(given.to_vec())
                }
                own if own.is_numeric() || own.is_null() => Ok([&[DataType::Float64], &given[1..]].concat()),
                _ => Err(SqlError::new(SqlState::UNKNOWN_FUNCTION, "interpolate takes a number").into()),
            },
            _ => bucket_types(self.name, given),
        }
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            LOCF | INTERPOLATE => given[0].clone(),
            _ => given[1].clone(),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misplaced(self.name).into())
    }
}

fn bucket_types(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    let refused = || {
        let words = format!("{name} takes an interval and a time");
        SqlError::new(SqlState::UNKNOWN_FUNCTION, words)
    };
    if !(given[0].is_string() || matches!(given[0], DataType::Interval(_))) {
        return Err(refused().into());
    }
    let time = match &given[1] {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ => return Err(refused().into()),
    };
    let mut types = vec![DataType::Interval(IntervalUnit::MonthDayNano), time.clone()];
    // A text may be the name of a zone, or a time.
    types.extend(given[2..].iter().map(|own| if own.is_string() { DataType::Utf8 } else { time.clone() }));
    Ok(types)
}

/// What is wrong with a call that nothing has been made of.
pub(super) fn misplaced(name: &str) -> SqlError {
    match name {
        LOCF | INTERPOLATE => SqlError::new(
            SqlState::UNSUPPORTED,
            format!(
                "{name} is only supported in the SELECT list of a query that groups by time_bucket_gapfill"
            ),
        ),
        _ => SqlError::new(SqlState::INVALID_PARAMETER, format!("no top level {name} in group by clause")),
    }
}

/// Gives the arguments of a call their places that were given by name, as in `locf(x, treat_null_as_missing => true)`. What is
/// left out is NULL.
pub(crate) fn positional(name: &str, arguments: &mut FunctionArguments) {
    let Some((_, names, _)) = KNOWN.iter().find(|(known, ..)| *known == name) else { return };
    let FunctionArguments::List(FunctionArgumentList { args, .. }) = arguments else { return };
    let mut places: Vec<Option<Expr>> = vec![None; names.len()];
    let mut has_names = false;
    for (number, argument) in args.iter().enumerate() {
        let (place, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) if !has_names => (Some(number), value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            }
            | FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                has_names = true;
                (names.iter().position(|known| known.eq_ignore_ascii_case(&name.value)), value)
            }
            _ => return,
        };
        match place.and_then(|place| places.get_mut(place)) {
            Some(free) if free.is_none() => *free = Some(value.clone()),
            // The planner says what is wrong.
            _ => return,
        }
    }
    if has_names {
        let value = |own: Option<Expr>| own.unwrap_or_else(|| Expr::value(Value::Null));
        let unnamed = |own| FunctionArg::Unnamed(FunctionArgExpr::Expr(value(own)));
        *args = places.into_iter().map(unnamed).collect();
    }
}
