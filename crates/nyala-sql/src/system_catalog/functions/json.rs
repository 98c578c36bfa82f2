//! Whether a text is JSON.

/// How deep values may lie in each other.
const DEPTH_MAX: usize = 512;

/// Whether a text is one value of JSON, with blanks around it.
pub(super) fn is_json(text: &str) -> bool {
    let rest = value(text.trim_start_matches(is_blank), 0);
    rest.is_some_and(|rest| rest.trim_start_matches(is_blank).is_empty())
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r')
}

/// What is behind the value at the beginning of a text; `None` if there is none.
fn value(text: &str, depth: usize) -> Option<&str> {
    if depth > DEPTH_MAX {
        return None;
    }
    match text.chars().next()? {
        '{' => members(&text[1..], '}', depth),
        '[' => members(&text[1..], ']', depth),
        '"' => string(text),
        '-' | '0'..='9' => number(text),
        _ => ["true", "false", "null"].iter().find_map(|word| text.strip_prefix(word)),
    }
}

/// The rest of an object or array.
fn members(text: &str, end: char, depth: usize) -> Option<&str> {
    let mut rest = text.trim_start_matches(is_blank);
    if let Some(rest) = rest.strip_prefix(end) {
        return Some(rest);
    }
    loop {
        if end == '}' {
            rest = string(rest)?.trim_start_matches(is_blank).strip_prefix(':')?.trim_start_matches(is_blank);
        }
        rest = value(rest, depth + 1)?.trim_start_matches(is_blank);
        match rest.strip_prefix(end) {
            Some(rest) => return Some(rest),
            None => rest = rest.strip_prefix(',')?.trim_start_matches(is_blank),
        }
    }
}

fn string(text: &str) -> Option<&str> {
    let mut letters = text.strip_prefix('"')?.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some(&text[place + 2..]),
            '\\' => match letters.next()?.1 {
                'u' => {
                    for _ in 0..4 {
                        letters.next()?.1.to_digit(16)?;
                    }
                }
                '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => {}
                _ => return None,
            },
            letter if letter < ' ' => return None,
            _ => {}
        }
    }
    None
}

fn number(text: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return None;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        rest = (count > 0).then(|| &fraction[count..])?;
    }
    if let Some(power) = rest.strip_prefix(['e', 'E']) {
        let power = power.strip_prefix(['+', '-']).unwrap_or(power);
        let count = digits(power);
        rest = (count > 0).then(|| &power[count..])?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn values_are_told_from_other_texts() {
        for text in ["{}", " [1, -2.5e3, \"a\\u00e4\\n\", {\"b\": null}] ", "true", "0", "\"\""] {
            assert!(is_json(text), "{text}");
        }
        let deep = "[".repeat(100_000);
        for text in ["", "{", "{a: 1}", "[1,]", "01", "1.", "nul", "\"a", "1 2", "\"\\x\"", &*deep] {
            assert!(!is_json(text), "{}", &text[..text.len().min(10)]);
        }
    }
}
