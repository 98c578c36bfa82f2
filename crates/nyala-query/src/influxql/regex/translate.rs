//! Translates Go's syntax to that of the `regex` crate.
//!
//! Flags are resolved: every part is written so that it means the same in any context, and groups capture nothing. So the
//! result needs no flags.

use super::class::{self, Escape};
use super::flags::{Flags, Result, error};

/// How deep groups and repetitions may be nested, so that compiling the result cannot exhaust a stack.
const MAXIMUM_DEPTH: usize = 200;

/// The most copies that nested repetitions may amount to.
const MAXIMUM_COPIES: u32 = 1_000;

/// What a repetition applies to.
#[derive(Clone, Copy)]
struct Operand {
    /// Its start in the output.
    start: usize,
    depth: usize,
    copies: u32,
}

/// A group that is open.
struct Group {
    start: usize,
    /// The flags outside.
    flags: Flags,
    /// Of what the group contains so far.
    depth: usize,
    copies: u32,
}

struct Translator<'a> {
    pattern: &'a str,
    rest: &'a str,
    output: String,
    flags: Flags,
    groups: Vec<Group>,
    operand: Option<Operand>,
}

pub(super) fn translate(pattern: &str) -> Result<String> {
    let translator = Translator {
        pattern,
        rest: pattern,
        output: String::with_capacity(pattern.len() + 8),
        flags: Flags::default(),
        groups: Vec::new(),
        operand: None,
    };
    translator.run()
}

impl<'a> Translator<'a> {
    fn run(mut self) -> Result<String> {
        // Where the last repetition starts, if nothing but its operator has come since.
        let mut previous_repetition: Option<&str> = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let mut repetition = None;
            match first {
                '(' if self.rest.starts_with("(?") => self.flags_or_group()?,
                '(' => {
                    self.rest = &self.rest[1..];
                    self.open(self.flags);
                }
                '|' => {
                    self.rest = &self.rest[1..];
                    self.output.push('|');
                    self.operand = None;
                }
                ')' => self.close()?,
                '^' => self.atom(1, if self.flags.multi_line { "(?m:^)" } else { "\\A" })?,
                '$' => self.atom(1, if self.flags.multi_line { "(?m:$)" } else { "\\z" })?,
                '.' => self.atom(1, if self.flags.dot_matches_line_break { "(?s:.)" } else { "." })?,
                '[' => {
                    let start = self.output.len();
                    self.rest = class::bracketed(self.rest, self.flags, &mut self.output)?;
                    self.finish(start, 0, 1)?;
                }
                '*' | '+' | '?' => {
                    let minimum = u32::from(first == '+');
                    self.repeat(before, 1, first.to_string(), (minimum, 1), previous_repetition)?;
                    repetition = Some(before);
                }
                '{' => match bounds(before) {
                    None => self.literal_after(1, '{')?,
                    Some(Bounds { minimum, maximum, length }) => {
                        let fits = |count: Option<u32>| count.is_some_and(|count| count <= MAXIMUM_COPIES);
                        let ordered = maximum.is_none_or(|maximum| maximum >= minimum);
                        if !fits(minimum) || !maximum.is_none_or(fits) || !ordered {
                            return error("invalid repeat count", &before[..length]);
                        }
                        let copies = maximum.flatten().or(minimum).unwrap_or(0);
                        let written = before[..length].to_string();
                        let counts =
                            (minimum.unwrap_or(0), if maximum == Some(Some(0)) { 1 } else { copies });
                        self.repeat(before, length, written, counts, previous_repetition)?;
                        repetition = Some(before);
                    }
                },
                '\\' => self.escape()?,
                character => self.literal_after(character.len_utf8(), character)?,
            }
            previous_repetition = repetition;
        }
        if !self.groups.is_empty() {
            return error("missing closing )", self.pattern);
        }
        Ok(self.output)
    }

    /// Records that the output since `start` is one operand.
    fn finish(&mut self, start: usize, depth: usize, copies: u32) -> Result<()> {
        if depth + self.groups.len() > MAXIMUM_DEPTH {
            return error("expression nests too deeply", self.pattern);
        }
        if let Some(group) = self.groups.last_mut() {
            group.depth = group.depth.max(depth);
            group.copies = group.copies.max(copies);
        }
        self.operand = Some(Operand { start, depth, copies });
        Ok(())
    }

    fn atom(&mut self, length: usize, written: &str) -> Result<()> {
        self.rest = &self.rest[length..];
        let start = self.output.len();
        self.output.push_str(written);
        self.finish(start, 0, 1)
    }

    fn literal_after(&mut self, length: usize, character: char) -> Result<()> {
        self.rest = &self.rest[length..];
        self.literal(u32::from(character))
    }

    fn literal(&mut self, code: u32) -> Result<()> {
        let start = self.output.len();
        match char::from_u32(code) {
            None => self.output.push_str(class::NOTHING),
            Some(character) if self.flags.ignore_case && !character.is_ascii_digit() => {
                self.output.push_str("(?i:");
                class::push_character(&mut self.output, character);
                self.output.push(')');
            }
            Some(character) => class::push_character(&mut self.output, character),
        }
        self.finish(start, 0, 1)
    }

    fn open(&mut self, flags_outside: Flags) {
        self.groups.push(Group { start: self.output.len(), flags: flags_outside, depth: 0, copies: 1 });
        self.output.push_str("(?:");
        self.operand = None;
    }

    fn close(&mut self) -> Result<()> {
        let Some(group) = self.groups.pop() else { return error("unexpected )", self.pattern) };
        self.rest = &self.rest[1..];
        self.output.push(')');
        self.flags = group.flags;
        self.finish(group.start, group.depth + 1, group.copies)
    }

    /// What starts with `(?`.
    fn flags_or_group(&mut self) -> Result<()> {
        let whole = self.rest;
        for (prefix, least) in [("(?P<", 5), ("(?<", 4)] {
            if whole.starts_with(prefix) && whole.len() >= least {
                let Some(end) = whole.find('>') else { return error("invalid named capture", whole) };
                let name = &whole[prefix.len()..end];
                if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                    return error("invalid named capture", &whole[..=end]);
                }
                self.rest = &whole[end + 1..];
                self.open(self.flags);
                return Ok(());
            }
        }
        let mut flags = self.flags;
        let (mut value, mut seen) = (true, false);
        for (index, character) in whole.char_indices().skip(2) {
            let end = index + character.len_utf8();
            match character {
                'i' => flags.ignore_case = value,
                'm' => flags.multi_line = value,
                's' => flags.dot_matches_line_break = value,
                'U' => flags.lazy = value,
                '-' if value => {
                    (value, seen) = (false, false);
                    continue;
                }
                ':' | ')' if value || seen => {
                    self.rest = &whole[end..];
                    if character == ':' {
                        self.open(self.flags);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return error("invalid or unsupported Perl syntax", &whole[..end]),
            }
            seen = true;
        }
        error("invalid or unsupported Perl syntax", whole)
    }

    /// A repetition whose operator has `length` bytes and is written so; `counts` are the least number and how many
    /// copies it may amount to.
    fn repeat(
        &mut self,
        before: &'a str,
        length: usize,
        written: String,
        counts: (u32, u32),
        previous: Option<&str>,
    ) -> Result<()> {
        let mut after = &before[length..];
        let mut lazy = self.flags.lazy;
        if let Some(rest) = after.strip_prefix('?') {
            after = rest;
            lazy = !lazy;
        }
        if let Some(previous) = previous {
            return error("invalid nested repetition operator", &previous[..previous.len() - after.len()]);
        }
        let operator = &before[..before.len() - after.len()];
        let Some(operand) = self.operand else {
            return error("missing argument to repetition operator", operator);
        };
        let copies = operand.copies.saturating_mul(counts.1.max(1));
        let counted = written.starts_with('{');
        if counted && counts.0.max(counts.1) >= 2 && copies > MAXIMUM_COPIES {
            return error("invalid repeat count", operator);
        }
        self.rest = after;
        self.output.insert_str(operand.start, "(?:");
        self.output.push(')');
        self.output.push_str(&written);
        if lazy {
            self.output.push('?');
        }
        self.finish(operand.start, operand.depth + 1, copies)
    }

    /// What starts with a backslash, outside a class.
    fn escape(&mut self) -> Result<()> {
        let text = self.rest;
        match text.as_bytes().get(1) {
            Some(b'A') => return self.atom(2, "\\A"),
            Some(b'z') => return self.atom(2, "\\z"),
            Some(b'b') => return self.atom(2, "(?-u:\\b)"),
            Some(b'B') => return self.atom(2, "(?-u:\\B)"),
            Some(b'C') => return error("invalid escape sequence", &text[..2]),
            Some(b'Q') => {
                let quoted = &text[2..];
                let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                self.rest = rest;
                return literal.chars().try_for_each(|character| self.literal(u32::from(character)));
            }
            _ => {}
        }
        let (escape, rest) = class::escape(text)?;
        self.rest = rest;
        match escape {
            Escape::Character(code) => self.literal(code),
            Escape::Class(items) => {
                let start = self.output.len();
                class::push_class(&mut self.output, &items, false, self.flags);
                self.finish(start, 0, 1)
            }
        }
    }
}

/// `{n}`, `{n,}` or `{n,m}`. A number too large to count is `None`; so is a missing maximum, one level up.
struct Bounds {
    minimum: Option<u32>,
    maximum: Option<Option<u32>>,
    length: usize,
}

fn bounds(text: &str) -> Option<Bounds> {
    let (minimum, rest) = count(text.strip_prefix('{')?)?;
    let (maximum, rest) = match rest.strip_prefix(',') {
        None => (Some(minimum), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (maximum, rest) = count(rest)?;
            (Some(maximum), rest)
        }
    };
    let rest = rest.strip_prefix('}')?;
    Some(Bounds { minimum, maximum, length: text.len() - rest.len() })
}

/// Digits without leading zeros, and what follows them.
fn count(text: &str) -> Option<(Option<u32>, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let digits = &text[..length];
    if digits.is_empty() || (length > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), &text[length..]))
}
