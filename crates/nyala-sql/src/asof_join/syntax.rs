//! Forms of `ASOF JOIN` that the parser does not know: those of DuckDB (`a ASOF [LEFT] JOIN b ON … AND a.time >= b.time`) and
//! QuestDB (`a ASOF JOIN b [ON (host)]`). They become the form of Snowflake that it knows, with a word that nobody writes
//! instead of the condition.

use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Instead of a condition: `ASOF JOIN`.
pub(super) const PLAIN: &str = "asof::plain";
/// Instead of a condition: `ASOF INNER JOIN`.
pub(super) const INNER: &str = "asof::inner";
/// Instead of a condition: `ASOF LEFT JOIN`.
pub(super) const LEFT: &str = "asof::left";

/// Words that a table of FROM ends before.
const ENDS: [&str; 22] = [
    "on",
    "using",
    "where",
    "group",
    "order",
    "limit",
    "offset",
    "fetch",
    "having",
    "window",
    "union",
    "except",
    "intersect",
    "join",
    "left",
    "right",
    "inner",
    "full",
    "cross",
    "natural",
    "asof",
    "latest",
];

/// The tokens of a text in forms that the parser knows.
pub(crate) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = tokens;
    let mut from = 0;
    while let Some(start) = (from..tokens.len()).find(|number| is_word(&tokens[*number], "asof")) {
        from = start + 1;
        if let Some(changed) = changed(&tokens, start) {
            tokens = changed;
        }
    }
    tokens
}

fn changed(tokens: &[TokenWithSpan], start: usize) -> Option<Vec<TokenWithSpan>> {
    let word_at = |number: usize, word: &str| is_word(&tokens[number], word);
    let mut join = next(tokens, start + 1)?;
    let marker = match () {
        () if word_at(join, "left") => LEFT,
        () if word_at(join, "inner") => INNER,
        () => PLAIN,
    };
    if marker != PLAIN {
        join = next(tokens, join + 1)?;
        if marker == LEFT && word_at(join, "outer") {
            join = next(tokens, join + 1)?;
        }
    }
    if !word_at(join, "join") {
        return None;
    }
    let mut depth = 0_usize;
    let end = (join + 1..tokens.len()).find(|number| match &tokens[*number].token {
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen if depth > 0 => {
            depth -= 1;
            false
        }
        _ if depth > 0 => false,
        Token::RParen | Token::Comma | Token::SemiColon | Token::EOF => true,
        Token::Word(_) => {
            word_at(*number, "match_condition") || ENDS.iter().any(|word| word_at(*number, word))
        }
        _ => false,
    });
    let end = end.unwrap_or(tokens.len());
    let mut all = tokens[..=start].to_vec();
    all.push(TokenWithSpan::new(Token::make_word("JOIN", None), tokens[join].span));
    all.extend_from_slice(&tokens[join + 1..end]);
    if !(end < tokens.len() && word_at(end, "match_condition")) {
        let marked = [
            Token::make_word("MATCH_CONDITION", None),
            Token::LParen,
            Token::make_word(marker, Some('"')),
            Token::RParen,
        ];
        all.extend(marked.map(|token| TokenWithSpan::new(token, Span::empty())));
    }
    all.extend_from_slice(&tokens[end..]);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_reader::parsed_by;

    fn parsed(text: &str) -> String {
        parsed_by(rewritten, text)
    }

    #[test]
    fn all_forms_become_one() {
        let cases = [
            (
                "SELECT 1 FROM a ASOF JOIN b ON a.k = b.k WHERE x",
                "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (\"asof::plain\") ON a.k = b.k WHERE x",
            ),
            (
                "SELECT 1 FROM a asof left join (SELECT 1 FROM c JOIN d ON p) AS b USING (k, t)",
                "SELECT 1 FROM a ASOF JOIN (SELECT 1 FROM c JOIN d ON p) AS b MATCH_CONDITION (\"asof::left\") \
                 USING(k, t)",
            ),
            (
                "SELECT (SELECT 1 FROM a ASOF JOIN b) FROM c",
                "SELECT (SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (\"asof::plain\")) FROM c",
            ),
            (
                "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k",
                "SELECT 1 FROM a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k",
            ),
            ("SELECT 1 AS x, \"asof\" FROM t", "SELECT 1 AS x, \"asof\" FROM t"),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}
