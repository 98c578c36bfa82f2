//! `DO NOTHING` of MERGE, which the parser does not know: it reads an assignment to a column that there cannot be in its place.

use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::ast::{MergeAction, MergeClause};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// No column has this name.
const NOTHING: &str = "\u{0}nothing";

/// The tokens of a text without `THEN DO NOTHING`.
pub(crate) fn rewritten(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut from = 0;
    while let Some(found) = (from..tokens.len()).find(|number| is_word(&tokens[*number], "then")) {
        from = found + 1;
        let action = next(&tokens, from).filter(|number| is_word(&tokens[*number], "do"));
        let end = action.and_then(|number| next(&tokens, number + 1));
        if let (Some(begin), Some(end)) = (action, end)
            && is_word(&tokens[end], "nothing")
        {
            let (span, words) = (tokens[begin].span, words(is_of_new_row(&tokens[..found])));
            let words = words.into_iter().map(|token| TokenWithSpan { token, span });
            tokens.splice(begin..=end, words);
        }
    }
    tokens
}

/// Whether the clause before its THEN is about rows that match none: WHEN NOT MATCHED.
fn is_of_new_row(clause: &[TokenWithSpan]) -> bool {
    let matched = clause.iter().rposition(|token| is_word(token, "matched")).unwrap_or(0);
    clause[..matched]
        .iter()
        .rev()
        .find(|token| !matches!(token.token, Token::Whitespace(_)))
        .is_some_and(|token| is_word(token, "not"))
}

fn words(is_insert: bool) -> Vec<Token> {
    let word = |word| Token::make_word(word, None);
    let column = Token::make_word(NOTHING, Some('"'));
    match is_insert {
        true => vec![
            word("INSERT"),
            Token::LParen,
            column,
            Token::RParen,
            word("VALUES"),
            Token::LParen,
            word("NULL"),
            Token::RParen,
        ],
        false => vec![word("UPDATE"), word("SET"), column, Token::Eq, word("NULL")],
    }
}

/// Whether a clause does nothing.
pub(crate) fn is_nothing(clause: &MergeClause) -> bool {
    let names = |text: &str| text.contains(NOTHING);
    match &clause.action {
        MergeAction::Update(update) => update.assignments.iter().any(|own| names(&own.target.to_string())),
        MergeAction::Insert(insert) => insert.columns.iter().any(|name| names(&name.to_string())),
        MergeAction::Delete { .. } => false,
    }
}

/// The text of a statement, with `DO NOTHING` as it was written.
pub(crate) fn shown(text: &str) -> String {
    let update = format!("UPDATE SET \"{NOTHING}\" = NULL");
    let insert = format!("INSERT (\"{NOTHING}\") VALUES (NULL)");
    text.replace(&update, "DO NOTHING").replace(&insert, "DO NOTHING")
}

#[cfg(test)]
mod tests {
    use crate::Statement;

    #[test]
    fn nothing_is_read_in_both_kinds_of_clauses() {
        let text = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND a THEN DO NOTHING \
                    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN DO NOTHING";
        assert_eq!(Statement::parse(text).unwrap()[0].shown(), text);
        let case = "SELECT CASE WHEN a THEN do END";
        assert_eq!(Statement::parse(case).unwrap()[0].shown(), case);
    }
}
