//! Comparisons of rows, such as `(a, b) > (1, 2)`, as comparisons of their values: the planner would compare structs, to which NULL
//! is a value like any other.

use crate::call::{call, exact};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value,
};

pub(super) fn rewrite(expression: &mut Expr) {
    let compared = match expression {
        Expr::BinaryOp { left, op, right } => match (row_of(left), row_of(right)) {
            (Some(left), Some(right)) if *op == BinaryOperator::Overlaps => overlap(&left, &right),
            (Some(left), Some(right)) => compared(&left, op, &right),
            _ => None,
        },
        Expr::InList { expr, list, negated } => row_of(expr).and_then(|left| {
            let equal = |own: &Expr| compared(&left, &BinaryOperator::Eq, &row_of(own)?);
            let all = list.iter().map(equal).collect::<Option<Vec<_>>>();
            let any = all.and_then(|all| joined(all, BinaryOperator::Or));
            any.map(|any| if *negated { not(any) } else { any })
        }),
        Expr::IsNull(own) => row_of(own).and_then(|row| each(&row, false, Expr::IsNull)),
        Expr::IsNotNull(own) => row_of(own).and_then(|row| each(&row, true, Expr::IsNotNull)),
        _ => None,
    };
    if let Some(compared) = compared {
        *expression = Expr::Nested(Box::new(compared));
    }
}

/// Whether an expression is written as a row.
pub(super) fn is_row(expression: &Expr) -> bool {
    row_of(expression).is_some()
}

/// The values of `(a, b)` or of `ROW(a, b)`.
fn row_of(expression: &Expr) -> Option<Vec<Expr>> {
    match expression {
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("row") =>
        {
            let value = |own: &FunctionArg| match own {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    }
}

/// Whether something holds for each value of a row. A row among them is a value, whatever it consists of.
fn each(row: &[Expr], of_row: bool, holds: impl Fn(Box<Expr>) -> Expr) -> Option<Expr> {
    let of_value = |own: &Expr| match is_row(own) {
        true => Expr::value(Value::Boolean(of_row)),
        false => holds(Box::new(Expr::Nested(Box::new(own.clone())))),
    };
    joined(row.iter().map(of_value).collect(), BinaryOperator::And)
}

/// `(begin, end) OVERLAPS (begin, end)`; what is behind a beginning may be an interval.
fn overlap(left: &[Expr], right: &[Expr]) -> Option<Expr> {
    let range = |own: &[Expr]| match own {
        [begin, end] => {
            let end = if is_interval(end) { pair(begin, BinaryOperator::Plus, end) } else { end.clone() };
            Some([begin.clone(), end])
        }
        _ => None,
    };
    Some(call(exact("overlaps"), [range(left)?, range(right)?].concat()))
}

fn is_interval(expression: &Expr) -> bool {
    match expression {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        Expr::TypedString(own) => matches!(own.data_type, DataType::Interval { .. }),
        _ => false,
    }
}

/// Two rows of the same length, compared by an operator; `None` if that is not possible.
fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() || left.is_empty() {
        return None;
    }
    let pairs = left.iter().zip(right);
    let by = |op: &BinaryOperator| {
        pairs.clone().map(|(left, right)| pair(left, op.clone(), right)).collect::<Vec<_>>()
    };
    match op {
        BinaryOperator::Eq => joined(by(op), BinaryOperator::And),
        BinaryOperator::NotEq => joined(by(op), BinaryOperator::Or),
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            let strict = match op {
                BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
                _ => BinaryOperator::Gt,
            };
            // From the last pair to the first: it decides unless the one before does.
            let mut all = pairs.rev();
            let (last_left, last_right) = all.next()?;
            let mut decided = pair(last_left, op.clone(), last_right);
            for (left, right) in all {
                let equal = pair(left, BinaryOperator::Eq, right);
                let rest = joined(vec![equal, decided], BinaryOperator::And)?;
                decided = joined(vec![pair(left, strict.clone(), right), rest], BinaryOperator::Or)?;
            }
            Some(decided)
        }
        _ => None,
    }
}

pub(super) fn pair(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    let nested = |own: &Expr| match own {
        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => own.clone(),
        other => Expr::Nested(Box::new(other.clone())),
    };
    Expr::BinaryOp { left: Box::new(nested(left)), op, right: Box::new(nested(right)) }
}

pub(super) fn joined(all: Vec<Expr>, op: BinaryOperator) -> Option<Expr> {
    all.into_iter().reduce(|left, right| {
        let nested = Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
        Expr::Nested(Box::new(nested))
    })
}

fn not(own: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(own))) }
}
