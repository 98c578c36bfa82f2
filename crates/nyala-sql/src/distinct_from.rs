//! `a IS DISTINCT FROM b AND c`: the parser takes everything behind FROM for one operand, as if `b AND c` were in
//! parentheses. Here the operators get their places back.

use crate::walk::each_expression_mut;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut};

/// Repairs the expressions of a statement, or an expression. Inner expressions come first.
pub(crate) fn repair(tree: &mut impl VisitMut) {
    each_expression_mut(tree, &mut |expression| {
        if is_misplaced(expression) {
            let whole = std::mem::replace(expression, Expr::value(Value::Null));
            let mut parts = Vec::new();
            collect(whole, &mut parts);
            *expression = joined(parts);
        }
    });
}

/// Whether an operator has an operand that binds less tightly, or that should be on its left.
fn is_misplaced(expression: &Expr) -> bool {
    match expression {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => joins(right).is_some(),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => joins(expr).is_some(),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            joins(right).is_some() || joins(left) == Some(&BinaryOperator::Or)
        }
        Expr::BinaryOp { op: BinaryOperator::Or, right, .. } => joins(right) == Some(&BinaryOperator::Or),
        _ => false,
    }
}

fn joins(expression: &Expr) -> Option<&BinaryOperator> {
    match expression {
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => Some(op),
        _ => None,
    }
}

/// The operands of AND and OR as they are written, each with the operator in front of it.
fn collect(expression: Expr, parts: &mut Vec<(BinaryOperator, Expr)>) {
    let from = parts.len();
    let mut reversed = Vec::new();
    let mut rest = expression;
    // Chains of operators are long on the left.
    let first = loop {
        match rest {
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                reversed.push((op, *right));
                rest = *left;
            }
            first => break first,
        }
    };
    // What is wrong with the first operand is only where the operand of its operator ends.
    match first {
        Expr::IsDistinctFrom(left, right) => {
            collect(*right, parts);
            change(&mut parts[from].1, |own| Expr::IsDistinctFrom(left, Box::new(own)));
        }
        Expr::IsNotDistinctFrom(left, right) => {
            collect(*right, parts);
            change(&mut parts[from].1, |own| Expr::IsNotDistinctFrom(left, Box::new(own)));
        }
        Expr::UnaryOp { op: op @ UnaryOperator::Not, expr } => {
            collect(*expr, parts);
            change(&mut parts[from].1, |own| Expr::UnaryOp { op, expr: Box::new(own) });
        }
        first => parts.push((BinaryOperator::Or, first)),
    }
    for (op, right) in reversed.into_iter().rev() {
        let place = parts.len();
        collect(right, parts);
        parts[place].0 = op;
    }
}

fn change(place: &mut Expr, changed: impl FnOnce(Expr) -> Expr) {
    *place = changed(std::mem::replace(place, Expr::value(Value::Null)));
}

/// An expression of operands of AND and OR; the operator in front of the first has no meaning.
fn joined(parts: Vec<(BinaryOperator, Expr)>) -> Expr {
    let join = |left: Option<Expr>, op: BinaryOperator, right: Expr| {
        Some(match left {
            Some(left) => Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) },
            None => right,
        })
    };
    let (mut whole, mut group) = (None, None);
    for (op, part) in parts {
        if op == BinaryOperator::Or
            && let Some(group) = group.take()
        {
            whole = join(whole, BinaryOperator::Or, group);
        }
        group = join(group, BinaryOperator::And, part);
    }
    let last = group.expect("there is an operand");
    join(whole, BinaryOperator::Or, last).expect("it was just joined")
}

#[cfg(test)]
mod tests {
    use crate::statement::Statement;
    use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, SetExpr, UnaryOperator};

    /// An expression with parentheses around each AND, OR and NOT.
    fn shown(expression: &Expr) -> String {
        match expression {
            Expr::Nested(inner) => shown(inner),
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                format!("({} {op} {})", shown(left), shown(right))
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => format!("(NOT {})", shown(expr)),
            Expr::IsDistinctFrom(left, right) => format!("{}!={}", shown(left), shown(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("{}=={}", shown(left), shown(right)),
            other => other.to_string(),
        }
    }

    fn condition(text: &str) -> String {
        let statements = Statement::parse(&format!("SELECT 1 WHERE {text}")).unwrap();
        let ast::Statement::Query(query) = &*statements[0].ast else { panic!("{text}") };
        let SetExpr::Select(select) = &*query.body else { panic!("{text}") };
        shown(select.selection.as_ref().unwrap())
    }

    #[test]
    fn operators_have_their_places() {
        let cases = [
            ("a AND b IS DISTINCT FROM 2 AND c OR d", "(((a AND b!=2) AND c) OR d)"),
            ("NOT a IS DISTINCT FROM 2 AND c", "((NOT a!=2) AND c)"),
            ("a IS NOT DISTINCT FROM b OR c IS DISTINCT FROM d AND e", "(a==b OR (c!=d AND e))"),
            ("p OR a IS DISTINCT FROM b AND (c IS DISTINCT FROM d OR e)", "(p OR (a!=b AND (c!=d OR e)))"),
            ("a IS DISTINCT FROM (b AND c) OR d", "(a!=(b AND c) OR d)"),
            ("a AND b OR c AND NOT d OR e", "(((a AND b) OR (c AND (NOT d))) OR e)"),
        ];
        for (text, expected) in cases {
            assert_eq!(condition(text), expected, "{text}");
        }
    }
}
