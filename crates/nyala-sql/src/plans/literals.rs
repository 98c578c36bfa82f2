//! Which literals of a statement can become parameters: those that a column is compared with in a condition. Any other may
//! decide what the plan looks like: a limit, the width of buckets, a pattern, a literal that is selected.

use crate::expression::is_comparison;
use crate::shape::Literal;
use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, Statement, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

/// The statement with parameters instead of the literals that are `wanted`, and which of the literals became parameters, in
/// the order of their numbers.
pub(crate) fn parameterized(
    statement: &Statement,
    literals: &[Literal],
    wanted: impl Fn(usize) -> bool,
) -> (Statement, Vec<usize>) {
    let mut statement = statement.clone();
    let mut replacing = Replacing { literals, wanted, replaced: Vec::new() };
    // It never breaks.
    let _ = visit_mut(&mut statement, &mut replacing);
    (statement, replacing.replaced)
}

struct Replacing<'a, Wanted> {
    literals: &'a [Literal],
    wanted: Wanted,
    replaced: Vec<usize>,
}

impl<Wanted: Fn(usize) -> bool> VisitorMut for Replacing<'_, Wanted> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.set(&mut query.body);
        ControlFlow::Continue(())
    }
}

impl<Wanted: Fn(usize) -> bool> Replacing<'_, Wanted> {
    fn set(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => select.selection.iter_mut().for_each(|own| self.condition(own)),
            // A query in parentheses is visited by itself.
            SetExpr::SetOperation { left, right, .. } => {
                self.set(left);
                self.set(right);
            }
            _ => {}
        }
    }

    fn condition(&mut self, condition: &mut Expr) {
        match condition {
            Expr::Nested(inner) => self.condition(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.condition(left);
                self.condition(right);
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                if is_column(left) {
                    self.operand(right);
                } else if is_column(right) {
                    self.operand(left);
                }
            }
            Expr::InList { expr, list, .. } if is_column(expr) => {
                list.iter_mut().for_each(|own| self.operand(own));
            }
            Expr::Between { expr, low, high, negated: false } if is_column(expr) => {
                self.operand(low);
                self.operand(high);
            }
            _ => {}
        }
    }

    fn operand(&mut self, operand: &mut Expr) {
        let Expr::Value(ValueWithSpan { value, span }) = operand else { return };
        if !matches!(value, Value::Number(..) | Value::SingleQuotedString(_)) {
            return;
        }
        let Some(number) = self.literals.iter().position(|own| own.place == span.start) else { return };
        // What was written once may be part of the statement twice.
        if (self.wanted)(number) && !self.replaced.contains(&number) {
            self.replaced.push(number);
            *value = Value::Placeholder(format!("${}", self.replaced.len()));
        }
    }
}

fn is_column(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}
