//! Statements: parsed, but not looked at.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::latest_on;
use crate::shape::Shape;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
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
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
        let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEPTH_MAX);
        let mut shape = None;
        let parsed = tokens.map_err(ParserError::from).and_then(|tokens| {
            shape = Shape::of(&tokens).map(Arc::new);
            parser.with_tokens_with_locations(latest_on::rewritten(tokens)).parse_statements()
        });
        let parsed = parsed.map_err(|error| SqlError::from(error).placed_in(text))?;
        let text: Arc<str> = text.into();
        if parsed.len() > 1 {
            shape = None;
        }
        Ok(parsed.into_iter().map(|ast| Self { ast, text: text.clone(), shape: shape.clone() }).collect())
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
        self.ast.to_string()
    }
}
