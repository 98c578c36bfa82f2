//! `WHERE CURRENT OF cursor`: the row that a cursor stands on.
//!
//! The parser does not know it, so that its tokens become those of a function of the cursor's name.

use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// A name that no function has.
const FUNCTION: &str = "\u{0}current of";

/// The tokens of a text without such clauses.
pub(crate) fn rewritten(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut from = 0;
    while let Some((start, name)) = find(&tokens, from) {
        let Token::Word(cursor) = &tokens[name].token else { break };
        let cursor = match cursor.quote_style {
            Some(_) => cursor.value.clone(),
            None => cursor.value.to_lowercase(),
        };
        let function =
            Word { value: FUNCTION.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
        let call = [Token::Word(function), Token::LParen, Token::SingleQuotedString(cursor), Token::RParen];
        let span = tokens[start].span;
        tokens.splice(start..=name, call.map(|token| TokenWithSpan { token, span }));
        from = start;
    }
    tokens
}

/// Where `CURRENT` stands, and the name of the cursor.
fn find(tokens: &[TokenWithSpan], from: usize) -> Option<(usize, usize)> {
    (from..tokens.len()).filter(|number| is_word(&tokens[*number], "where")).find_map(|clause| {
        let start = next(tokens, clause + 1).filter(|number| is_word(&tokens[*number], "current"))?;
        let of = next(tokens, start + 1).filter(|number| is_word(&tokens[*number], "of"))?;
        let name = next(tokens, of + 1)?;
        matches!(tokens[name].token, Token::Word(_)).then_some((start, name))
    })
}

/// The text of a statement with such a clause as it was written.
pub(crate) fn shown(text: String) -> String {
    let begin = format!("\"{FUNCTION}\"('");
    match text.split_once(&*begin) {
        Some((before, rest)) => match rest.split_once("')") {
            Some((cursor, after)) => format!("{before}CURRENT OF \"{cursor}\"{after}"),
            None => text,
        },
        None => text,
    }
}

/// The cursor that a condition is about, if it is such a clause.
pub(crate) fn cursor_of(condition: &Expr) -> Option<&str> {
    let Expr::Function(function) = condition else { return None };
    let FunctionArguments::List(arguments) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(name)))] = &arguments.args[..] else {
        return None;
    };
    let is_it =
        function.name.0.len() == 1 && function.name.0[0].as_ident().is_some_and(|own| own.value == FUNCTION);
    match &name.value {
        Value::SingleQuotedString(name) if is_it => Some(name),
        _ => None,
    }
}
