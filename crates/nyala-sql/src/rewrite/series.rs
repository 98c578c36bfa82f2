//! The arguments of `generate_series`.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, TimezoneInfo, Value,
};

const INTERVAL: DataType = DataType::Interval { fields: None, precision: None };

/// Has the arguments of a call that gives a series of times have their types.
pub(super) fn rewrite(list: &mut FunctionArgumentList) {
    let argument = |own: &FunctionArg| match own {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(own)) => Some(own.clone()),
        _ => None,
    };
    if let Some(given) = list.args.iter().map(argument).collect::<Option<Vec<Expr>>>() {
        let unnamed = |own| FunctionArg::Unnamed(FunctionArgExpr::Expr(own));
        list.args = of_times(given).into_iter().map(unnamed).collect();
    }
}

/// The arguments of a series of times: dates are times with a zone, an end in quotes has the type of the other, and a step in
/// quotes is an interval, as in PostgreSQL.
pub(super) fn of_times(given: Vec<Expr>) -> Vec<Expr> {
    let [begin, end, step] = &given[..] else { return given };
    let written = [begin, end].into_iter().find_map(|own| match own {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(own) => Some(&own.data_type),
        _ => None,
    });
    let moment = DataType::Timestamp(None, TimezoneInfo::Tz);
    let (time, is_date) = match written {
        Some(DataType::Date) => (moment, true),
        Some(written @ DataType::Timestamp(..)) => (written.clone(), false),
        // What else is a time is known to the planner alone; numbers in quotes step from number to number.
        None if quoted(step).is_some_and(|own| own.parse::<f64>().is_err()) => (moment, false),
        _ => return given,
    };
    let cast_to = |own: &Expr, data_type: DataType| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(own.clone()),
        data_type,
        array: false,
        format: None,
    };
    let end_of = |own: &Expr| match is_date || quoted(own).is_some() {
        true => cast_to(own, time.clone()),
        false => own.clone(),
    };
    let step = if quoted(step).is_some() { cast_to(step, INTERVAL) } else { step.clone() };
    vec![end_of(begin), end_of(end), step]
}

/// What stands in quotes without a type.
fn quoted(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(own) => match &own.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
