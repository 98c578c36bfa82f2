//! The statement, as PostgreSQL's grammar has it: the parser knows a part of it only, and takes what follows the semicolon
//! for rows.

use crate::parser_dialect::SqlDialect;
use crate::token_reader::{TokenReader, is_word, text_of};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// A COPY as it is written.
#[derive(Debug, Clone)]
pub(crate) struct CopyStatement {
    pub(crate) subject: CopySubject,
    /// Whether rows go into the table.
    pub(crate) is_from: bool,
    pub(crate) end: CopyEnd,
    pub(crate) options: Vec<WrittenOption>,
    /// Whether only some of the rows are wanted.
    pub(crate) has_condition: bool,
    /// The text of all of it.
    pub(crate) text: String,
}

/// What is copied.
#[derive(Debug, Clone)]
pub(crate) enum CopySubject {
    /// A table, or some of its columns.
    Table { name: ObjectName, columns: Vec<Ident> },
    /// The rows of a statement, given by its tokens.
    Query(Vec<TokenWithSpan>),
}

/// Where rows come from, or go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    Client,
    /// A file of the server, or a folder.
    File(String),
    /// A program of the server.
    Program,
}

/// An option as it is written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenOption {
    /// In small letters.
    pub(crate) name: String,
    pub(crate) value: OptionValue,
    pub(crate) place: Location,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptionValue {
    None,
    /// A text, a word or a number.
    Text(String),
    /// All columns.
    Star,
    /// Names of columns.
    List(Vec<String>),
}

/// Whether tokens are those of a COPY.
pub(crate) fn begins_copy(tokens: &[TokenWithSpan]) -> bool {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
    first.is_some_and(|first| is_word(&first.token, "copy"))
}

impl CopyStatement {
    /// Reads the tokens of one statement.
    pub(crate) fn parse(tokens: &[TokenWithSpan], depth_max: usize) -> Result<Self, ParserError> {
        let text = tokens.iter().map(|token| token.token.to_string()).collect::<String>().trim().to_owned();
        let words = |from: usize| {
            (from..tokens.len()).find(|number| !matches!(tokens[*number].token, Token::Whitespace(_)))
        };
        let behind_copy = words(0).map_or(tokens.len(), |copy| copy + 1);
        let dialect = SqlDialect;
        let parser = |from: usize| {
            let parser = Parser::new(&dialect).with_recursion_limit(depth_max);
            parser.with_tokens_with_locations(tokens[from..].to_vec())
        };
        let query = words(behind_copy).filter(|number| tokens[*number].token == Token::LParen);
        let mut options = Vec::new();
        let (mut reader, subject) = match query {
            Some(open) => {
                let close = closing(tokens, open)
                    .ok_or_else(|| ParserError::ParserError("syntax error at end of input".to_owned()))?;
                (TokenReader(parser(close + 1)), CopySubject::Query(tokens[open + 1..close].to_vec()))
            }
            None => {
                let mut reader = TokenReader(parser(behind_copy));
                let place = reader.place();
                // `COPY BINARY t`; a table may be called so, too.
                let next_is_name = matches!(reader.0.peek_nth_token(1).token, Token::Word(word)
                    if !matches!(word.keyword, Keyword::FROM | Keyword::TO));
                if next_is_name && reader.takes("binary") {
                    options.push(WrittenOption {
                        name: "binary".to_owned(),
                        value: OptionValue::None,
                        place,
                    });
                }
                let name = reader.0.parse_object_name(false)?;
                let columns = reader.0.parse_parenthesized_column_list(IsOptional::Optional, false)?;
                (reader, CopySubject::Table { name, columns })
            }
        };
        let is_query = matches!(subject, CopySubject::Query(_));
        let is_from = !is_query && reader.takes("from");
        if !is_from && !reader.takes("to") {
            return Err(reader.unexpected());
        }
        let end = if reader.takes("program") {
            reader.text()?;
            CopyEnd::Program
        } else if reader.takes("stdin") || reader.takes("stdout") {
            CopyEnd::Client
        } else {
            CopyEnd::File(reader.text()?)
        };
        let place = reader.place();
        let has_using = reader.takes("using");
        if reader.takes("delimiters") {
            let value = OptionValue::Text(reader.text()?);
            options.push(WrittenOption { name: "delimiter".to_owned(), value, place });
        } else if has_using {
            return Err(reader.unexpected());
        }
        reader.takes("with");
        match reader.0.consume_token(&Token::LParen) {
            true => reader.options(&mut options)?,
            false => reader.old_options(&mut options)?,
        }
        let has_condition = is_from && reader.takes("where");
        match reader.0.peek_token().token {
            token if has_condition || token == Token::EOF => {
                Ok(Self { subject, is_from, end, options, has_condition, text })
            }
            _ => Err(reader.unexpected()),
        }
    }
}

/// The parenthesis that closes one.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..tokens.len()).find(|number| {
        match tokens[*number].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => return false,
        }
        depth == 0
    })
}

impl TokenReader<'_> {
    /// `name value, name value)`
    fn options(&mut self, options: &mut Vec<WrittenOption>) -> Result<(), ParserError> {
        loop {
            let (place, mut name) = (self.place(), self.name()?);
            if name == "partition" && self.takes("by") {
                name = "partition_by".to_owned();
            }
            let value = match self.0.peek_token().token {
                Token::Mul => {
                    self.0.next_token();
                    OptionValue::Star
                }
                Token::LParen => {
                    self.0.next_token();
                    let names = self.names()?;
                    if !self.0.consume_token(&Token::RParen) {
                        return Err(self.unexpected());
                    }
                    OptionValue::List(names)
                }
                Token::Number(digits, _) => {
                    self.0.next_token();
                    OptionValue::Text(digits)
                }
                Token::Word(_) => OptionValue::Text(self.name()?),
                other if text_of(&other).is_some() => OptionValue::Text(self.text()?),
                _ => OptionValue::None,
            };
            options.push(WrittenOption { name, value, place });
            if self.0.consume_token(&Token::RParen) {
                return Ok(());
            }
            if !self.0.consume_token(&Token::Comma) {
                return Err(self.unexpected());
            }
        }
    }

    /// The options of before PostgreSQL 9.0: words one after the other.
    fn old_options(&mut self, options: &mut Vec<WrittenOption>) -> Result<(), ParserError> {
        loop {
            let place = self.place();
            let plain = ["binary", "csv", "freeze", "header"];
            let with_text = ["delimiter", "null", "quote", "escape", "encoding"];
            let (name, value) = if let Some(name) = plain.into_iter().find(|name| self.takes(name)) {
                (name, OptionValue::None)
            } else if let Some(name) = with_text.into_iter().find(|name| self.takes(name)) {
                if name != "encoding" {
                    self.takes("as");
                }
                (name, OptionValue::Text(self.text()?))
            } else if self.takes("force") {
                let name = if self.takes("quote") {
                    "force_quote"
                } else if self.takes("not") {
                    if !self.takes("null") {
                        return Err(self.unexpected());
                    }
                    "force_not_null"
                } else if self.takes("null") {
                    "force_null"
                } else {
                    return Err(self.unexpected());
                };
                let is_star = name == "force_quote" && self.0.consume_token(&Token::Mul);
                (name, if is_star { OptionValue::Star } else { OptionValue::List(self.names()?) })
            } else {
                return Ok(());
            };
            options.push(WrittenOption { name: name.to_owned(), value, place });
        }
    }
}
