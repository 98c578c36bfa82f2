//! A slow line-protocol parser, which is the reference for the real one. It works byte by byte, without tables, in the
//! passes of InfluxDB 1.8.10. It only says whether a line is rejected, not with which message.

use std::collections::BTreeMap;

/// A field value, floats by their bits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Float(u64),
    Integer(i64),
    Unsigned(u64),
    Boolean(bool),
    String(Vec<u8>),
}

/// One accepted line. Fields by name and type (`f`, `i`, `u`, `b`, `s`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub line: u32,
    pub measurement: Vec<u8>,
    pub tags: Vec<(Vec<u8>, Vec<u8>)>,
    pub fields: BTreeMap<(Vec<u8>, char), Value>,
    pub time_ns: i64,
}

/// Parses a body. Returns the accepted rows and the number of rejected lines.
pub fn read(body: &[u8], unit_ns: i64, now_ns: i64) -> (Vec<Row>, u64) {
    let (mut rows, mut refused) = (Vec::new(), 0);
    let mut line = 1;
    let mut rest = body;
    while !rest.is_empty() {
        let length = block_length(rest);
        let block = &rest[..length];
        let text = trim(block.strip_suffix(b"\n").unwrap_or(block));
        if !text.is_empty() && text[0] != b'#' {
            match read_line(text, unit_ns, now_ns) {
                Some(row) => rows.push(Row { line, ..row }),
                None => refused += 1,
            }
        }
        line += 1 + block.iter().filter(|byte| **byte == b'\n').count() as u32;
        rest = &rest[(length + 1).min(rest.len())..];
    }
    (rows, refused)
}

fn trim(text: &[u8]) -> &[u8] {
    match text {
        [b' ' | b'\t' | 0, rest @ ..] => trim(rest),
        _ => text,
    }
}

fn block_length(rest: &[u8]) -> usize {
    let (mut fields, mut quoted, mut balance) = (false, false, 0_i64);
    let mut at = 0;
    while at < rest.len() {
        let byte = rest[at];
        if byte == b'\\' && at + 2 < rest.len() {
            at += 2;
            continue;
        }
        fields |= byte == b' ';
        if fields && !quoted && byte == b'=' {
            balance += 1;
        } else if fields && !quoted && byte == b',' {
            balance -= 1;
        } else if fields && byte == b'"' && balance > 0 {
            quoted = !quoted;
        } else if byte == b'\n' && !quoted {
            return at;
        }
        at += 1;
    }
    rest.len()
}

/// Splits at the first of `ends` (but not at the first byte) without a backslash before it.
fn split<'a>(text: &'a [u8], ends: &[u8]) -> Option<(&'a [u8], u8, &'a [u8])> {
    let at = (1..text.len()).find(|&at| ends.contains(&text[at]) && text[at - 1] != b'\\')?;
    Some((&text[..at], text[at], &text[at + 1..]))
}

fn unescape(text: &[u8], escapable: &[u8]) -> Vec<u8> {
    let drops =
        |at: usize| text[at] == b'\\' && text.get(at + 1).is_some_and(|next| escapable.contains(next));
    (0..text.len()).filter(|&at| !drops(at)).map(|at| text[at]).collect()
}

fn read_line(text: &[u8], unit_ns: i64, now_ns: i64) -> Option<Row> {
    if text[0] == b',' {
        return None;
    }
    let (name, mut end, mut rest) = split(text, b", ")?;
    let mut tags = BTreeMap::new();
    while end == b',' {
        if rest.first().is_none_or(|byte| b" ,=".contains(byte)) {
            return None;
        }
        let (key, equals, value) = split(rest, b"=, ")?;
        if equals != b'=' || value.first().is_none_or(|byte| b" ,".contains(byte)) {
            return None;
        }
        let (value, next, behind) = split(value, b"=, ")?;
        if next == b'=' || tags.insert(key.to_vec(), value).is_some() {
            return None;
        }
        (end, rest) = (next, behind);
    }
    let key_length = text.len() - rest.len() - 1;
    if key_length > 65_535 {
        return None;
    }
    // The blanks before the fields matter for the check of the first name, so they are kept.
    let blanks = rest.len() - trim(rest).len();
    let section = check_fields(&text[key_length - 1..], 2 + blanks)?;
    let behind = &rest[blanks + section.len()..];
    let mut fields = BTreeMap::new();
    let mut broken = false;
    let mut left = section;
    while !left.is_empty() {
        let equals = (0..left.len()).find(|&at| left[at] == b'=' && (at == 0 || left[at - 1] != b'\\'))?;
        if equals == 0 || equals + 2 > left.len() || key_length + 4 + equals > 65_535 {
            return None;
        }
        let name = unescape(&left[..equals], b",\" =");
        let value = &left[equals + 1..];
        let length = value_length(value);
        match read_value(&value[..length]) {
            Some((kind, value)) => drop(fields.insert((name, kind), value)),
            None => broken = true,
        }
        left = &value[(length + 1).min(value.len())..];
    }
    let time_ns = read_time(behind, unit_ns, now_ns)?;
    let mut tags: Vec<(Vec<u8>, Vec<u8>)> =
        tags.into_iter().map(|(key, value)| (unescape(&key, b", ="), unescape(value, b", ="))).collect();
    tags.sort();
    let measurement = unescape(name, b",\" =");
    (!broken).then_some(Row { line: 0, measurement, tags, fields, time_ns })
}

/// The field section that begins at `start` of `text`, if it is well formed.
fn check_fields(text: &[u8], start: usize) -> Option<&[u8]> {
    let (mut quoted, mut equals, mut commas) = (false, 0, 0);
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b'\\' if at + 1 < text.len() => at += 1,
            b'"' if equals > commas => quoted = !quoted,
            b'=' if !quoted => {
                equals += 1;
                if (text[at - 1] == b' ' || text[at - 1] == b',') && text[at - 2] != b'\\' {
                    return None;
                }
                let value: Vec<u8> = text[at + 1..]
                    .iter()
                    .copied()
                    .take_while(|byte| *byte != b',' && *byte != b' ')
                    .collect();
                match value.first()? {
                    b'"' => {}
                    b'0'..=b'9' | b'.' | b'-' | b'n' | b'N' => at += number(&value).map(|_| value.len())?,
                    _ => at += boolean(&value).map(|_| value.len())?,
                }
            }
            b',' if !quoted => commas += 1,
            b' ' if !quoted => break,
            _ => {}
        }
        at += 1;
    }
    (!quoted && equals > 0 && commas + 1 == equals).then(|| &text[start..at.min(text.len())])
}

fn value_length(text: &[u8]) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'\\' && at + 1 < text.len() && (text[at + 1] == b'"' || text[at + 1] == b'\\') {
            at += 1;
        } else if text[at] == b'"' {
            quoted = !quoted;
        } else if text[at] == b',' && !quoted {
            return at;
        }
        at += 1;
    }
    text.len()
}

fn read_value(text: &[u8]) -> Option<(char, Value)> {
    match *text.first()? {
        b'"' => {
            let mut inner = text.get(1..text.len() - 1)?;
            let mut string = Vec::new();
            while let Some(&byte) = inner.first() {
                let escape = byte == b'\\' && matches!(inner.get(1), Some(b'"' | b'\\'));
                string.push(inner[usize::from(escape)]);
                inner = &inner[1 + usize::from(escape)..];
            }
            Some(('s', Value::String(string)))
        }
        first if b"0123456789-.nNiIu".contains(&first) => number(text),
        _ => boolean(text),
    }
}

fn boolean(text: &[u8]) -> Option<(char, Value)> {
    let value = match std::str::from_utf8(text).ok()? {
        "t" | "T" | "true" | "True" | "TRUE" => true,
        "f" | "F" | "false" | "False" | "FALSE" => false,
        _ => return None,
    };
    Some(('b', Value::Boolean(value)))
}

fn number(text: &[u8]) -> Option<(char, Value)> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(digits) = text.strip_suffix('i') {
        return Some(('i', Value::Integer(digits.parse().ok()?)));
    }
    if let Some(digits) = text.strip_suffix('u') {
        return Some(('u', Value::Unsigned(digits.parse().ok()?)));
    }
    // Names of infinity and NaN are not numbers here.
    let plain = text.bytes().all(|byte| b"0123456789.+-eE".contains(&byte)) && !text.starts_with('e');
    let value: f64 = text.parse().ok()?;
    (plain && value.is_finite()).then_some(('f', Value::Float(value.to_bits())))
}

fn read_time(behind: &[u8], unit_ns: i64, now_ns: i64) -> Option<i64> {
    let text = trim(behind);
    let length = text.iter().position(|byte| *byte == b' ' || *byte == b'\n').unwrap_or(text.len());
    let (digits, behind) = text.split_at(length);
    if digits.is_empty() {
        return Some(now_ns.div_euclid(unit_ns) * unit_ns);
    }
    if digits.starts_with(b"+") || behind.iter().any(|byte| *byte != b' ') {
        return None;
    }
    let time = std::str::from_utf8(digits).ok()?.parse::<i64>().ok()?.checked_mul(unit_ns)?;
    (i64::MIN + 2..i64::MAX).contains(&time).then_some(time)
}
