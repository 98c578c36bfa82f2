//! Statements: parsed, but not looked at.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::latest_on;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

/// The longest text of a request, bytes.
pub const TEXT_MAX_BYTES: usize = 16 << 20;
/// How deeply expressions and queries may be nested.
const DEPTH_MAX: usize = 100;

/// One statement.
#[derive(Debug, Clone)]
pub struct Statement {
    pub(crate) ast: ast::Statement,
    /// The text of the request that it came with, for positions in errors.
    pub(crate) text: std::sync::Arc<str>,
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
        let parsed = tokens.map_err(ParserError::from).and_then(|tokens| {
            parser.with_tokens_with_locations(latest_on::rewritten(tokens)).parse_statements()
        });
        let parsed = parsed.map_err(|error| SqlError::from(error).placed_in(text))?;
        let text: std::sync::Arc<str> = text.into();
        Ok(parsed.into_iter().map(|ast| Self { ast, text: text.clone() }).collect())
    }

    /// Its text, as lists of running queries show it.
    pub fn shown(&self) -> String {
        self.ast.to_string()
    }
}
