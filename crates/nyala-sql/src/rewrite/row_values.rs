//! Comparisons of rows, such as `(a, b) > (1, 2)`, as comparisons of their values: the planner would compare structs, to which NULL
//! is a value like any other.

use crate::call::{call, exact};
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, UnaryOperator};

pub(super) fn rewrite(expression: &mut Expr) {
    let compared = match expression {
        Expr::BinaryOp { left, op, right } => match (&**left, &**right) {
            (Expr::Tuple(left), Expr::Tuple(right)) if *op == BinaryOperator::Overlaps => {
                overlap(left, right)
            }
            (Expr::Tuple(left), Expr::Tuple(right)) => compared(left, op, right),
            _ => None,
        },
        Expr::InList { expr, list, negated } => match &**expr {
            Expr::Tuple(left) => {
                let equal = |own: &Expr| match own {
                    Expr::Tuple(right) => compared(left, &BinaryOperator::Eq, right),
                    _ => None,
                };
                let all = list.iter().map(equal).collect::<Option<Vec<_>>>();
                let any = all.and_then(|all| joined(all, BinaryOperator::Or));
                any.map(|any| if *negated { not(any) } else { any })
            }
            _ => None,
        },
        _ => None,
    };
    if let Some(compared) = compared {
        *expression = Expr::Nested(Box::new(compared));
    }
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
