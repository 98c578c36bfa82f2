//! `- -3`: a text that is made of the tree, as defaults, checks and views are stored, would have `--3`, which begins a comment.
//! Here what has the second sign gets parentheses.

use crate::walk::each_expression_mut;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value, VisitMut};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether two signs follow each other.
pub(crate) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    let is_sign = |token: &TokenWithSpan| token.token == Token::Minus;
    let written = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    written.clone().zip(written.skip(1)).any(|(first, second)| is_sign(first) && is_sign(second))
}

/// Repairs the expressions of a statement.
pub(crate) fn repair(tree: &mut impl VisitMut) {
    each_expression_mut(tree, &mut |expression| {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = expression
            && matches!(**expr, Expr::UnaryOp { op: UnaryOperator::Minus, .. })
        {
            let inner = std::mem::replace(expr, Box::new(Expr::value(Value::Null)));
            **expr = Expr::Nested(inner);
        }
    });
}
