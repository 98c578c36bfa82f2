//! `AS OF <time>` at the end of a query: the moment of the past that it asks for.
//!
//! The parser does not know it, so it is taken from the tokens before. `OF` is no reserved word, so `SELECT a AS of` names a
//! column. `AS OF` is a moment only if an expression follows, and nothing after it.

use crate::latest_on::is_word;
use crate::parser_dialect::SqlDialect;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a text may have such a clause.
pub(crate) fn may_be_in(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is_word(token, "of"))
}

/// Takes the clause from the tokens of one statement. Its expression may be nested so deeply.
pub(crate) fn taken(tokens: &mut Vec<TokenWithSpan>, depth_max: usize) -> Option<ast::Expr> {
    let (start, moment) = find(tokens)?;
    let parser = Parser::new(&SqlDialect).with_recursion_limit(depth_max);
    let mut parser = parser.with_tokens_with_locations(tokens[moment..].to_vec());
    let moment = parser.parse_expr().ok()?;
    let ends = matches!(parser.peek_token().token, Token::EOF);
    tokens.truncate(if ends { start } else { tokens.len() });
    ends.then_some(moment)
}

/// The last `AS OF`: where it begins, and where its moment does.
fn find(tokens: &[TokenWithSpan]) -> Option<(usize, usize)> {
    let words = |number: &usize| !matches!(tokens[*number].token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len()).filter(words).collect();
    let pairs = words.windows(3).rev();
    let mut found = pairs.filter(|own| is_word(&tokens[own[0]], "as") && is_word(&tokens[own[1]], "of"));
    found.next().map(|own| (own[0], own[2]))
}
