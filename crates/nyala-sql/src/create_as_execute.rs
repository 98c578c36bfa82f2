//! `CREATE TABLE … AS EXECUTE name (…)`, which the parser does not know: it reads a query of a function that nobody can have instead.
//! `CREATE TABLE … AS (WITH …)`, which it reads without the parentheses. And `CREATE TABLE t (a, b) AS …`, whose columns it reads with
//! a type that nobody can have.

use crate::identifier::folded;
use crate::keyword::is_no_column;
use crate::latest_on::{is_word, next};
use datafusion::sql::sqlparser::ast::{
    ColumnDef, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectNamePart, Query, SetExpr,
    TableFactor,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The schema of that function.
const EXECUTE: &str = "\u{0}execute";
/// The type of columns that have that of the query.
const OF_QUERY: &str = "\u{0}of_query";

/// The tokens of a text without `AS EXECUTE` of tables that are created.
pub(crate) fn rewritten(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut begin = 0;
    while let Some(first) = next(&tokens, begin) {
        let end = (first..tokens.len()).find(|number| tokens[*number].token == Token::SemiColon);
        let mut end = end.unwrap_or(tokens.len());
        let names = named_columns(&tokens, first, end);
        for name in names.iter().rev() {
            let span = tokens[*name].span;
            tokens.insert(name + 1, TokenWithSpan { token: Token::make_word(OF_QUERY, Some('"')), span });
        }
        end += names.len();
        begin = end + 1;
        let creates = is_word(&tokens[first], "create") && creates_table(&tokens, first + 1);
        if creates && let Some((open, close)) = query_in_parentheses(&tokens, first, end) {
            // The parser does not know WITH there.
            tokens[open].token = Token::Whitespace(Whitespace::Space);
            tokens[close].token = Token::Whitespace(Whitespace::Space);
        }
        let executed = (first..end).filter(|_| creates).find_map(|number| {
            let following = next(&tokens, number + 1).filter(|_| is_word(&tokens[number], "as"))?;
            (following < end && is_word(&tokens[following], "execute")).then_some(following)
        });
        if let Some(executed) = executed {
            let span = tokens[executed].span;
            let word = |word| Token::make_word(word, None);
            let query = [
                word("SELECT"),
                Token::Mul,
                word("FROM"),
                Token::make_word(EXECUTE, Some('"')),
                Token::Period,
            ];
            begin += query.len() - 1;
            tokens.splice(executed..=executed, query.into_iter().map(|token| TokenWithSpan { token, span }));
        }
    }
    tokens
}

/// Whether the words behind CREATE are those of a table, temporary or not.
fn creates_table(tokens: &[TokenWithSpan], mut from: usize) -> bool {
    while let Some(place) = next(tokens, from) {
        if is_word(&tokens[place], "table") {
            return true;
        }
        if !["temp", "temporary", "local", "global"].iter().any(|word| is_word(&tokens[place], word)) {
            return false;
        }
        from = place + 1;
    }
    false
}

/// Where the names of columns stand that a table gets beside a query: they have no types.
fn named_columns(tokens: &[TokenWithSpan], first: usize, end: usize) -> Vec<usize> {
    let mut names = Vec::new();
    let is_query = |place: usize| is_word(&tokens[place], "as");
    let is_created = is_word(&tokens[first], "create") && creates_table(tokens, first + 1);
    let open = (first..end).find(|place| tokens[*place].token == Token::LParen);
    let Some(mut place) = open.filter(|open| is_created && !(first..*open).any(is_query)) else {
        return names;
    };
    loop {
        let Some(name) = next(tokens, place + 1) else { return Vec::new() };
        let Some(behind) = next(tokens, name + 1) else { return Vec::new() };
        names.push(name);
        match (&tokens[name].token, &tokens[behind].token) {
            // Other words begin a constraint.
            (Token::Word(own), _) if own.quote_style.is_none() && is_no_column(&own.value.to_lowercase()) => {
                return Vec::new();
            }
            (Token::Word(_), Token::Comma) => place = behind,
            (Token::Word(_), Token::RParen) if (behind..end).any(is_query) => return names,
            _ => return Vec::new(),
        }
    }
}

/// The names of the columns of a table that have the types of a query; `None` if one has another.
pub(crate) fn names_beside_query(columns: &[ColumnDef]) -> Option<Vec<&Ident>> {
    let name = |column: &'_ ColumnDef| match &column.data_type {
        DataType::Custom(name, _) => match &name.0[..] {
            [ObjectNamePart::Identifier(name)] => name.value == OF_QUERY && column.options.is_empty(),
            _ => false,
        },
        _ => false,
    };
    columns.iter().all(name).then(|| columns.iter().map(|column| &column.name).collect())
}

/// The parentheses around a query that begins with WITH, of which a table is made and that is the end of its statement.
fn query_in_parentheses(tokens: &[TokenWithSpan], first: usize, end: usize) -> Option<(usize, usize)> {
    let is_open = |place: &usize| tokens[*place].token == Token::LParen;
    let open = (first..end).find_map(|place| {
        is_word(&tokens[place], "as").then(|| next(tokens, place + 1)).flatten().filter(is_open)
    })?;
    next(tokens, open + 1).filter(|place| is_word(&tokens[*place], "with"))?;
    let mut depth = 0;
    let close = (open..end).find(|place| {
        match tokens[*place].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let is_end =
        next(tokens, close + 1).is_none_or(|place| place >= end || tokens[place].token == Token::EOF);
    is_end.then_some((open, close))
}

/// The name of the statement whose rows a table gets, and the values that it is executed with; `None` if it gets those of a query.
pub(crate) fn executed(query: &Query) -> Option<(String, Vec<Expr>)> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [from] = &select.from[..] else { return None };
    let TableFactor::Table { name, args, .. } = &from.relation else { return None };
    let [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(name)] = &name.0[..] else {
        return None;
    };
    if schema.value != EXECUTE {
        return None;
    }
    let value = |own: &FunctionArg| match own {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(own)) => Some(own.clone()),
        _ => None,
    };
    let values = args.iter().flat_map(|own| &own.args).map(value).collect::<Option<Vec<_>>>()?;
    Some((folded(name), values))
}

/// The text of a statement, with `AS EXECUTE` and columns as they were written.
pub(crate) fn shown(text: &str) -> String {
    let text = text.replace(&format!("SELECT * FROM \"{EXECUTE}\"."), "EXECUTE ");
    text.replace(&format!(" \"{OF_QUERY}\""), "")
}

#[cfg(test)]
mod tests {
    use crate::Statement;

    #[test]
    fn only_tables_are_created_so() {
        let text = "CREATE TABLE t AS EXECUTE p(1, 'x')";
        let parsed = Statement::parse(&format!("{text}; SELECT 1 AS execute")).unwrap();
        assert_eq!(parsed[0].shown(), text);
        assert_eq!(parsed[1].shown(), "SELECT 1 AS execute");
        let text = "CREATE TEMPORARY TABLE t AS EXECUTE p(1)";
        assert_eq!(Statement::parse(text).unwrap()[0].shown(), text);
    }

    #[test]
    fn columns_have_names_and_the_types_of_the_query() {
        for text in [
            "CREATE TABLE s.t (a, \"B\") AS SELECT 1, 2",
            "CREATE TABLE IF NOT EXISTS t (a) AS SELECT 1",
            "CREATE TABLE t (time, value, \"like\") AS SELECT 1, 2, 3",
            "CREATE TABLE t (a) AS EXECUTE p",
        ] {
            let parsed = Statement::parse(&format!("{text}; SELECT (a), b AS c")).unwrap();
            assert_eq!(parsed[0].shown(), text);
            assert_eq!(parsed[1].shown(), "SELECT (a), b AS c");
        }
        for text in [
            "CREATE TABLE t (a, b)",
            "CREATE TABLE t (a, b INT) AS SELECT 1, 2",
            "CREATE TABLE t (a,) AS SELECT 1",
        ] {
            let refused = Statement::parse(text);
            assert!(refused.is_err(), "{text}: {:?}", refused.map(|own| own[0].shown()));
        }
    }

    #[test]
    fn queries_in_parentheses_may_begin_with_with() {
        let text = "CREATE TABLE t AS (WITH a AS (SELECT 1) SELECT * FROM a) ; SELECT (1)";
        let parsed = Statement::parse(text).unwrap();
        assert_eq!(parsed[0].shown(), "CREATE TABLE t AS WITH a AS (SELECT 1) SELECT * FROM a");
        assert_eq!(parsed[1].shown(), "SELECT (1)");
        let text = "CREATE TABLE t AS (SELECT 1 AS a) UNION ALL (SELECT 2)";
        assert_eq!(Statement::parse(text).unwrap()[0].shown(), text);
    }
}
