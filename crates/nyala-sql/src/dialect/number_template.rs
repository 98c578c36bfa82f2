//! Templates of numbers, such as `FM9,999.00`, as `to_char` writes them. What is written where is decided as in PostgreSQL's
//! `formatting.c`, digit by digit.

use crate::error::{SqlError, SqlResult, SqlState};

/// What may be in a template, longer words first.
const WORDS: [(&str, Word); 22] = [
    ("EEEE", Word::Exponent),
    ("FM", Word::Fill),
    ("MI", Word::Minus),
    ("PL", Word::Plus),
    ("PR", Word::Bracket),
    ("RN", Word::Roman),
    ("SG", Word::Sign),
    ("SP", Word::Nothing),
    ("TH", Word::Ordinal),
    (",", Word::Comma),
    (".", Word::Point),
    ("0", Word::Zero),
    ("9", Word::Digit),
    ("B", Word::Nothing),
    ("C", Word::Nothing),
    ("D", Word::Point),
    ("G", Word::Comma),
    ("L", Word::Currency),
    ("S", Word::Anchored),
    ("V", Word::Shift),
    ("\"", Word::Quote),
    ("\\", Word::Escape),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Exponent,
    Fill,
    Minus,
    Plus,
    Bracket,
    Roman,
    Sign,
    Nothing,
    Ordinal,
    Comma,
    Point,
    Zero,
    Digit,
    Currency,
    Anchored,
    Shift,
    Quote,
    Escape,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Word(Word, bool),
    Letter(char),
}

/// Where a sign stands that `S` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    None,
    Before,
    Behind,
}

/// A template.
#[derive(Debug, Clone)]
pub(super) struct NumberTemplate {
    pub(super) parts: Vec<Part>,
    /// Digits before and behind the point.
    before: usize,
    behind: usize,
    /// Digits behind `V`.
    shifted: usize,
    pub(super) anchor: Anchor,
    /// How many digits are before the `S`.
    before_anchor: usize,
    is_fill: bool,
    has_zero: bool,
    pub(super) has_point: bool,
    pub(super) has_bracket: bool,
    pub(super) has_plus: bool,
    pub(super) has_minus: bool,
    /// The place of the first zero, and behind the last one.
    zero_begin: usize,
    zero_end: usize,
}

/// A number as text.
pub(super) struct Digits {
    pub(super) is_negative: bool,
    /// With a point if there are digits behind it.
    pub(super) text: String,
}

impl NumberTemplate {
    pub(super) fn of(pattern: &str) -> SqlResult<Self> {
        let mut own = Self {
            parts: parts_of(pattern),
            before: 0,
            behind: 0,
            shifted: 0,
            anchor: Anchor::None,
            before_anchor: 0,
            is_fill: false,
            has_zero: false,
            has_point: false,
            has_bracket: false,
            has_plus: false,
            has_minus: false,
            zero_begin: 0,
            zero_end: 0,
        };
        let mut has_shift = false;
        for part in own.parts.clone() {
            let Part::Word(word, _) = part else { continue };
            let has_sign = own.has_plus || own.has_minus || own.has_bracket;
            match word {
                Word::Digit | Word::Zero if own.has_bracket => {
                    return Err(refused("\"9\" must be ahead of \"PR\""));
                }
                Word::Digit if has_shift => own.shifted += 1,
                Word::Digit if own.has_point => own.behind += 1,
                Word::Digit => own.before += 1,
                Word::Zero => {
                    if !own.has_zero && !own.has_point {
                        own.has_zero = true;
                        own.zero_begin = own.before + 1;
                    }
                    if own.has_point {
                        own.behind += 1;
                    } else {
                        own.before += 1;
                    }
                    own.zero_end = own.before + own.behind;
                }
                Word::Point if own.has_point => return Err(refused("multiple decimal points")),
                Word::Point if has_shift => {
                    return Err(refused("cannot use \"V\" and decimal point together"));
                }
                Word::Point => own.has_point = true,
                Word::Fill => own.is_fill = true,
                Word::Anchored if own.anchor != Anchor::None => {
                    return Err(refused("cannot use \"S\" twice"));
                }
                Word::Anchored if has_sign => {
                    return Err(refused("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                Word::Anchored if own.has_point => own.anchor = Anchor::Behind,
                Word::Anchored => {
                    own.anchor = Anchor::Before;
                    own.before_anchor = own.before;
                }
                Word::Minus | Word::Plus | Word::Sign if own.anchor != Anchor::None => {
                    return Err(refused("cannot use \"S\" and \"MI\"/\"PL\"/\"SG\" together"));
                }
                Word::Minus => own.has_minus = true,
                Word::Plus => own.has_plus = true,
                Word::Sign => {
                    own.has_minus = true;
                    own.has_plus = true;
                }
                Word::Bracket if own.anchor != Anchor::None || own.has_plus || own.has_minus => {
                    return Err(refused("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                Word::Bracket => own.has_bracket = true,
                Word::Shift if own.has_point => {
                    return Err(refused("cannot use \"V\" and decimal point together"));
                }
                Word::Shift => has_shift = true,
                Word::Exponent => return Err(SqlError::unsupported("\"EEEE\" in a template of to_char")),
                Word::Roman => return Err(SqlError::unsupported("\"RN\" in a template of to_char")),
                _ => {}
            }
        }
        own.before += own.shifted;
        Ok(own)
    }

    /// How many digits numbers have behind the point.
    pub(super) fn scale(&self) -> usize {
        self.behind
    }

    /// By which power of ten numbers are multiplied.
    pub(super) fn shift(&self) -> usize {
        self.shifted
    }

    /// A number that was rounded to [`Self::scale`] digits.
    pub(super) fn write(&self, number: &Digits) -> String {
        let length = number.text.find('.').unwrap_or(number.text.len());
        let (text, blanks) = match length > self.before {
            true => {
                let mut marks = "#".repeat(self.before + self.behind + 1).into_bytes();
                marks[self.before] = b'.';
                (marks, 0)
            }
            false => (number.text.clone().into_bytes(), self.before - length),
        };
        let mut writing = Writing::of(self, text, blanks, number.is_negative);
        self.parts.iter().for_each(|part| writing.part(part));
        writing.out
    }
}

fn refused(words: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, words)
}

fn parts_of(pattern: &str) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some(letter) = rest.chars().next() {
        let begins = |word: &str| rest.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
        match WORDS.iter().find(|(word, _)| begins(word)) {
            Some((_, Word::Quote)) => {
                let inner = &rest[1..];
                let end = inner.find('"').unwrap_or(inner.len());
                parts.extend(inner[..end].chars().map(Part::Letter));
                rest = inner.get(end + 1..).unwrap_or_default();
            }
            Some((_, Word::Escape)) if rest[1..].starts_with('"') => {
                parts.push(Part::Letter('"'));
                rest = &rest[2..];
            }
            None | Some((_, Word::Escape)) => {
                parts.push(Part::Letter(letter));
                rest = &rest[letter.len_utf8()..];
            }
            Some((word, own)) => {
                parts.push(Part::Word(*own, letter.is_ascii_lowercase()));
                rest = &rest[word.len()..];
            }
        }
    }
    parts
}

/// A number while it is written.
struct Writing<'a> {
    template: &'a NumberTemplate,
    number: Vec<u8>,
    is_negative: bool,
    /// The places before the first digit.
    blanks: usize,
    anchor: Anchor,
    has_bracket: bool,
    has_sign: bool,
    /// The last digit that is no zero at the end, or the point before such zeros.
    last_relevant: Option<usize>,
    zero_begin: usize,
    count: usize,
    /// The next digit.
    next: usize,
    place: usize,
    is_within: bool,
    out: String,
}

impl<'a> Writing<'a> {
    fn of(template: &'a NumberTemplate, number: Vec<u8>, blanks: usize, is_negative: bool) -> Self {
        let mut anchor = template.anchor;
        let mut has_bracket = template.has_bracket;
        let has_sign = if template.has_plus || template.has_minus {
            template.has_minus
        } else {
            if !is_negative && template.is_fill {
                has_bracket = false;
            }
            if anchor == Anchor::Before && template.before == template.before_anchor {
                anchor = Anchor::Behind;
            }
            !is_negative && template.is_fill && template.anchor == Anchor::None
        };
        let mut last_relevant = None;
        if template.is_fill && template.has_point {
            last_relevant = number.iter().position(|own| *own == b'.').map(|point| {
                number.iter().rposition(|own| *own != b'0').filter(|last| *last > point).unwrap_or(point)
            });
            if let Some(last) = &mut last_relevant
                && template.zero_end > blanks
            {
                *last = (*last).max((number.len() - 1).min(template.zero_end - blanks));
            }
        }
        let count =
            (template.behind + template.before + usize::from(!has_sign && blanks == 0)).saturating_sub(1);
        Self {
            template,
            number,
            is_negative,
            blanks,
            anchor,
            has_bracket,
            has_sign,
            last_relevant,
            zero_begin: template.zero_begin.saturating_sub(1),
            count,
            next: 0,
            place: 0,
            is_within: false,
            out: String::new(),
        }
    }

    fn part(&mut self, part: &Part) {
        let is_fill = self.template.is_fill;
        let (word, is_small) = match part {
            Part::Letter(letter) => return self.out.push(*letter),
            Part::Word(word, is_small) => (*word, *is_small),
        };
        match word {
            Word::Digit | Word::Zero | Word::Point => self.digit(word == Word::Zero),
            Word::Comma if self.is_within => self.out.push(','),
            Word::Comma if is_fill => {}
            Word::Comma | Word::Currency => self.out.push(' '),
            Word::Minus if self.is_negative => self.out.push('-'),
            Word::Plus if !self.is_negative => self.out.push('+'),
            Word::Minus | Word::Plus if is_fill => {}
            Word::Minus | Word::Plus => self.out.push(' '),
            Word::Sign => self.out.push(if self.is_negative { '-' } else { '+' }),
            Word::Ordinal => {
                let is_ordinal =
                    !self.is_negative && !self.template.has_point && self.number.first() != Some(&b'#');
                if is_ordinal {
                    let ending = ordinal(&self.number);
                    self.out.push_str(&if is_small { ending.to_owned() } else { ending.to_uppercase() });
                }
            }
            _ => {}
        }
    }

    /// Whether the number is below 1, and its zero before the point is not asked for.
    fn is_bare(&self) -> bool {
        !self.template.has_zero
            && self.next == 0
            && self.number.first() == Some(&b'0')
            && self.template.behind != 0
    }

    fn ends_at_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.number[last] == b'.')
    }

    fn digit(&mut self, is_zero: bool) {
        let template = self.template;
        self.is_within = false;
        let is_begun = self.place >= self.blanks || template.has_zero && self.zero_begin == self.place;
        if !self.has_sign && is_begun && (!self.is_bare() || self.ends_at_point()) {
            self.sign();
        }
        if self.place < self.blanks && (self.zero_begin > self.place || !template.has_zero) {
            if !template.is_fill {
                self.out.push(' ');
            }
        } else if self.place < self.blanks {
            self.out.push('0');
            self.is_within = true;
        } else {
            match self.number.get(self.next) {
                Some(b'.') => self.out.push('.'),
                Some(digit) => {
                    let is_dropped = self.last_relevant.is_some_and(|last| self.next > last) && !is_zero;
                    if is_dropped {
                        // Zeros at the end are not shown.
                    } else if self.is_bare() {
                        if !template.is_fill {
                            self.out.push(' ');
                        } else if self.ends_at_point() {
                            self.out.push('0');
                        }
                    } else {
                        self.out.push(char::from(*digit));
                        self.is_within = true;
                    }
                }
                None => {}
            }
            if self.next < self.number.len() {
                self.next += 1;
            }
        }
        let mut end = self.count + usize::from(self.blanks > 0) + usize::from(template.has_point);
        if self.last_relevant == Some(self.next) {
            end = self.place;
        }
        if self.place + 1 == end {
            if self.has_sign && self.has_bracket {
                self.out.push(if self.is_negative { '>' } else { ' ' });
            } else if self.anchor == Anchor::Behind {
                self.out.push(if self.is_negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }

    fn sign(&mut self) {
        match self.anchor {
            Anchor::Before => {
                self.out.push(if self.is_negative { '-' } else { '+' });
                self.has_sign = true;
            }
            Anchor::Behind => {}
            Anchor::None if self.has_bracket => {
                self.out.push(if self.is_negative { '<' } else { ' ' });
                self.has_sign = true;
            }
            Anchor::None => {
                if self.is_negative {
                    self.out.push('-');
                } else if !self.template.is_fill {
                    self.out.push(' ');
                }
                self.has_sign = true;
            }
        }
    }
}

/// What makes an ordinal of a number.
fn ordinal(number: &[u8]) -> &'static str {
    match number {
        [.., b'1', _] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    }
}
