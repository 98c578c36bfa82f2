//! `CREATE TABLE … PARTITION BY HASH (a) WITH (partitions = 8)`: PostgreSQL has the parameters last, the parser wants them before
//! the partitions.

use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

const PARTITION: &str = "partition";

/// Whether the words may be there.
pub(crate) fn may_be_in(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is_word(token, PARTITION))
        && tokens.iter().any(|token| is_word(token, "create"))
}

/// Puts the parameters of a statement that has them behind its partitions before them.
pub(crate) fn reorder(tokens: &mut [TokenWithSpan]) {
    if let Some((from, with, end)) = found(tokens) {
        tokens[from..end].rotate_left(with - from);
    }
}

/// Where `PARTITION`, `WITH` behind it, and the end of its parameters are.
fn found(tokens: &[TokenWithSpan]) -> Option<(usize, usize, usize)> {
    next(tokens, 0).filter(|first| is_word(&tokens[*first], "create"))?;
    let mut depth = 0;
    let from = tokens.iter().position(|token| {
        depth += depth_of(token);
        depth == 0 && is_word(token, PARTITION)
    })?;
    let by = next(tokens, from + 1).filter(|by| is_word(&tokens[*by], "by"))?;
    let kind = next(tokens, by + 1)?;
    let columns_end = parentheses_end(tokens, next(tokens, kind + 1)?)?;
    let with = next(tokens, columns_end).filter(|with| is_word(&tokens[*with], "with"))?;
    Some((from, with, parentheses_end(tokens, next(tokens, with + 1)?)?))
}

/// Where parentheses end that begin here.
fn parentheses_end(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0;
    tokens[from].token.eq(&Token::LParen).then_some(())?;
    let last = tokens[from..].iter().position(|token| {
        depth += depth_of(token);
        depth == 0
    })?;
    Some(from + last + 1)
}

fn depth_of(token: &TokenWithSpan) -> i32 {
    match token.token {
        Token::LParen => 1,
        Token::RParen => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser_dialect::SqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn parameters_go_before_partitions() {
        let reordered = |text: &str| {
            let mut tokens = Tokenizer::new(&SqlDialect, text).tokenize_with_location().expect("it is SQL");
            reorder(&mut tokens);
            tokens.iter().map(|token| token.token.to_string()).collect::<String>()
        };
        assert_eq!(
            reordered("CREATE TABLE t (a int) PARTITION BY HASH (a) WITH (partitions = (8)) AS SELECT 1"),
            "CREATE TABLE t (a int) WITH (partitions = (8))PARTITION BY HASH (a)  AS SELECT 1"
        );
        for text in [
            "CREATE TABLE t (a int) WITH (partitions = 8) PARTITION BY HASH (a)",
            "CREATE TABLE t AS SELECT sum(a) OVER (PARTITION BY b) FROM s",
            "CREATE TABLE t (a int) PARTITION BY HASH (a",
            "CREATE TABLE t (a int) PARTITION BY HASH (a) WITH",
            "SELECT 1 PARTITION BY HASH (a) WITH (b)",
            "CREATE VIEW v AS SELECT * FROM m LATEST ON time PARTITION BY host",
        ] {
            assert_eq!(reordered(text), text);
        }
    }
}
