//! `PREPARE name [(types)] AS statement`, as it is written: the statement may have forms that the parser does not know.

use crate::parser_dialect::SqlDialect;
use crate::token_reader::{TokenReader, is_word};
use datafusion::sql::sqlparser::ast::DataType;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name of a statement and the types of its parameters. The statement itself is beside it, as tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrepareStatement {
    pub(crate) name: String,
    /// The types of the first parameters.
    pub(crate) types: Vec<DataType>,
}

/// Whether tokens are those of such a statement.
pub(crate) fn begins_prepare(tokens: &[TokenWithSpan]) -> bool {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    first.is_some_and(|first| is_word(&first.token, "prepare"))
}

impl PrepareStatement {
    /// Reads the tokens of one statement. Returns it with the tokens of the statement that it keeps.
    pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<(Self, Vec<TokenWithSpan>), ParserError> {
        let dialect = SqlDialect;
        let mut reader = TokenReader(Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec()));
        reader.expect("prepare")?;
        let name = reader.name()?;
        let mut types = Vec::new();
        if reader.0.consume_token(&Token::LParen) {
            types = reader.0.parse_comma_separated(Parser::parse_data_type)?;
            reader.0.expect_token(&Token::RParen)?;
        }
        reader.expect("as")?;
        // The parser skips blanks, so its position is none in `tokens`. The place in the text is the same in both.
        let place = reader.place();
        let inner = tokens.iter().position(|token| token.span.start == place).unwrap_or(tokens.len());
        Ok((Self { name, types }, tokens[inner..].to_vec()))
    }
}
