//! Lines with all their times written out in nanoseconds, the only form that does not depend on the request's
//! parameters.

use super::options::ParseOptions;
use super::slow_path::{block_end, check_fields, parse_line, skip_blanks};
use std::io::Write;

/// The most that follows the fields of a line: a blank, a time and a line break.
const TIME_BYTES: usize = 22;

/// Lines, each with its time.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lines, each with a line break at its end.
    pub text: Vec<u8>,
    /// The end of each line, after its line break. Strings may contain line breaks too.
    pub ends: Vec<usize>,
    /// How many lines were left out because they are not valid.
    pub invalid: u64,
}

impl Lines {
    /// Adds the valid lines of a body from `at` on, without comments, up to `limit_bytes` of text. A longer line is
    /// added alone. Returns where to continue.
    pub fn add(&mut self, body: &[u8], mut at: usize, options: &ParseOptions, limit_bytes: usize) -> usize {
        let default_time_ns = options.precision.truncate(options.now_ns);
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        while at < body.len() {
            let end = block_end(body, at);
            let whole = &body[at..end];
            let start = skip_blanks(whole, 0);
            let block = whole.strip_suffix(b"\n").unwrap_or(whole);
            if !self.ends.is_empty() && self.text.len() + block.len() + TIME_BYTES > limit_bytes {
                return at;
            }
            at = end + 1;
            if start >= block.len() || block[start] == b'#' {
                continue;
            }
            let parsed = parse_line(block, start, options, &mut tags, &mut fields);
            let parsed = parsed.and_then(|(key_end, time_ns)| Ok((check_fields(block, key_end)?, time_ns)));
            let Ok((section, time_ns)) = parsed else {
                self.invalid += 1;
                continue;
            };
            self.text.extend_from_slice(&block[start..section.end]);
            writeln!(self.text, " {}", time_ns.unwrap_or(default_time_ns)).expect("memory grows");
            self.ends.push(self.text.len());
        }
        at
    }

    /// The memory that they take, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Each line without its line break.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..end - 1])
    }
}

/// Where the fields of a line end, if it is valid and has no time.
///
/// ```
/// assert_eq!(nyala_db::ingest::end_without_time(b"m s=\"a 1\" \n"), Some(9));
/// assert_eq!(nyala_db::ingest::end_without_time(b"m v=1 1\n"), None);
/// ```
pub fn end_without_time(line: &[u8]) -> Option<usize> {
    let block = line.strip_suffix(b"\n").unwrap_or(line);
    let start = skip_blanks(block, 0);
    if start >= block.len() || block[start] == b'#' || ends_in_a_time(block) {
        return None;
    }
    let (mut tags, mut fields) = (Vec::new(), Vec::new());
    match parse_line(block, start, &ParseOptions::default(), &mut tags, &mut fields) {
        Ok((key_end, None)) => check_fields(block, key_end).ok().map(|section| section.end),
        Ok((_, Some(_))) | Err(_) => None,
    }
}

/// Whether a line ends in a blank and digits, as most do. Then it has a time, or is not valid: strings end in a quote, and other values
/// have a `=` before them.
fn ends_in_a_time(block: &[u8]) -> bool {
    let before = block.trim_ascii_end();
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = &before[..before.len() - digits];
    digits > 0 && before.strip_suffix(b"-").unwrap_or(before).ends_with(b" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Precision;

    #[test]
    fn times_are_written_out_and_invalid_lines_left_out() {
        let body = b"m,h=a\\ b v=1,s=\"x y\n z\" 5\n# comment\nbroken\n  m v=2i\r\nm v= 3\nm v=t -1 \nm v=3 9223372036854775807\n\nm v=4 7";
        let options =
            ParseOptions { precision: Precision::Second, now_ns: 8_999_999_999, ..ParseOptions::default() };
        let mut lines = Lines::default();
        assert!(lines.add(body, 0, &options, usize::MAX) >= body.len());
        let shown: Vec<&str> = lines.iter().map(|line| std::str::from_utf8(line).unwrap()).collect();
        let wanted = ["m,h=a\\ b v=1,s=\"x y\n z\" 5000000000", "m v=t -1000000000", "m v=4 7000000000"];
        assert_eq!(shown, wanted);
        // `broken` is no point, one line ends in a carriage return, one has no value, and one time is too late.
        assert_eq!(lines.invalid, 4);
    }

    #[test]
    fn only_valid_lines_without_a_time_get_one() {
        let end = |line: &str| end_without_time(line.as_bytes());
        for line in ["m v=1", " m,h=a\\ 1 v=1i,s=\"x 1\"", "m s=\"x\n 1\"", "m a\\ 1=-1"] {
            for behind in ["", "\n", " ", "  \n"] {
                assert_eq!(end(&format!("{line}{behind}")), Some(line.len()), "{line:?}{behind:?}");
            }
        }
        for line in [
            "",
            "\n",
            "# m v=1",
            "m v=1 1",
            "m v=1 -1 \n",
            "m",
            "m v=",
            "m v=1\r\n",
            "m v=1 x",
            "m 1",
            "m v=1 1 1",
        ] {
            assert_eq!(end(line), None, "{line:?}");
        }
    }

    #[test]
    fn chunks_have_every_line_once_and_a_long_line_alone() {
        let long = "x".repeat(100);
        let body = format!("m v=1 1\n#\nm v=2 2\nm t=\"{long}\" 3\nm v=4 4");
        let (mut at, mut pieces) = (0, Vec::new());
        while at < body.len() {
            let mut lines = Lines::default();
            at = lines.add(body.as_bytes(), at, &ParseOptions::default(), 60);
            pieces.push(String::from_utf8(lines.text).expect("text"));
        }
        assert_eq!(pieces, ["m v=1 1\nm v=2 2\n", &format!("m t=\"{long}\" 3\n"), "m v=4 4\n"]);
    }
}
