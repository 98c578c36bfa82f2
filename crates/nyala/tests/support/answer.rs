//! Turns a response into the text that a script holds.
//!
//! Two responses with different status, different named headers or different body bytes have different texts. Scripts
//! are compared as text, so a reader sees everything that is compared.
//!
//! - First the status, then headers: those of `SHOWN` that differ from what every answer has, and
//!   those that the step asks for.
//! - A compact JSON body is folded: a line break and an indent before every object or array that is
//!   an element of an array. Compact JSON has no line break of its own, so joining the lines without
//!   their indents gives the exact bytes.
//! - Any other body: `|` and the line; `~` and the line with Rust's ASCII escapes when it holds
//!   control characters or is not UTF-8.
//! - A body that does not end in a line break ends in `\ no newline`.

use super::client::Response;

/// Headers shown whenever present: clients read them.
const SHOWN: [&str; 13] = [
    "Content-Type",
    "Content-Encoding",
    "X-Influxdb-Error",
    "X-Influxdb-Version",
    "X-Influxdb-Build",
    "WWW-Authenticate",
    "Retry-After",
    "Allow",
    "Location",
    "Access-Control-Allow-Origin",
    "Access-Control-Allow-Headers",
    "Access-Control-Allow-Methods",
    "Access-Control-Expose-Headers",
];

/// Headers that every answer has with this value. They are shown when they differ, and as `-Name` when they are
/// missing.
const USUAL: [(&str, &str); 3] =
    [("Content-Type", "application/json"), ("X-Influxdb-Version", "1.8.10"), ("X-Influxdb-Build", "OSS")];

/// The text of a response. `asked` names further headers to show.
pub(crate) fn render(response: &Response, asked: &[String]) -> Vec<String> {
    let mut lines = vec![response.status.to_string()];
    for name in SHOWN {
        let usual = USUAL.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        match (response.header(name), usual) {
            // An answer without a body needs no content type.
            (None, Some(_)) if name == "Content-Type" && response.body.is_empty() => {}
            (None, Some(_)) => lines.push(format!("-{name}")),
            (Some(value), Some(usual)) if value == usual => {}
            // InfluxDB lists the methods in the order of a hash table.
            (Some(value), _) if name == "Allow" => {
                let mut methods: Vec<&str> = value.split(", ").collect();
                methods.sort_unstable();
                lines.push(header_line(name, &methods.join(", ")));
            }
            (Some(value), _) => lines.push(header_line(name, value)),
            (None, None) => {}
        }
    }
    for name in asked {
        match response.header(name) {
            Some(value) => lines.push(header_line(name, value)),
            None => lines.push(format!("-{name}")),
        }
    }
    render_body(&response.body, &mut lines);
    lines
}

fn header_line(name: &str, value: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    format!("{name}: {}", value.chars().map(escape).collect::<String>())
}

fn render_body(body: &[u8], lines: &mut Vec<String>) {
    if body.is_empty() {
        return;
    }
    let (text, ended) = match body {
        [text @ .., b'\n'] => (text, true),
        _ => (body, false),
    };
    for line in text.split(|&b| b == b'\n') {
        match std::str::from_utf8(line) {
            Ok(line) if line.starts_with(['{', '[']) && line.len() > 1 && !has_controls(line) => {
                fold(line, lines);
            }
            Ok(line) if !has_controls(line) => lines.push(format!("|{line}")),
            _ => lines.push(format!("~{}", line.escape_ascii())),
        }
    }
    if !ended {
        lines.push("\\ no newline".into());
    }
}

fn has_controls(line: &str) -> bool {
    line.chars().any(char::is_control)
}

/// Breaks one line of JSON before each object or array that is an element of an array.
fn fold(line: &str, lines: &mut Vec<String>) {
    let mut open = Vec::new();
    let mut depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    let mut piece = String::new();
    for character in line.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            piece.push(character);
            continue;
        }
        match character {
            '"' => in_string = true,
            '{' | '[' => {
                if open.last() == Some(&'[') {
                    lines.push(std::mem::take(&mut piece));
                    piece = "  ".repeat(depth);
                }
                open.push(character);
                depth += usize::from(character == '[');
            }
            '}' | ']' => {
                let opened = open.pop();
                depth -= usize::from(opened == Some('['));
            }
            _ => {}
        }
        piece.push(character);
    }
    lines.push(piece);
}

/// A long text as its ends, and a hash (FNV-1a) of what is between.
pub(crate) fn brief(lines: Vec<String>) -> Vec<String> {
    const KEPT: usize = 8;
    if lines.len() <= 2 * KEPT {
        return lines;
    }
    let between = &lines[KEPT..lines.len() - KEPT];
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in between.join("\n").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut brief = lines[..KEPT].to_vec();
    brief.push(format!("… {} lines, hash {hash:016x}", between.len()));
    brief.extend_from_slice(&lines[lines.len() - KEPT..]);
    brief
}

/// A readable difference of two texts; common lines at both ends are cut.
pub(crate) fn difference(expected: &[String], actual: &[String]) -> String {
    const CONTEXT: usize = 2;
    const SHOWN_LINES: usize = 24;
    let same_head = expected.iter().zip(actual).take_while(|(e, a)| e == a).count();
    let rest = expected.len().min(actual.len()) - same_head;
    let same_tail =
        expected.iter().rev().zip(actual.iter().rev()).take(rest).take_while(|(e, a)| e == a).count();
    let mut text = String::new();
    let mut show = |mark: char, lines: &[String]| {
        for line in lines.iter().take(SHOWN_LINES) {
            text.push_str(&format!("    {mark} {line}\n"));
        }
        if lines.len() > SHOWN_LINES {
            let left_out = lines.len() - SHOWN_LINES;
            text.push_str(&format!("    {mark} … {left_out} more lines\n"));
        }
    };
    show(' ', &expected[same_head.saturating_sub(CONTEXT)..same_head]);
    show('-', &expected[same_head..expected.len() - same_tail]);
    show('+', &actual[same_head..actual.len() - same_tail]);
    let tail = &expected[expected.len() - same_tail..];
    show(' ', &tail[..tail.len().min(CONTEXT)]);
    text
}

/// Sorts the lines, for the few answers whose order is random in InfluxDB. Commas between elements are cut, because
/// they move with the elements.
pub(crate) fn sorted(lines: &[String]) -> Vec<String> {
    let mut sorted: Vec<String> =
        lines.iter().map(|line| line.trim().trim_end_matches([',', ']', '}']).to_owned()).collect();
    sorted.sort_unstable();
    sorted
}
