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

/// The arguments of a series of times: dates are times with a zone, and the step is an interval, as in PostgreSQL.
pub(super) fn of_times(given: Vec<Expr>) -> Vec<Expr> {
    let [begin, end, step] = &given[..] else { return given };
    let written = [begin, end].into_iter().find_map(|own| match own {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(own) => Some(&own.data_type),
        _ => None,
    });
    let cast_to = |own: &Expr, data_type: DataType| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(own.clone()),
        data_type,
        array: false,
        format: None,
    };
    let is_text = matches!(step, Expr::Value(own) if matches!(own.value, Value::SingleQuotedString(_)));
    match written {
        Some(DataType::Date | DataType::Timestamp(..)) => {
            let moment = DataType::Timestamp(None, TimezoneInfo::Tz);
            let is_date = matches!(written, Some(DataType::Date));
            let end_of = |own: &Expr| if is_date { cast_to(own, moment.clone()) } else { own.clone() };
            let step = if is_text { cast_to(step, INTERVAL) } else { step.clone() };
            vec![end_of(begin), end_of(end), step]
        }
        _ => given,
    }
}
