//! Splits text into tokens.
//!
//! Clients see the positions in error messages, so the lexer reports the same offsets as InfluxDB, even odd ones: a string
//! starts at the character before its quote, and the end of the text is one character further once a token has run into
//! it. White space and comments are tokens, because the grammar allows them only in some positions.

use std::borrow::Cow;

use super::error::Position;
use super::token::{Kind, keyword};

/// A token, which borrows from the query's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    /// Where it starts, in bytes; past the end of the text at its end.
    pub(crate) offset: usize,
    /// The text of identifiers and literals, without quotes; empty for other tokens.
    raw: &'a str,
    escapes: Escapes,
    /// Whether error messages write a `$` before it.
    dollar: bool,
}

/// How the text of a token differs from the query's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escapes {
    None,
    /// `\n`, `\\`, `\'` and `\"` stand for one character each.
    String,
    /// `\/` stands for a slash.
    Regex,
    /// Line breaks may be carriage returns.
    Whitespace,
}

impl<'a> Token<'a> {
    pub(crate) fn new(kind: Kind, offset: usize, text: &'a str) -> Self {
        Token { kind, offset, raw: text, escapes: Escapes::None, dollar: false }
    }

    /// The text of an identifier or a literal, unescaped.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        match self.escapes {
            Escapes::None => Cow::Borrowed(self.raw),
            Escapes::String => unescape(self.raw).into(),
            Escapes::Regex => self.raw.replace("\\/", "/").into(),
            Escapes::Whitespace => self.raw.replace("\r\n", "\n").replace('\r', "\n").into(),
        }
    }

    /// Whether it is an identifier that means something in this position only, in any case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Identifier && self.text().eq_ignore_ascii_case(word)
    }

    /// The text of a token that cannot contain escapes.
    pub(crate) fn digits(&self) -> &'a str {
        self.raw
    }

    /// The token's name in error messages.
    pub(crate) fn found(&self) -> Cow<'a, str> {
        match self.dollar {
            true => format!("${}", self.text()).into(),
            false if self.raw.is_empty() => Cow::Borrowed(self.kind.text()),
            false => self.text(),
        }
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                // The lexer produces nothing else.
                escaped => escaped.unwrap_or('\\'),
            },
            _ => character,
        });
    }
    plain
}

pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Whether a token has read past the end.
    ended: bool,
}

pub(crate) fn is_identifier_start(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_'
}

pub(crate) fn is_identifier_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// A carriage return is a line break, alone or before a line feed.
fn is_line_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0, ended: false }
    }

    /// Translates a token's offset.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let (mut line, mut character) = (1, 1);
        let mut previous = '\0';
        for (_, current) in self.text.char_indices().take_while(|(index, _)| *index < offset) {
            match current {
                '\n' if previous == '\r' => {}
                '\n' | '\r' => (line, character) = (line + 1, 1),
                _ => character += 1,
            }
            previous = current;
        }
        Position { line, character: character + offset.saturating_sub(self.text.len()) }
    }

    /// The character that follows the last token, which the parser peeks at where a regular expression may start.
    /// Running into the end counts.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let next = self.byte(0);
        self.ended |= next.is_none();
        next
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// The length of the run of bytes from `from` that satisfy `test`.
    fn run(&self, from: usize, test: impl Fn(u8) -> bool) -> usize {
        self.text.as_bytes()[from..].iter().take_while(|byte| test(**byte)).count()
    }

    /// The start of the character before `self.at`, where strings start for InfluxDB.
    fn previous_offset(&self) -> usize {
        let before = &self.text[..self.at];
        before.char_indices().next_back().map_or(
            0,
            |(index, _)| {
                if before.ends_with("\r\n") { index - 1 } else { index }
            },
        )
    }

    fn token(&self, kind: Kind, offset: usize) -> Token<'a> {
        Token::new(kind, offset, "")
    }

    fn symbol(&mut self, kind: Kind, length: usize) -> Token<'a> {
        let offset = self.at;
        self.at += length;
        self.token(kind, offset)
    }

    /// The next token. Never inlined, so that the parser's way to a token that was put back stays short.
    #[inline(never)]
    pub(crate) fn scan(&mut self) -> Token<'a> {
        let offset = self.at;
        let Some(first) = self.byte(0) else {
            let offset = self.text.len() + usize::from(self.ended);
            self.ended = true;
            return self.token(Kind::EndOfInput, offset);
        };
        match first {
            _ if is_whitespace(first) => self.whitespace(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'"' => self.identifier(true),
            b'0'..=b'9' => self.number(),
            b'\'' => {
                let offset = self.previous_offset();
                self.string(offset)
            }
            b'.' if self.byte(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number(),
            b'.' => self.symbol(Kind::Dot, 1),
            b'$' => {
                self.at += 1;
                let token = self.identifier(false);
                let kind = if token.kind == Kind::Identifier { Kind::BoundParameter } else { token.kind };
                Token { kind, offset, dollar: true, ..token }
            }
            b'+' => self.symbol(Kind::Plus, 1),
            b'-' if self.byte(1) == Some(b'-') => self.line_comment(),
            b'-' => self.symbol(Kind::Minus, 1),
            b'*' => self.symbol(Kind::Star, 1),
            b'/' if self.byte(1) == Some(b'*') => self.block_comment(),
            b'/' => self.symbol(Kind::Slash, 1),
            b'%' => self.symbol(Kind::Percent, 1),
            b'&' => self.symbol(Kind::Ampersand, 1),
            b'|' => self.symbol(Kind::Pipe, 1),
            b'^' => self.symbol(Kind::Caret, 1),
            b'=' if self.byte(1) == Some(b'~') => self.symbol(Kind::EqualRegex, 2),
            b'=' => self.symbol(Kind::Equal, 1),
            b'!' if self.byte(1) == Some(b'=') => self.symbol(Kind::NotEqual, 2),
            b'!' if self.byte(1) == Some(b'~') => self.symbol(Kind::NotEqualRegex, 2),
            b'>' if self.byte(1) == Some(b'=') => self.symbol(Kind::GreaterOrEqual, 2),
            b'>' => self.symbol(Kind::Greater, 1),
            b'<' if self.byte(1) == Some(b'=') => self.symbol(Kind::LessOrEqual, 2),
            b'<' if self.byte(1) == Some(b'>') => self.symbol(Kind::NotEqual, 2),
            b'<' => self.symbol(Kind::Less, 1),
            b'(' => self.symbol(Kind::LeftParenthesis, 1),
            b')' => self.symbol(Kind::RightParenthesis, 1),
            b',' => self.symbol(Kind::Comma, 1),
            b';' => self.symbol(Kind::Semicolon, 1),
            b':' if self.byte(1) == Some(b':') => self.symbol(Kind::DoubleColon, 2),
            b':' => self.symbol(Kind::Colon, 1),
            _ => {
                let length = self.text[offset..].chars().next().map_or(1, char::len_utf8);
                self.at += length;
                Token::new(Kind::Illegal, offset, &self.text[offset..self.at])
            }
        }
    }

    fn whitespace(&mut self) -> Token<'a> {
        let offset = self.at;
        self.at += self.run(offset, is_whitespace);
        self.ended |= self.at == self.text.len();
        let raw = &self.text[offset..self.at];
        Token { escapes: Escapes::Whitespace, ..Token::new(Kind::Whitespace, offset, raw) }
    }

    fn line_comment(&mut self) -> Token<'a> {
        let offset = self.at;
        self.at += self.run(offset, |byte| !is_line_break(byte));
        self.ended |= self.at == self.text.len();
        // The line break belongs to the comment.
        match (self.byte(0), self.byte(1)) {
            (Some(b'\r'), Some(b'\n')) => self.at += 2,
            (Some(_), _) => self.at += 1,
            (None, _) => {}
        }
        self.token(Kind::Comment, offset)
    }

    fn block_comment(&mut self) -> Token<'a> {
        let offset = self.at;
        match self.text[offset + 2..].find("*/") {
            Some(length) => {
                self.at = offset + 2 + length + 2;
                self.token(Kind::Comment, offset)
            }
            None => {
                self.at = self.text.len();
                self.ended = true;
                self.token(Kind::Illegal, offset)
            }
        }
    }

    /// A bare or quoted identifier, or a keyword. Of `bare"quoted"` only the quoted part counts.
    fn identifier(&mut self, keywords: bool) -> Token<'a> {
        let offset = self.at;
        self.at += self.run(offset, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if self.byte(0) == Some(b'"') {
            let string_offset = self.previous_offset();
            let mut token = self.string(string_offset);
            if token.kind == Kind::String {
                (token.kind, token.offset) = (Kind::Identifier, offset);
            }
            return token;
        }
        self.ended |= self.at == self.text.len();
        let text = &self.text[offset..self.at];
        match keyword(text) {
            Some(kind) if keywords => self.token(kind, offset),
            _ => Token::new(Kind::Identifier, offset, text),
        }
    }

    /// A string in whatever quotes stand at the cursor.
    fn string(&mut self, offset: usize) -> Token<'a> {
        let bytes = self.text.as_bytes();
        let quote = bytes[self.at];
        self.at += 1;
        let start = self.at;
        let mut escapes = Escapes::None;
        loop {
            self.at += self.run(self.at, |byte| byte != quote && byte != b'\\' && !is_line_break(byte));
            let raw = &self.text[start..self.at];
            match self.byte(0) {
                Some(byte) if byte == quote => {
                    self.at += 1;
                    return Token { escapes, ..Token::new(Kind::String, offset, raw) };
                }
                Some(b'\\') => {
                    let escaped = self.text[self.at + 1..].chars().next();
                    if !matches!(escaped, Some('n' | '\\' | '"' | '\'')) {
                        let text =
                            escaped.map_or("\\\0", |c| &self.text[self.at..self.at + 1 + c.len_utf8()]);
                        return Token::new(Kind::BadEscape, self.at + 1, text);
                    }
                    escapes = Escapes::String;
                    self.at += 2;
                }
                _ => {
                    self.ended |= self.at == bytes.len();
                    return Token { escapes, ..Token::new(Kind::BadString, offset, raw) };
                }
            }
        }
    }

    /// A number, an integer, or digits that a unit follows.
    fn number(&mut self) -> Token<'a> {
        let offset = self.at;
        self.at += self.run(offset, |byte| byte.is_ascii_digit());
        if self.byte(0) == Some(b'.') {
            let fraction = self.run(self.at + 1, |byte| byte.is_ascii_digit());
            let end = if fraction > 0 { self.at + 1 + fraction } else { self.at };
            self.at += 1 + fraction;
            return Token::new(Kind::Number, offset, &self.text[offset..end]);
        }
        let is_unit = |character: char| character.is_ascii_alphabetic() || character == 'µ';
        let rest = &self.text[self.at..];
        let kind = if rest.starts_with(is_unit) {
            self.at += rest.find(|c: char| !is_unit(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
            Kind::DurationValue
        } else {
            Kind::Integer
        };
        Token::new(kind, offset, &self.text[offset..self.at])
    }

    /// A regular expression between slashes; only the parser knows where one is allowed.
    pub(crate) fn scan_regex(&mut self) -> Token<'a> {
        let offset = self.previous_offset();
        let mut end = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut escaped_slash = false;
        loop {
            match bytes.get(end) {
                Some(b'/') => break,
                Some(b'\\') if bytes.get(end + 1) == Some(&b'/') => {
                    escaped_slash = true;
                    end += 2;
                }
                Some(byte) if !is_line_break(*byte) => end += 1,
                _ => {
                    self.ended |= end >= bytes.len();
                    self.at = end.min(bytes.len());
                    return self.token(Kind::BadRegex, offset);
                }
            }
        }
        let text = &self.text[self.at + 1..end];
        self.at = end + 1;
        let escapes = if escaped_slash { Escapes::Regex } else { Escapes::None };
        Token { escapes, ..Token::new(Kind::Regex, offset, text) }
    }
}
