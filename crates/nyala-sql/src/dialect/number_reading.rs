//! `to_number`: a text is read by a template as PostgreSQL's `formatting.c` does, letter by letter.

use super::number_template::{Anchor, NumberTemplate, Part, Word};
use crate::error::{SqlError, SqlState};
use crate::relation::decimal::Written;
use crate::row_wise::computed;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// `to_number(text, template)`. The template is a constant, which says how many digits are behind the point.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ToNumber {
    signature: Signature,
}

impl Default for ToNumber {
    fn default() -> Self {
        let types = vec![DataType::Utf8, DataType::Utf8];
        Self { signature: Signature::exact(types, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ToNumber {
    fn name(&self) -> &str {
        "to_number"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        let template = given.scalar_arguments.get(1).copied().flatten();
        let scale = match template {
            None => return Err(SqlError::unsupported("to_number with a template that is no constant").into()),
            Some(own) => match own.try_as_str().flatten() {
                Some(pattern) => NumberTemplate::of(pattern)?.scale(),
                None => 0,
            },
        };
        let data_type = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale.min(30) as i8);
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Decimal128(precision, scale) = *arguments.return_field.data_type() else {
            return Err(SqlError::new(SqlState::INTERNAL, "to_number gives decimals").into());
        };
        computed(self.name(), &arguments, true, &|values| {
            let text = |place: usize| values[place].try_as_str().flatten().unwrap_or_default();
            let digits = Reading::of(&NumberTemplate::of(text(1))?, text(0));
            let number = Written::read(&digits).and_then(|own| own.scaled(scale.unsigned_abs()));
            let number = number.ok_or_else(|| {
                let message = format!("invalid input syntax for type numeric: \"{digits}\"");
                SqlError::new(SqlState::INVALID_TEXT, message)
            })?;
            Ok(ScalarValue::Decimal128(Some(number), precision, scale))
        })
    }
}

/// A text while it is read.
struct Reading<'a> {
    template: &'a NumberTemplate,
    letters: Vec<char>,
    next: usize,
    sign: Option<char>,
    digits: String,
    has_point: bool,
    /// Digits behind the point.
    behind: usize,
}

impl<'a> Reading<'a> {
    /// The digits that a template finds in a text, with their sign.
    fn of(template: &'a NumberTemplate, text: &str) -> String {
        let letters = text.chars().collect();
        let mut own = Self {
            template,
            letters,
            next: 0,
            sign: None,
            digits: String::new(),
            has_point: false,
            behind: 0,
        };
        for part in &template.parts {
            if own.next >= own.letters.len() {
                break;
            }
            own.part(part);
        }
        let digits = own.digits.trim_end_matches('.');
        format!("{}{digits}", own.sign.unwrap_or('+'))
    }

    fn letter(&self) -> Option<char> {
        self.letters.get(self.next).copied()
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Word(Word::Digit | Word::Zero | Word::Point, _) => {
                let is_point = matches!(part, Part::Word(Word::Point, _));
                self.number(is_point);
                self.next += 1;
            }
            Part::Word(Word::Comma, _) => {
                if self.letter() == Some(',') {
                    self.next += 1;
                }
            }
            Part::Word(Word::Minus | Word::Plus | Word::Sign, _) => match self.letter() {
                Some(sign @ ('-' | '+')) => {
                    self.sign = Some(sign);
                    self.next += 1;
                }
                _ => self.skip(1),
            },
            Part::Word(Word::Currency, _) => self.skip(1),
            Part::Word(Word::Ordinal, _) => self.skip(2),
            Part::Word(..) => {}
            Part::Letter(_) => self.skip(1),
        }
    }

    /// Leaves out letters that are no part of a number.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if self.letter().is_some_and(|own| !own.is_ascii_digit() && !".,+-".contains(own)) {
                self.next += 1;
            }
        }
    }

    fn number(&mut self, is_point: bool) {
        if self.digits.is_empty() {
            while self.letter() == Some(' ') {
                self.next += 1;
            }
            if self.sign.is_none() && !is_point {
                match self.letter() {
                    Some(sign @ ('-' | '+')) => {
                        self.sign = Some(sign);
                        self.next += 1;
                    }
                    Some('<') if self.template.has_bracket => {
                        self.sign = Some('-');
                        self.next += 1;
                    }
                    _ => {}
                }
            }
        }
        let is_read = match self.letter() {
            Some(digit) if digit.is_ascii_digit() => {
                if self.has_point && self.behind == self.template.scale() {
                    return;
                }
                self.digits.push(digit);
                self.behind += usize::from(self.has_point);
                true
            }
            Some('.') if self.template.has_point && !self.has_point => {
                self.digits.push('.');
                self.has_point = true;
                true
            }
            _ => false,
        };
        if self.sign.is_some() || self.digits.is_empty() {
            return;
        }
        // A sign behind the last digit.
        let following = self.letters.get(self.next + 1).copied();
        if self.template.anchor != Anchor::None && is_read {
            if let Some(sign @ ('-' | '+')) = following {
                self.sign = Some(sign);
                self.next += 1;
            }
        } else if !is_read
            && !self.template.has_plus
            && !self.template.has_minus
            && let Some(sign @ ('-' | '+')) = self.letter()
        {
            self.sign = Some(sign);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_texts() {
        let cases = [
            ("12,454.8-", "99G999D9S", "-12454.8"),
            ("-12", "999", "-12"),
            (" 1.5", "9.99", "+1.5"),
            ("$1,234", "L9,999", "+1234"),
            ("<12>", "99PR", "-12"),
            ("12-", "99MI", "-12"),
            ("1a2", "9\"x\"9", "+12"),
        ];
        for (text, pattern, expected) in cases {
            let template = NumberTemplate::of(pattern).unwrap();
            assert_eq!(Reading::of(&template, text), expected, "{text} {pattern}");
        }
    }
}
