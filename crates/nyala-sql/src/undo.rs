//! `UNDO <change>` and `DRY RUN UNDO <change>`: taking a change of points back.
//!
//! The parser does not know them. It reads calls of procedures in their place.

use crate::latest_on::is_word;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use std::fmt;

/// The names of the procedures.
const UNDO: &str = "undo";
const DRY_RUN: &str = "dry_run_undo";

/// Such a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undo {
    /// The number of the change.
    pub(crate) change: u64,
    /// Whether it is only counted what would be put back.
    pub(crate) is_dry_run: bool,
}

/// Whether a text may have such a statement.
pub(crate) fn may_be_in(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is_word(token, UNDO))
}

/// Puts a call in the place of such a statement, given the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let is_word_or_sign = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(is_word_or_sign).collect();
    let begins_with = |expected: &[&str]| {
        words.len() >= expected.len()
            && words.iter().zip(expected).all(|(word, expected)| is_word(word, expected))
    };
    let (name, rest) = match (begins_with(&[UNDO]), begins_with(&["dry", "run", UNDO])) {
        (true, _) => (UNDO, &words[1..]),
        (_, true) => (DRY_RUN, &words[3..]),
        _ => return Ok(()),
    };
    let [number @ TokenWithSpan { token: Token::Number(..), .. }] = rest else {
        let place = rest.first().or(words.last()).map(|token| token.span.start.to_string());
        let words = "UNDO takes the number of a change, such as UNDO 17";
        return Err(ParserError::ParserError(format!("{words}{}", place.unwrap_or_default())));
    };
    let span = words[0].span;
    let word =
        |value: &str, keyword| Token::Word(Word { value: value.to_owned(), quote_style: None, keyword });
    let call = [word("CALL", Keyword::CALL), word(name, Keyword::NoKeyword), Token::LParen];
    let mut call: Vec<_> = call.into_iter().map(|token| TokenWithSpan { token, span }).collect();
    call.push((*number).clone());
    call.push(TokenWithSpan { token: Token::RParen, span: number.span });
    call.extend(tokens.iter().filter(|token| token.token == Token::EOF).cloned());
    *tokens = call;
    Ok(())
}

impl Undo {
    /// What a call stands for.
    pub(crate) fn of(statement: &ast::Statement) -> Option<Self> {
        let ast::Statement::Call(call) = statement else { return None };
        let is_dry_run = match call.name.to_string().as_str() {
            UNDO => false,
            DRY_RUN => true,
            _ => return None,
        };
        let ast::FunctionArguments::List(arguments) = &call.args else { return None };
        let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value)))] =
            &arguments.args[..]
        else {
            return None;
        };
        let ast::Value::Number(text, _) = &value.value else { return None };
        // A larger number is not that of any change.
        Some(Self { change: text.parse().unwrap_or(u64::MAX), is_dry_run })
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_dry_run { "DRY RUN " } else { "" })?;
        write!(f, "UNDO {}", self.change)
    }
}
