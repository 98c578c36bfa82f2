//! `LATEST ON time PARTITION BY tags`, as in QuestDB: the latest row of each group.
//!
//! The parser does not know it, so that its tokens become those of `DISTINCT ON (tags) … ORDER BY tags, time DESC`. If the
//! query continues with an order or a limit of its own, it becomes a query of that.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};
use std::ops::Range;

/// A clause that was found.
struct Clause {
    /// All of it.
    all: Range<usize>,
    time: Range<usize>,
    keys: Range<usize>,
    /// The SELECT that it belongs to.
    select: usize,
}

/// The tokens of a text without such clauses.
pub(crate) fn rewritten(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    while let Some(clause) = find(&tokens) {
        tokens = replaced(&tokens, &clause);
    }
    tokens
}

/// Whether a token is a word, in any case and not in quotes.
pub(crate) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word))
}

/// The number of the next token that is no space.
pub(crate) fn next(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|number| !matches!(tokens[*number].token, Token::Whitespace(_)))
}

fn expect(tokens: &[TokenWithSpan], from: usize, word: &str) -> Option<usize> {
    next(tokens, from).filter(|number| is_word(&tokens[*number], word)).map(|number| number + 1)
}

/// The name of a column, with or without that of its table.
fn name(tokens: &[TokenWithSpan], from: usize) -> Option<Range<usize>> {
    let start = next(tokens, from)?;
    let is_name = |number: usize| matches!(tokens.get(number).map(|own| &own.token), Some(Token::Word(_)));
    let is_period = |number: usize| matches!(tokens.get(number).map(|own| &own.token), Some(Token::Period));
    let mut end = is_name(start).then_some(start + 1)?;
    while is_period(end) && is_name(end + 1) {
        end += 2;
    }
    Some(start..end)
}

fn find(tokens: &[TokenWithSpan]) -> Option<Clause> {
    (0..tokens.len()).filter(|number| is_word(&tokens[*number], "latest")).find_map(|start| {
        let time = name(tokens, expect(tokens, start + 1, "on")?)?;
        let after = expect(tokens, expect(tokens, time.end, "partition")?, "by")?;
        let mut keys = name(tokens, after)?;
        while let Some(comma) = next(tokens, keys.end)
            && tokens[comma].token == Token::Comma
            && let Some(more) = name(tokens, comma + 1)
        {
            keys.end = more.end;
        }
        let mut depth = 0;
        let select = (0..start).rev().find(|number| {
            match &tokens[*number].token {
                Token::RParen => depth += 1,
                Token::LParen => depth -= 1,
                _ => {}
            }
            depth == 0 && is_word(&tokens[*number], "select")
        })?;
        Some(Clause { all: start..keys.end, time, keys, select })
    })
}

fn replaced(tokens: &[TokenWithSpan], clause: &Clause) -> Vec<TokenWithSpan> {
    let goes_on = next(tokens, clause.all.end).is_some_and(|number| {
        ["order", "limit", "offset", "fetch"].iter().any(|word| is_word(&tokens[number], word))
    });
    let mut all: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 32);
    let add = |all: &mut Vec<TokenWithSpan>, new: &[Token]| {
        all.extend(new.iter().map(|token| TokenWithSpan::new(token.clone(), Span::empty())));
    };
    let word = |text: &str| Token::make_word(text, None);
    let copy = |all: &mut Vec<TokenWithSpan>, range: Range<usize>| all.extend_from_slice(&tokens[range]);
    copy(&mut all, 0..clause.select);
    if goes_on {
        add(&mut all, &[word("SELECT"), Token::Mul, word("FROM"), Token::LParen]);
    }
    copy(&mut all, clause.select..clause.select + 1);
    add(&mut all, &[word("DISTINCT"), word("ON"), Token::LParen]);
    copy(&mut all, clause.keys.clone());
    add(&mut all, &[Token::RParen]);
    copy(&mut all, clause.select + 1..clause.all.start);
    add(&mut all, &[word("ORDER"), word("BY")]);
    copy(&mut all, clause.keys.clone());
    add(&mut all, &[Token::Comma]);
    copy(&mut all, clause.time.clone());
    add(&mut all, &[word("DESC")]);
    if goes_on {
        let alias = Token::Word(Word { quote_style: Some('"'), ..named("latest") });
        add(&mut all, &[Token::RParen, alias]);
    }
    copy(&mut all, clause.all.end..tokens.len());
    all
}

fn named(name: &str) -> Word {
    match Token::make_word(name, Some('"')) {
        Token::Word(word) => word,
        other => unreachable!("{other} is made as a word"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_reader::parsed_by;

    fn parsed(text: &str) -> String {
        parsed_by(rewritten, text)
    }

    #[test]
    fn the_latest_rows_are_those_of_a_distinct_query() {
        assert_eq!(
            parsed("SELECT * FROM cpu WHERE a > 1 LATEST ON time PARTITION BY host, cpu.\"r\""),
            "SELECT DISTINCT ON (host, cpu.\"r\") * FROM cpu WHERE a > 1 ORDER BY host, cpu.\"r\", time DESC"
        );
        assert_eq!(
            parsed("select h from (select * from cpu latest on time partition by h order by u limit 3) x"),
            "SELECT h FROM (SELECT * FROM (SELECT DISTINCT ON (h) * FROM cpu ORDER BY h, time DESC) \"latest\" \
             ORDER BY u LIMIT 3) x"
        );
        assert_eq!(parsed("SELECT latest FROM latest"), "SELECT latest FROM latest");
    }
}
