//! Forms that the parser does not know, or reads wrongly, in the words of others: `TABLE t` is `SELECT * FROM t` (the parser
//! forgets the quotes of its name), `FOR NO KEY UPDATE` and `FOR KEY SHARE` lock as `FOR UPDATE` and `FOR SHARE` do, and
//! `convert` is any name (the parser reads what stands in `convert(…)` twice, and what lies in thirty of them a thousand million times),
//! `OPERATOR(pg_catalog.=) ANY` is `= ANY`, `FROM ONLY t` is `FROM t`, `trim(BOTH FROM a)` is `trim(a)`, and `trim(LEADING FROM a)` is `ltrim(a)`.

use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words behind which a query begins.
const BEFORE_QUERIES: [&str; 7] = ["union", "except", "intersect", "all", "distinct", "as", "explain"];

/// The tokens of a text without such forms.
pub(crate) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let may_begin = |token| {
        ["table", "key", "operator", "only", "trim", "convert"].iter().any(|word| is_word(token, word))
    };
    if !tokens.iter().any(may_begin) {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len() + 16);
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        if is_word(token, "table") && begins_query(&tokens, place) {
            let new = [Token::make_word("SELECT", None), Token::Mul, Token::make_word("FROM", None)];
            all.extend(new.map(|own| TokenWithSpan::new(own, token.span)));
        } else if let Some(end) = key_words(&tokens, place) {
            place = end;
            continue;
        } else if is_only(&tokens, place) {
            // No table has others below it.
        } else if let Some((operator, end)) = named_operator(&tokens, place) {
            all.push(tokens[operator].clone());
            place = end;
            continue;
        } else if let Some((name, end)) = trimmed_blanks(&tokens, place) {
            let new = [Token::make_word(name, None), Token::LParen];
            all.extend(new.map(|own| TokenWithSpan::new(own, token.span)));
            place = end;
            continue;
        } else if is_word(token, "convert") {
            all.push(TokenWithSpan::new(Token::make_word("convert", Some('"')), token.span));
        } else {
            all.push(token.clone());
        }
        place += 1;
    }
    all
}

/// Whether a word TABLE begins a query.
fn begins_query(tokens: &[TokenWithSpan], place: usize) -> bool {
    let is_name = |at: usize| matches!(&tokens[at].token, Token::Word(_));
    if !next(tokens, place + 1).is_some_and(is_name) {
        return false;
    }
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let Some(before) = (0..place).rev().find(|at| !is_blank(at)) else { return true };
    match &tokens[before].token {
        Token::SemiColon | Token::LParen => true,
        Token::Word(_) if BEFORE_QUERIES.iter().any(|word| is_word(&tokens[before], word)) => true,
        // INSERT INTO a TABLE b
        Token::Word(_) | Token::RParen => {
            let start = (0..before).rev().find(|at| tokens[*at].token == Token::SemiColon);
            let first = next(tokens, start.map_or(0, |at| at + 1));
            let second = first.and_then(|at| next(tokens, at + 1));
            first.is_some_and(|at| is_word(&tokens[at], "insert"))
                && second.is_some_and(|at| is_word(&tokens[at], "into") && at < before)
        }
        _ => false,
    }
}

/// The end of `NO KEY` in `FOR NO KEY UPDATE`, or of `KEY` in `FOR KEY SHARE`, that begins at a place.
fn key_words(tokens: &[TokenWithSpan], place: usize) -> Option<usize> {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let before = (0..place).rev().find(|at| !is_blank(at))?;
    let word = |at: usize, word: &str| is_word(&tokens[at], word).then_some(at + 1);
    word(before, "for")?;
    let (key, last) = match word(place, "no") {
        Some(after) => (next(tokens, after)?, "update"),
        None => (place, "share"),
    };
    let end = word(key, "key")?;
    word(next(tokens, end)?, last)?;
    Some(end)
}

/// Whether a word is the one of `FROM ONLY t`.
fn is_only(tokens: &[TokenWithSpan], place: usize) -> bool {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let before = (0..place).rev().find(|at| !is_blank(at));
    let behind = next(tokens, place + 1);
    is_word(&tokens[place], "only")
        && before.is_some_and(|at| ["from", "join"].iter().any(|word| is_word(&tokens[at], word)))
        && behind.is_some_and(|at| matches!(&tokens[at].token, Token::Word(_)))
}

/// The function that `trim(BOTH FROM` is, which begins at a place, and the end of that.
fn trimmed_blanks(tokens: &[TokenWithSpan], place: usize) -> Option<(&'static str, usize)> {
    is_word(&tokens[place], "trim").then_some(())?;
    let bracket = next(tokens, place + 1).filter(|at| tokens[*at].token == Token::LParen)?;
    let side = next(tokens, bracket + 1)?;
    let names = [("both", "trim"), ("leading", "ltrim"), ("trailing", "rtrim")];
    let (_, name) = names.into_iter().find(|(word, _)| is_word(&tokens[side], word))?;
    let from = next(tokens, side + 1).filter(|at| is_word(&tokens[*at], "from"))?;
    Some((name, from + 1))
}

/// The place of the operator in `OPERATOR(pg_catalog.=) ANY`, which begins at a place, and the end of what stands for it.
fn named_operator(tokens: &[TokenWithSpan], place: usize) -> Option<(usize, usize)> {
    let expect = |place: usize, token: Token| {
        next(tokens, place).filter(|at| tokens[*at].token == token).map(|at| at + 1)
    };
    is_word(&tokens[place], "operator").then_some(())?;
    let schema = next(tokens, expect(place + 1, Token::LParen)?)?;
    is_word(&tokens[schema], "pg_catalog").then_some(())?;
    let operator = next(tokens, expect(schema + 1, Token::Period)?)?;
    let end = expect(operator + 1, Token::RParen)?;
    let behind = next(tokens, end)?;
    ["any", "some", "all"].iter().any(|word| is_word(&tokens[behind], word)).then_some((operator, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_reader::parsed_by;

    fn parsed(text: &str) -> String {
        parsed_by(rewritten, text)
    }

    #[test]
    fn tables_are_queries_only_where_queries_are() {
        for (text, expected) in [
            ("TABLE \"T\" ORDER BY 1", "SELECT * FROM \"T\" ORDER BY 1"),
            ("VALUES (1) UNION ALL table public.t", "VALUES (1) UNION ALL SELECT * FROM public.t"),
            ("CREATE TABLE a AS TABLE b", "CREATE TABLE a AS SELECT * FROM b"),
            ("INSERT INTO a (x) TABLE b", "INSERT INTO a (x) SELECT * FROM b"),
            ("SELECT * FROM (TABLE a) AS q", "SELECT * FROM (SELECT * FROM a) AS q"),
            ("ALTER TABLE a RENAME TO b", "ALTER TABLE a RENAME TO b"),
            ("DROP TABLE a", "DROP TABLE a"),
            ("SELECT a.table FROM a", "SELECT a.table FROM a"),
        ] {
            assert_eq!(parsed(text), expected);
        }
    }

    #[test]
    fn locks_of_keys_and_operators_are_known_ones() {
        for (text, expected) in [
            ("SELECT 1 FROM t FOR NO KEY UPDATE SKIP LOCKED", "SELECT 1 FROM t FOR UPDATE SKIP LOCKED"),
            ("SELECT 1 FROM t FOR KEY SHARE", "SELECT 1 FROM t FOR SHARE"),
            ("SELECT key FROM t", "SELECT key FROM t"),
            ("SELECT 1 FROM ONLY public.t AS u", "SELECT 1 FROM public.t AS u"),
            ("SELECT only FROM t", "SELECT only FROM t"),
            ("SELECT a OPERATOR(pg_catalog.=) ANY (b) FROM t", "SELECT a = ANY(b) FROM t"),
            ("SELECT a OPERATOR(pg_catalog.=) 1 FROM t", "SELECT a OPERATOR(pg_catalog.=) 1 FROM t"),
            ("SELECT trim( leading from a), TRIM(BOTH FROM a)", "SELECT ltrim(a), TRIM(a)"),
            ("SELECT TRIM(BOTH 'x' FROM a), trim(a)", "SELECT TRIM(BOTH 'x' FROM a), TRIM(a)"),
        ] {
            assert_eq!(parsed(text), expected);
        }
    }
}
