//! The shape of a statement: its tokens without spaces, comments and the values of literals.

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use std::fmt::Write;

/// Longer shapes are not kept.
const SHAPE_MAX_BYTES: usize = 16 << 10;
/// With more literals than this a statement is planned as it is.
const LITERALS_MAX: usize = 256;

/// A statement without its literals.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Its tokens, with a mark for each literal.
    pub(crate) text: String,
    /// Its literals, in order.
    pub(crate) literals: Vec<Literal>,
    /// Whether it has parameters of its own.
    pub(crate) has_parameters: bool,
}

/// A literal of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Literal {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Where it begins.
    pub(crate) place: Location,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number without a fraction.
    Integer,
    /// Any other number.
    Decimal,
    Text,
}

impl Shape {
    /// The shape of the tokens of a text; `None` if it is too long to be kept, or has literals of other kinds.
    pub(crate) fn of(tokens: &[TokenWithSpan]) -> Option<Self> {
        let mut shape =
            Self { text: String::with_capacity(256), literals: Vec::new(), has_parameters: false };
        for TokenWithSpan { token, span } in tokens {
            match token {
                Token::Whitespace(_) | Token::EOF => continue,
                Token::Number(text, false) => {
                    let is_integer = text.bytes().all(|byte| byte.is_ascii_digit());
                    let kind = if is_integer { Kind::Integer } else { Kind::Decimal };
                    shape.text.push_str(if is_integer { "\u{1}i" } else { "\u{1}d" });
                    shape.literals.push(Literal { kind, text: text.clone(), place: span.start });
                }
                Token::SingleQuotedString(text) => {
                    shape.text.push_str("\u{1}t");
                    shape.literals.push(Literal { kind: Kind::Text, text: text.clone(), place: span.start });
                }
                Token::Word(word) => match word.quote_style {
                    // Names in quotes may have any letters, also those that marks are made of.
                    Some(_) => write!(shape.text, "{:?}", word.value).ok()?,
                    None => shape.text.push_str(&word.value),
                },
                Token::Placeholder(name) => {
                    shape.has_parameters = true;
                    shape.text.push_str(name);
                }
                Token::NationalStringLiteral(_)
                | Token::EscapedStringLiteral(_)
                | Token::UnicodeStringLiteral(_)
                | Token::DollarQuotedString(_) => return None,
                other => write!(shape.text, "{other}").ok()?,
            }
            shape.text.push('\u{2}');
            if shape.text.len() > SHAPE_MAX_BYTES || shape.literals.len() > LITERALS_MAX {
                return None;
            }
        }
        Some(shape)
    }
}

impl Literal {
    /// Its value as one of a type, if it means the same when it is compared with a column of that type.
    pub(crate) fn as_type(&self, data_type: &DataType) -> Option<ScalarValue> {
        match (self.kind, data_type) {
            (Kind::Integer, DataType::Int64) => {
                self.text.parse().ok().map(|own| ScalarValue::Int64(Some(own)))
            }
            (Kind::Integer, DataType::UInt64) => {
                // The planner takes the literal for a signed number, unless it is too large for that.
                self.text.parse().ok().map(|own| ScalarValue::UInt64(Some(own)))
            }
            (Kind::Integer, DataType::Float64) => {
                self.text.parse::<i64>().ok().map(|own| ScalarValue::Float64(Some(own as f64)))
            }
            (Kind::Decimal, DataType::Float64) => {
                self.text.parse().ok().map(|own| ScalarValue::Float64(Some(own)))
            }
            (Kind::Text, DataType::Utf8) => Some(ScalarValue::Utf8(Some(self.text.clone()))),
            (Kind::Text, DataType::Timestamp(..)) => ScalarValue::Utf8(Some(self.text.clone()))
                .cast_to(data_type)
                .ok()
                .filter(|own| !own.is_null()),
            _ => None,
        }
    }
}
