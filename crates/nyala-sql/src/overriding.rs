//! `INSERT … OVERRIDING SYSTEM VALUE`: rows name values for columns that are always generated. The parser does not know it.

use crate::token_reader::is_word;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

const WRITTEN: &str = " OVERRIDING SYSTEM VALUE";

/// Takes the words out of a statement; whether they were there.
pub(crate) fn taken(tokens: &mut Vec<TokenWithSpan>) -> Result<bool, ParserError> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|place| !is_blank(&tokens[*place])).collect();
    let word = |place: usize, word: &str| is_word(&tokens[place].token, word);
    let is_insert = places.first().is_some_and(|first| word(*first, "insert"));
    let found = places.windows(3).position(|those| word(those[0], "overriding") && word(those[2], "value"));
    let Some(found) = found.filter(|_| is_insert) else { return Ok(false) };
    let (from, which, to) = (places[found], places[found + 1], places[found + 2]);
    if word(which, "user") {
        let words = "syntax error: OVERRIDING USER VALUE is not supported: leave the column out";
        return Err(ParserError::ParserError(words.to_owned()));
    }
    if !word(which, "system") {
        return Ok(false);
    }
    tokens.drain(from..=to);
    Ok(true)
}

/// The text of a statement from which the words were taken.
pub(crate) fn shown(text: &str) -> String {
    let place = [" VALUES", " SELECT", " DEFAULT"].iter().filter_map(|word| text.find(word)).min();
    let place = place.unwrap_or(text.len());
    format!("{}{WRITTEN}{}", &text[..place], &text[place..])
}
