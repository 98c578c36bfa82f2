//! Characters, escapes and classes of characters.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write;

use super::flags::{Flags, Result, error};

/// A class that matches nothing. It replaces a surrogate, which no text contains.
pub(super) const NOTHING: &str = "[^\\s\\S]";

/// The meaning of an escape.
pub(super) enum Escape {
    /// One character, by its code, which may be that of a surrogate.
    Character(u32),
    /// Several, written as an item of a bracketed class.
    Class(String),
}

/// Writes a character so that it means itself, in and outside a class.
pub(super) fn push_character(output: &mut String, character: char) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() || character == '_' {
        output.push(character);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(output, "\\x{:02X}", u32::from(character));
    }
}

/// Writes a class of the given items.
pub(super) fn push_class(output: &mut String, items: &str, negated: bool, flags: Flags) {
    output.push_str(match (flags.ignore_case, negated) {
        (false, false) => "[",
        (false, true) => "[^",
        (true, false) => "(?i:[",
        (true, true) => "(?i:[^",
    });
    output.push_str(items);
    output.push_str(if flags.ignore_case { "])" } else { "]" });
}

/// Writes the characters between two codes, which may be those of surrogates, as an item of a class.
fn push_range(items: &mut String, low: u32, high: u32) {
    let low = if (0xD800..=0xDFFF).contains(&low) { 0xE000 } else { low };
    let high = if (0xD800..=0xDFFF).contains(&high) { 0xD7FF } else { high };
    if let (Some(low), Some(high)) = (char::from_u32(low), char::from_u32(high))
        && low <= high
    {
        push_character(items, low);
        if low < high {
            items.push('-');
            push_character(items, high);
        }
    }
}

/// A class in brackets, which `text` starts with. Writes it and gives what follows.
pub(super) fn bracketed<'a>(text: &'a str, flags: Flags, output: &mut String) -> Result<&'a str> {
    let mut rest = &text[1..];
    let negated = rest.starts_with('^');
    if negated {
        rest = &rest[1..];
    }
    let mut items = String::new();
    let mut first = true;
    while first || !rest.starts_with(']') {
        first = false;
        if let Some((item, after)) = named(rest)? {
            items.push_str(&item);
            rest = after;
            continue;
        }
        let range = rest;
        let (low, after) = match item(rest, text)? {
            (Escape::Class(class), after) => {
                items.push_str(&class);
                rest = after;
                continue;
            }
            (Escape::Character(low), after) => (low, after),
        };
        rest = after;
        let mut high = low;
        if rest.len() >= 2 && rest.starts_with('-') && !rest[1..].starts_with(']') {
            let (character, after) = character(&rest[1..], text)?;
            (high, rest) = (character, after);
            if high < low {
                return error("invalid character class range", &range[..range.len() - rest.len()]);
            }
        }
        push_range(&mut items, low, high);
    }
    if items.is_empty() {
        // Only surrogates.
        items.push_str(NOTHING);
    }
    push_class(output, &items, negated, flags);
    Ok(&rest[1..])
}

/// One thing in a class: a character or an escape.
fn item<'a>(text: &'a str, class: &str) -> Result<(Escape, &'a str)> {
    if text.starts_with('\\') {
        return escape(text);
    }
    let (code, rest) = character(text, class)?;
    Ok((Escape::Character(code), rest))
}

/// One character of a class, perhaps escaped.
fn character<'a>(text: &'a str, class: &str) -> Result<(u32, &'a str)> {
    match text.chars().next() {
        None => error("missing closing ]", class),
        Some('\\') => character_escape(text),
        Some(character) => Ok((u32::from(character), &text[character.len_utf8()..])),
    }
}

/// `[:name:]` or `[:^name:]`, if the text starts with one.
fn named(text: &str) -> Result<Option<(String, &str)>> {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
        "upper", "word", "xdigit",
    ];
    let Some(inside) = text.strip_prefix("[:") else { return Ok(None) };
    let Some(end) = inside.find(":]") else { return Ok(None) };
    let (whole, rest) = text.split_at(end + 4);
    let name = &inside[..end];
    if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return error("invalid character class range", whole);
    }
    Ok(Some((whole.to_string(), rest)))
}

/// An escape that means the same in and outside a class.
pub(super) fn escape(text: &str) -> Result<(Escape, &str)> {
    let class = match text.as_bytes().get(1) {
        Some(b'd') => "0-9",
        Some(b'D') => "[^0-9]",
        Some(b's') => "\\t\\n\\f\\r\\x20",
        Some(b'S') => "[^\\t\\n\\f\\r\\x20]",
        Some(b'w') => "0-9A-Za-z_",
        Some(b'W') => "[^0-9A-Za-z_]",
        Some(b'p' | b'P') if text.len() > 2 => {
            let (class, rest) = unicode_class(text)?;
            return Ok((Escape::Class(class), rest));
        }
        _ => {
            let (code, rest) = character_escape(text)?;
            return Ok((Escape::Character(code), rest));
        }
    };
    Ok((Escape::Class(class.to_string()), &text[2..]))
}

/// `\pL`, `\p{Greek}`, `\P{Greek}`, `\p{^Greek}`.
fn unicode_class(text: &str) -> Result<(String, &str)> {
    let length = match text[2..].chars().next() {
        Some('{') => match text.find('}') {
            Some(end) => end + 1,
            None => return error("invalid character class range", text),
        },
        Some(character) => 2 + character.len_utf8(),
        None => text.len(),
    };
    let (whole, rest) = text.split_at(length);
    let name = whole[2..].trim_start_matches('{').trim_end_matches('}');
    let (flipped, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
    let negated = whole.starts_with("\\P") != flipped;
    let class = format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' });
    if !is_unicode_class(name) {
        return error("invalid character class range", whole);
    }
    Ok((class, rest))
}

/// Whether a script or category has this name. These are tables, which the library has; asking it is slow.
fn is_unicode_class(name: &str) -> bool {
    const REMEMBERED_MAX: usize = 512;
    thread_local!(static KNOWN: RefCell<HashSet<String>> = RefCell::default());
    if name.is_empty() || !name.chars().all(|letter| letter.is_ascii_alphabetic() || letter == '_') {
        return false;
    }
    KNOWN.with_borrow_mut(|known| {
        if known.contains(name) {
            return true;
        }
        let exists = regex::Regex::new(&format!("\\p{{{name}}}")).is_ok();
        if exists && known.len() < REMEMBERED_MAX {
            known.insert(name.to_owned());
        }
        exists
    })
}

/// An escape that stands for one character.
fn character_escape(text: &str) -> Result<(u32, &str)> {
    let mut rest = &text[1..];
    let mut next = || {
        let character = rest.chars().next()?;
        rest = &rest[character.len_utf8()..];
        Some(character)
    };
    let Some(first) = next() else { return error("trailing backslash at end of expression", "") };
    let code = match first {
        '0'..='7' => octal(first, &mut rest),
        'x' => hexadecimal(&mut rest),
        'a' => Some(7),
        'f' => Some(12),
        'n' => Some(10),
        'r' => Some(13),
        't' => Some(9),
        'v' => Some(11),
        _ if first.is_ascii() && !first.is_ascii_alphanumeric() => Some(u32::from(first)),
        _ => None,
    };
    match code {
        Some(code) => Ok((code, rest)),
        None => error("invalid escape sequence", &text[..text.len() - rest.len()]),
    }
}

/// Up to three octal digits, the first of which has been taken; a lone one other than 0 would refer back to a group.
fn octal(first: char, rest: &mut &str) -> Option<u32> {
    let mut code = first.to_digit(8)?;
    let digits = rest.chars().take(2).map_while(|character| character.to_digit(8));
    let digits: Vec<u32> = digits.collect();
    if digits.is_empty() && code != 0 {
        return None;
    }
    *rest = &rest[digits.len()..];
    for digit in digits {
        code = code * 8 + digit;
    }
    Some(code)
}

/// Two hexadecimal digits, or any number of them in braces.
fn hexadecimal(rest: &mut &str) -> Option<u32> {
    let mut next = || {
        let character = rest.chars().next()?;
        *rest = &rest[character.len_utf8()..];
        Some(character)
    };
    let first = next()?;
    if first != '{' {
        let second = next();
        return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
    }
    let mut code = None;
    loop {
        let character = next()?;
        if character == '}' {
            return code;
        }
        code = Some(code.unwrap_or(0) * 16 + character.to_digit(16)?).filter(|code| *code <= 0x10_FFFF);
        code?;
    }
}
