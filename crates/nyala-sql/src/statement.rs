//! Statements: parsed, but not looked at.

use crate::as_of;
use crate::asof_join;
use crate::distinct_from;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::latest_on;
use crate::numbers;
use crate::shape::Shape;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
use std::sync::Arc;

/// The longest text of a request, bytes.
pub const TEXT_MAX_BYTES: usize = 16 << 20;
/// How deeply expressions and queries may be nested.
const DEPTH_MAX: usize = 100;

/// One statement.
#[derive(Debug, Clone)]
pub struct Statement {
    pub(crate) ast: ast::Statement,
    /// The text of the request that it came with, for positions in errors.
    pub(crate) text: Arc<str>,
    /// Whether it is `UPSERT INTO`, which Kudu's and Impala's users write: an INSERT that replaces rows that exist.
    pub(crate) is_upsert: bool,
    /// The moment of the past that it asks for.
    pub(crate) as_of: Option<ast::Expr>,
    /// Its shape, if it is the only statement of the text and plans of its shape can be kept.
    pub(crate) shape: Option<Arc<Shape>>,
}

/// Prepared statements to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten<'a> {
    /// All of the session.
    All,
    /// One, by its name.
    One(&'a str),
}

impl Statement {
    /// The statements of a text. An empty text has none.
    ///
    /// # Errors
    /// A syntax error, with its position.
    pub fn parse(text: &str) -> SqlResult<Vec<Self>> {
        if text.len() > TEXT_MAX_BYTES {
            let message =
                format!("the text of a request may have {TEXT_MAX_BYTES} bytes, not {}", text.len());
            return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, message));
        }
        let (mut parsed, mut shape) = (Vec::new(), None);
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
        let done = tokens.map_err(ParserError::from).and_then(|tokens| {
            shape = Shape::of(&tokens).map(Arc::new);
            let is_repaired = tokens.iter().any(is_distinct);
            parsed = statements(numbers::rewritten(latest_on::rewritten(asof_join::rewritten(tokens))))?;
            if is_repaired {
                parsed.iter_mut().for_each(|own| distinct_from::repair(&mut own.ast));
            }
            Ok(())
        });
        done.map_err(|error: ParserError| SqlError::from(error).placed_in(text))?;
        let text: Arc<str> = text.into();
        if parsed.len() > 1 || parsed.iter().any(|own| own.as_of.is_some()) {
            shape = None;
        }
        let statement = |Parsed { ast, is_upsert, as_of }| {
            let (text, shape) = (text.clone(), shape.clone());
            Self { ast, text, is_upsert, as_of, shape }
        };
        Ok(parsed.into_iter().map(statement).collect())
    }

    /// Which prepared statements its client wants to be forgotten; whoever keeps them does that.
    pub fn forgotten(&self) -> Option<Forgotten<'_>> {
        match &self.ast {
            ast::Statement::Discard { object_type: ast::DiscardObject::ALL } => Some(Forgotten::All),
            ast::Statement::Deallocate { name, .. } => Some(match name.value.eq_ignore_ascii_case("all") {
                true if name.quote_style.is_none() => Forgotten::All,
                _ => Forgotten::One(&name.value),
            }),
            _ => None,
        }
    }

    /// Its text, as lists of running queries show it.
    pub fn shown(&self) -> String {
        let text = self.ast.to_string();
        match (text.strip_prefix("INSERT").filter(|_| self.is_upsert), &self.as_of) {
            (Some(rest), _) => format!("UPSERT{rest}"),
            (None, Some(moment)) => format!("{text} AS OF {moment}"),
            (None, None) => text,
        }
    }
}

/// A statement, and what the parser does not know of it.
struct Parsed {
    ast: ast::Statement,
    is_upsert: bool,
    as_of: Option<ast::Expr>,
}

/// The statements of a text.
fn statements(tokens: Vec<TokenWithSpan>) -> Result<Vec<Parsed>, ParserError> {
    let parser = || Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
    if !tokens.iter().any(is_upsert) && !as_of::may_be_in(&tokens) {
        let statements = parser().with_tokens_with_locations(tokens).parse_statements()?;
        let plain = |ast| Parsed { ast, is_upsert: false, as_of: None };
        return Ok(statements.into_iter().map(plain).collect());
    }
    let mut statements = Vec::new();
    for part in tokens.split(|token| token.token == Token::SemiColon) {
        let mut part = part.to_vec();
        let first = part.iter_mut().find(|token| !matches!(token.token, Token::Whitespace(_)));
        let Some(first) = first.filter(|token| token.token != Token::EOF) else { continue };
        let is_upsert = is_upsert(first);
        if is_upsert {
            // The parser does not know the word: it reads INSERT in its place.
            let insert = Word { value: "INSERT".to_owned(), quote_style: None, keyword: Keyword::INSERT };
            *first = TokenWithSpan { token: Token::Word(insert), span: first.span };
        }
        let as_of = as_of::taken(&mut part, DEPTH_MAX);
        let mut parser = parser().with_tokens_with_locations(part);
        for ast in parser.parse_statements()? {
            statements.push(Parsed { ast, is_upsert, as_of: as_of.clone() });
        }
    }
    Ok(statements)
}

fn is_distinct(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == Keyword::DISTINCT)
}

fn is_upsert(token: &TokenWithSpan) -> bool {
    latest_on::is_word(token, "upsert")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upsert_is_read_as_an_insert() {
        let text = "UPSERT INTO t VALUES (1); SELECT 'upsert'; upsert into t (a) select 2;";
        let statements = Statement::parse(text).unwrap();
        assert_eq!(statements.iter().map(|own| own.is_upsert).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(statements[0].shown(), "UPSERT INTO t VALUES (1)");
        assert_eq!(Statement::parse("UPSERT INTO").unwrap_err().code, SqlState::SYNTAX_ERROR);
        assert_eq!(Statement::parse(" ; ").unwrap().len(), 0);
    }

    #[test]
    fn as_of_is_a_moment_only_at_the_end() {
        let moment = |text: &str| {
            let statements = Statement::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            statements.into_iter().map(|own| own.as_of.map(|own| own.to_string())).collect::<Vec<_>>()
        };
        let text = "SELECT 1 AS OF '2026-01-01'; select 2; SELECT 3 as of now() - interval '5 minutes' ;";
        let shown = moment(text);
        assert_eq!(shown, [Some("'2026-01-01'".into()), None, Some("now() - INTERVAL '5 minutes'".into())]);
        for text in
            ["SELECT 1 AS of", "SELECT a AS of, b FROM t", "SELECT a AS of FROM t", "SELECT a AS \"of\""]
        {
            assert_eq!(moment(text), [None], "{text}");
        }
        assert_eq!(moment("SELECT a AS of FROM t AS OF $1"), [Some("$1".into())]);
    }
}
