//! Parses tokens to statements, by recursive descent.
//!
//! The order in which tokens are read and put back decides the text and position of error messages, so the parser keeps
//! InfluxDB's order. That is why some parts look clumsy (white space that matters after a source, a list that a comment
//! ends). The depth is limited, see [`super::MAXIMUM_DEPTH`].

mod admin;
mod alter;
mod correct;
mod create;
mod expr;
mod select;
mod show;
mod source;
mod tokens;

use super::duration::parse_duration;
use super::error::ParseError;
use super::expr::Expr;
use super::lexer::{Lexer, Token};
use super::params::Params;
use super::regex::Regex;
use super::statement::Statement;
use super::token::Kind;

type Result<T> = std::result::Result<T, ParseError>;

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    params: &'a Params,
    /// The last tokens, so that they can be put back.
    ring: [Token<'a>; 3],
    newest: usize,
    put_back: usize,
    /// How deeply parentheses and calls are nested.
    depth: usize,
    subqueries: usize,
    /// All regular expressions that were read.
    pub(crate) regexes: Vec<Regex>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, params: &'a Params) -> Self {
        let nothing = Token::new(Kind::EndOfInput, 0, "");
        Parser {
            lexer: Lexer::new(text),
            params,
            ring: [nothing; 3],
            newest: 0,
            put_back: 0,
            depth: 0,
            subqueries: 0,
            regexes: Vec::new(),
        }
    }

    /// Statements separated by semicolons, up to the end.
    pub(crate) fn query(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        let mut separated = true;
        loop {
            let token = self.next();
            match token.kind {
                Kind::EndOfInput => return Ok(statements),
                Kind::Semicolon => separated = true,
                _ if !separated => return Err(self.unexpected(&token, &[";"])),
                _ => {
                    self.unscan();
                    statements.push(self.statement()?);
                    separated = false;
                }
            }
        }
    }

    pub(crate) fn statement(&mut self) -> Result<Statement> {
        let token = self.next();
        match token.kind {
            Kind::Select => self.select_statement(),
            Kind::Delete => self.delete(),
            Kind::Show => self.show(),
            Kind::Create => self.create(),
            Kind::Drop => self.drop(),
            Kind::Explain => self.explain(),
            Kind::Grant => self.grant(),
            Kind::Revoke => self.revoke(),
            Kind::Alter => self.alter(),
            Kind::Set if self.take_word("QUOTA") => self.set_quota(),
            Kind::Set => self.set_password(),
            Kind::Kill => self.kill_query(),
            // No keywords in InfluxQL, so that they stay usable as names.
            _ if token.is_word("UPDATE") => self.update(),
            _ if token.is_word("UNDO") => self.undo(),
            _ if token.is_word("DRY") && self.take_word("RUN") => self.dry_run(),
            _ => Err(self.unexpected(
                &token,
                &[
                    "SELECT", "DELETE", "SHOW", "CREATE", "DROP", "EXPLAIN", "GRANT", "REVOKE", "ALTER",
                    "SET", "KILL",
                ],
            )),
        }
    }

    /// One expression and nothing after it.
    pub(crate) fn lone_expression(&mut self) -> Result<Expr> {
        let expr = self.expression()?;
        let token = self.next();
        match token.kind {
            Kind::EndOfInput => Ok(expr),
            _ => Err(self.unexpected(&token, &["EOF"])),
        }
    }

    /// The next token, white space and comments included.
    #[inline]
    fn scan(&mut self) -> Token<'a> {
        self.scan_with(Lexer::scan)
    }

    #[inline]
    fn scan_with(&mut self, scan: impl FnOnce(&mut Lexer<'a>) -> Token<'a>) -> Token<'a> {
        if self.put_back > 0 {
            self.put_back -= 1;
        } else {
            self.newest = (self.newest + 1) % self.ring.len();
            let token = scan(&mut self.lexer);
            self.ring[self.newest] = self.bind(token);
        }
        let index = (self.newest + self.ring.len() - self.put_back) % self.ring.len();
        self.ring[index]
    }

    /// Replaces a parameter by its value. A parameter without a value stays, and is refused where it is used.
    #[inline]
    fn bind(&self, token: Token<'a>) -> Token<'a> {
        if token.kind != Kind::BoundParameter {
            return token;
        }
        match self.params.get(&token.text()) {
            Some(param) => Token::new(param.kind, token.offset, &param.text),
            None => token,
        }
    }

    /// Puts the last token back. At most three are kept.
    fn unscan(&mut self) {
        self.put_back += 1;
        debug_assert!(self.put_back <= self.ring.len());
    }

    /// The next token that is neither white space nor comment.
    fn next(&mut self) -> Token<'a> {
        loop {
            let token = self.scan();
            if !matches!(token.kind, Kind::Whitespace | Kind::Comment) {
                return token;
            }
        }
    }

    fn skip_whitespace(&mut self) {
        if self.scan().kind != Kind::Whitespace {
            self.unscan();
        }
    }

    /// Takes the next token if it is of that kind.
    fn take(&mut self, kind: Kind) -> bool {
        let taken = self.next().kind == kind;
        if !taken {
            self.unscan();
        }
        taken
    }

    /// Takes an identifier that is a keyword only in this position, such as `FUTURE`.
    fn take_word(&mut self, word: &str) -> bool {
        let token = self.next();
        let taken = token.is_word(word);
        if !taken {
            self.unscan();
        }
        taken
    }

    fn expect(&mut self, kind: Kind) -> Result<()> {
        self.expect_or(kind, &[kind.text()])
    }

    fn expect_or(&mut self, kind: Kind, expected: &[&str]) -> Result<()> {
        let token = self.next();
        if token.kind == kind { Ok(()) } else { Err(self.unexpected(&token, expected)) }
    }

    fn unexpected(&self, token: &Token<'_>, expected: &[&str]) -> ParseError {
        ParseError::expected(&token.found(), expected, self.lexer.position(token.offset))
    }

    fn error_at(&self, token: &Token<'_>, message: impl Into<String>) -> ParseError {
        ParseError::at(message, self.lexer.position(token.offset))
    }

    fn identifier(&mut self) -> Result<String> {
        let token = self.next();
        match token.kind {
            Kind::Identifier => Ok(token.text().into_owned()),
            _ => Err(self.unexpected(&token, &["identifier"])),
        }
    }

    fn string(&mut self) -> Result<String> {
        let token = self.next();
        match token.kind {
            Kind::String => Ok(token.text().into_owned()),
            _ => Err(self.unexpected(&token, &["string"])),
        }
    }

    /// One or more items, separated by commas.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take(Kind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A duration in nanoseconds; `INF` is 0.
    fn duration(&mut self) -> Result<i64> {
        let token = self.next();
        match token.kind {
            Kind::Inf => Ok(0),
            Kind::DurationValue => {
                parse_duration(token.digits()).map_err(|message| self.error_at(&token, message))
            }
            _ => Err(self.unexpected(&token, &["duration"])),
        }
    }

    fn unsigned(&mut self) -> Result<u64> {
        let token = self.next();
        match token.kind {
            Kind::Integer => token.digits().parse().map_err(|_| {
                self.error_at(
                    &token,
                    format!("strconv.ParseUint: parsing \"{}\": {}", token.digits(), why_not(token.digits())),
                )
            }),
            _ => Err(self.unexpected(&token, &["integer"])),
        }
    }

    /// A replication factor.
    fn replication(&mut self) -> Result<u32> {
        const MAXIMUM: i64 = i32::MAX as i64;
        let token = self.next();
        if token.kind != Kind::Integer {
            return Err(self.unexpected(&token, &["integer"]));
        }
        match token.digits().parse::<i64>() {
            Ok(number @ 1..=MAXIMUM) => Ok(number as u32),
            Ok(number) => {
                Err(self.error_at(&token, format!("invalid value {number}: must be 1 <= n <= {MAXIMUM}")))
            }
            Err(_) => Err(self.error_at(
                &token,
                format!("strconv.Atoi: parsing \"{}\": {}", token.digits(), why_not(token.digits())),
            )),
        }
    }

    /// `KEYWORD n`, or 0 if the keyword is missing.
    fn optional_count(&mut self, keyword: Kind) -> Result<u64> {
        if !self.take(keyword) {
            return Ok(0);
        }
        let token = self.next();
        if token.kind != Kind::Integer {
            return Err(self.unexpected(&token, &["integer"]));
        }
        // A count beyond 64 bits is no limit that could be reached.
        let number = token.digits().parse::<i64>().unwrap_or(i64::MAX);
        u64::try_from(number).map_err(|_| self.error_at(&token, format!("{} must be >= 0", keyword.text())))
    }
}

/// Go's message about digits that are no number of the required size.
fn why_not(digits: &str) -> &'static str {
    if digits.starts_with('-') { "invalid syntax" } else { "value out of range" }
}
