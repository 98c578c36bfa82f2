//! `CREATE TABLE t (LIKE s INCLUDING DEFAULTS, …)`, which the parser does not know: it reads a column, whose name says what is
//! included, and whose type is the name of the other table.

use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::ast::{ColumnDef, DataType, ObjectName};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// How the name of such a column begins.
const LIKE: &str = "\u{0}like";

/// What a table takes from another one, beside the columns and whether they may be NULL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Included {
    pub(crate) comments: bool,
    pub(crate) constraints: bool,
    pub(crate) defaults: bool,
    pub(crate) identity: bool,
    pub(crate) indexes: bool,
}

impl Included {
    /// Includes or excludes what a word says; false if it says nothing.
    fn set(&mut self, word: &str, is_included: bool) -> bool {
        let all = word == "all";
        let named = [
            ("comments", &mut self.comments),
            ("constraints", &mut self.constraints),
            ("defaults", &mut self.defaults),
            ("identity", &mut self.identity),
            ("indexes", &mut self.indexes),
        ];
        let mut is_known = all;
        for (name, own) in named {
            if all || name == word {
                (*own, is_known) = (is_included, true);
            }
        }
        // No table has any of these.
        is_known || ["compression", "generated", "statistics", "storage"].contains(&word)
    }
}

/// The tokens of a text without such elements of tables that are created.
pub(crate) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "like"))
        || !tokens.iter().any(|token| is_word(token, "create"))
    {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len());
    let (mut place, mut depth, mut creates, mut may_begin, mut is_first) = (0, 0, false, false, true);
    while let Some(token) = tokens.get(place) {
        if creates
            && depth == 1
            && may_begin
            && let Some((new, end)) = element(&tokens, place)
        {
            all.extend(new);
            (place, may_begin) = (end, false);
            continue;
        }
        match &token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon => (depth, creates, may_begin, is_first) = (0, false, false, true),
            Token::LParen => (depth, may_begin) = (depth + 1, true),
            Token::RParen => (depth, may_begin) = (depth - 1, false),
            Token::Comma => may_begin = true,
            _ if is_first => (creates, is_first) = (is_word(token, "create"), false),
            _ => {
                // The query of a table has no elements.
                creates &= depth > 0 || !is_word(token, "as");
                may_begin = false;
            }
        }
        all.push(token.clone());
        place += 1;
    }
    all
}

/// The column in the place of an element that begins at a place, and where that ends.
fn element(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    is_word(&tokens[place], "like").then_some(())?;
    let word = |at: usize| match &tokens.get(at)?.token {
        Token::Word(word) => Some(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        }),
        _ => None,
    };
    let start = next(tokens, place + 1)?;
    let mut parts = vec![word(start)?];
    let mut end = start + 1;
    while let Some(period) = next(tokens, end).filter(|at| tokens[*at].token == Token::Period) {
        let part = next(tokens, period + 1)?;
        parts.push(word(part)?);
        end = part + 1;
    }
    let mut name = LIKE.to_owned();
    while let Some(verb) = next(tokens, end)
        && let Some(sign) = ["+", "-"]
            .into_iter()
            .zip(["including", "excluding"])
            .find_map(|(sign, own)| is_word(&tokens[verb], own).then_some(sign))
    {
        let what = next(tokens, verb + 1)?;
        name.push_str(&format!(" {sign}{}", word(what)?));
        end = what + 1;
    }
    let span = tokens[place].span;
    let mut new = vec![Token::make_word(&name, Some('"'))];
    for (part, number) in parts.iter().zip(0..) {
        new.extend((number > 0).then_some(Token::Period));
        new.push(Token::make_word(part, Some('"')));
    }
    Some((new.into_iter().map(|token| TokenWithSpan { token, span }).collect(), end))
}

/// The table that such an element names, and what is taken from it; `None` if it is a column.
///
/// # Errors
/// The word that says nothing.
pub(crate) fn of_column(column: &ColumnDef) -> Option<Result<(&ObjectName, Included), String>> {
    let options = column.name.value.strip_prefix(LIKE)?;
    let DataType::Custom(table, _) = &column.data_type else { return None };
    if let Some(option) = column.options.first() {
        return Some(Err(option.option.to_string()));
    }
    let mut included = Included::default();
    for option in options.split_whitespace() {
        let (sign, word) = option.split_at(1);
        if !included.set(word, sign == "+") {
            return Some(Err(word.to_owned()));
        }
    }
    Some(Ok((table, included)))
}

/// The text of a statement, with such elements as they were written.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let marker = format!("\"{LIKE}");
    let mut parts = text.split(&marker);
    shown.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (options, rest) = part.split_once('"').unwrap_or((part, ""));
        let end = rest.find([',', ')']).unwrap_or(rest.len());
        shown.push_str(&format!("LIKE{}", &rest[..end]));
        shown.push_str(&options.replace(" +", " INCLUDING ").replace(" -", " EXCLUDING "));
        shown.push_str(&rest[end..]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Statement;
    use datafusion::sql::sqlparser::ast;

    #[test]
    fn elements_of_tables_are_read() {
        let text =
            "CREATE TEMP TABLE t (LIKE public.s INCLUDING ALL EXCLUDING INDEXES, x int CHECK (n LIKE 'a'))";
        let parsed = Statement::parse(&format!("{text}; SELECT 1 LIKE (2), like FROM t")).unwrap();
        let ast::Statement::CreateTable(create) = &*parsed[0].ast else { panic!("{text}") };
        let (table, included) = of_column(&create.columns[0]).unwrap().unwrap();
        assert_eq!(table.to_string(), "\"public\".\"s\"");
        let all =
            Included { comments: true, constraints: true, defaults: true, identity: true, indexes: false };
        assert_eq!(included, all);
        assert!(create.temporary && of_column(&create.columns[1]).is_none());
        assert_eq!(
            parsed[0].shown(),
            "CREATE TEMPORARY TABLE t (LIKE \"public\".\"s\" INCLUDING all EXCLUDING indexes, x INT CHECK (n LIKE 'a'))"
        );
        let wrong = Statement::parse("CREATE TABLE t (LIKE s INCLUDING NONSENSE)").unwrap();
        let ast::Statement::CreateTable(create) = &*wrong[0].ast else { panic!("no table") };
        assert_eq!(of_column(&create.columns[0]), Some(Err("nonsense".to_owned())));
    }
}
