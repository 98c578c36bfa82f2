//! `DRY RUN UPDATE …`: a change that is only counted. The parser does not know it: the words are taken away before.
//!
//! `DRY RUN UNDO` is another statement ([`crate::undo`]).

use crate::latest_on::is_word;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// The statements that can be counted.
const CHANGES: [&str; 5] = ["insert", "upsert", "update", "delete", "with"];

/// Whether a text may have such a statement.
pub(crate) fn may_be_in(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is_word(token, "dry"))
}

/// Takes the words away from the tokens of one statement; false if it does not begin with them.
///
/// # Errors
/// A syntax error, if no change follows.
pub(crate) fn taken(tokens: &mut Vec<TokenWithSpan>) -> Result<bool, ParserError> {
    let is_sign = |number: &usize| !matches!(tokens[*number].token, Token::Whitespace(_) | Token::EOF);
    let mut signs = (0..tokens.len()).filter(is_sign);
    let (Some(first), Some(second)) = (signs.next(), signs.next()) else { return Ok(false) };
    if !is_word(&tokens[first], "dry") || !is_word(&tokens[second], "run") {
        return Ok(false);
    }
    let third = signs.next();
    if !third.is_some_and(|third| CHANGES.iter().any(|word| is_word(&tokens[third], word))) {
        let place = tokens[third.unwrap_or(second)].span.start;
        let words = "DRY RUN takes INSERT, UPDATE, DELETE or UNDO";
        return Err(ParserError::ParserError(format!("{words}{place}")));
    }
    drop(tokens.drain(..=second));
    Ok(true)
}

/// The columns of the answer.
pub(crate) fn counted_columns() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("rows", DataType::Int64, false)]))
}
