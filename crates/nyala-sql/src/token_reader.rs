//! Reads statements that the parser does not know, or knows a part of only, token by token.

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
#[cfg(test)]
use {
    crate::parser_dialect::SqlDialect,
    datafusion::sql::sqlparser::tokenizer::{TokenWithSpan, Tokenizer},
};

/// What is left of a statement.
pub(crate) struct TokenReader<'a>(pub(crate) Parser<'a>);

impl TokenReader<'_> {
    pub(crate) fn place(&self) -> Location {
        self.0.peek_token().span.start
    }

    /// Takes a word if it is the next one.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let is_next = is_word(&self.0.peek_token().token, word);
        if is_next {
            self.0.next_token();
        }
        is_next
    }

    /// Takes a word that must be there.
    pub(crate) fn expect(&mut self, word: &str) -> Result<(), ParserError> {
        if self.takes(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// A text in quotes.
    pub(crate) fn text(&mut self) -> Result<String, ParserError> {
        match text_of(&self.0.peek_token().token) {
            Some(text) => {
                self.0.next_token();
                Ok(text)
            }
            None => Err(self.unexpected()),
        }
    }

    /// A name, in small letters unless it is in quotes.
    pub(crate) fn name(&mut self) -> Result<String, ParserError> {
        match self.0.peek_token().token {
            Token::Word(word) => {
                self.0.next_token();
                Ok(if word.quote_style.is_some() { word.value } else { word.value.to_lowercase() })
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn names(&mut self) -> Result<Vec<String>, ParserError> {
        let mut names = vec![self.name()?];
        while self.0.consume_token(&Token::Comma) {
            names.push(self.name()?);
        }
        Ok(names)
    }

    /// A number without digits behind the point, perhaps with a sign; `None` if there is something else.
    pub(crate) fn integer(&mut self) -> Result<Option<i64>, ParserError> {
        let sign = self.0.peek_token().token;
        let has_sign = matches!(sign, Token::Minus | Token::Plus);
        let Token::Number(digits, _) = self.0.peek_nth_token(usize::from(has_sign)).token else {
            return Ok(None);
        };
        // The least number has no positive one.
        let sign = if sign == Token::Minus { "-" } else { "" };
        let Ok(number) = format!("{sign}{digits}").parse::<i64>() else { return Err(self.unexpected()) };
        (0..=usize::from(has_sign)).for_each(|_| drop(self.0.next_token()));
        Ok(Some(number))
    }

    /// Nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), ParserError> {
        match self.0.peek_token().token {
            Token::EOF => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// The error that the next token cannot stand there.
    pub(crate) fn unexpected(&self) -> ParserError {
        let next = self.0.peek_token();
        ParserError::ParserError(match next.token {
            Token::EOF => "syntax error at end of input".to_owned(),
            token => format!("syntax error at or near \"{token}\"{}", next.span.start),
        })
    }
}

pub(crate) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(own) if own.quote_style.is_none() && own.value.eq_ignore_ascii_case(word))
}

pub(crate) fn text_of(token: &Token) -> Option<String> {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Some(text.clone()),
        Token::DollarQuotedString(text) => Some(text.value.clone()),
        _ => None,
    }
}

/// The statement that a text is when its tokens are rewritten.
#[cfg(test)]
pub(crate) fn parsed_by(rewritten: fn(Vec<TokenWithSpan>) -> Vec<TokenWithSpan>, text: &str) -> String {
    let dialect = SqlDialect;
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().unwrap();
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(rewritten(tokens));
    parser.parse_statement().unwrap().to_string()
}
