//! `- -3`: a text that is made of the tree, as defaults, checks and views are stored, would have `--3`, which begins a comment.
//! Here what has the second sign gets parentheses.

use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Whether two signs follow each other.
pub(crate) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    let is_sign = |token: &TokenWithSpan| token.token == Token::Minus;
    let written = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    written.clone().zip(written.skip(1)).any(|(first, second)| is_sign(first) && is_sign(second))
}

/// Repairs the expressions of a statement.
pub(crate) fn repair(tree: &mut impl VisitMut) {
    // It never breaks.
    let _ = visit_mut(tree, &mut Repair);
}

struct Repair;

impl VisitorMut for Repair {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = expression
            && matches!(**expr, Expr::UnaryOp { op: UnaryOperator::Minus, .. })
        {
            let inner = std::mem::replace(expr, Box::new(Expr::value(Value::Null)));
            **expr = Expr::Nested(inner);
        }
        ControlFlow::Continue(())
    }
}
