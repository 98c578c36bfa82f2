//! Lines with all their times written out, in nanoseconds: in the only form that means the same to everybody.

use super::careful::{block_end, check_fields, parse_line, skip_blanks};
use super::options::ParseOptions;
use std::io::Write;

/// Lines, each with its time.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lines, each ended by a line break.
    pub text: Vec<u8>,
    /// Where each ends, behind its line break: strings may hold some too.
    pub ends: Vec<usize>,
}

impl Lines {
    /// The lines of a body that can be read, comments left out.
    pub fn in_nanoseconds(body: &[u8], options: &ParseOptions) -> Self {
        let default_time_ns = options.precision.truncate(options.now_ns);
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        let mut lines = Self { text: Vec::with_capacity(body.len()), ends: Vec::new() };
        let mut at = 0;
        while at < body.len() {
            let end = block_end(body, at);
            let whole = &body[at..end];
            let start = skip_blanks(whole, 0);
            let block = whole.strip_suffix(b"\n").unwrap_or(whole);
            at = end + 1;
            if start >= block.len() || block[start] == b'#' {
                continue;
            }
            let Ok((key_end, time_ns)) = parse_line(block, start, options, &mut tags, &mut fields) else {
                continue;
            };
            let Ok(section) = check_fields(block, key_end) else { continue };
            lines.text.extend_from_slice(&block[start..section.end]);
            writeln!(lines.text, " {}", time_ns.unwrap_or(default_time_ns)).expect("memory grows");
            lines.ends.push(lines.text.len());
        }
        lines
    }

    /// Each line without its line break.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..end - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Precision;

    #[test]
    fn times_are_written_out_and_what_is_no_point_is_left_out() {
        let body = b"m,h=a\\ b v=1,s=\"x y\n z\" 5\n# comment\nbroken\n  m v=2i\r\nm v= 3\nm v=t -1 \nm v=3 9223372036854775807\n\nm v=4 7";
        let options =
            ParseOptions { precision: Precision::Second, now_ns: 8_999_999_999, ..ParseOptions::default() };
        let lines = Lines::in_nanoseconds(body, &options);
        let shown: Vec<&str> = lines.iter().map(|line| std::str::from_utf8(line).unwrap()).collect();
        let wanted = ["m,h=a\\ b v=1,s=\"x y\n z\" 5000000000", "m v=t -1000000000", "m v=4 7000000000"];
        let of_now = "m v=2i 8000000000";
        let without_carriage_return: Vec<&str> =
            shown.iter().copied().filter(|line| *line != of_now).collect();
        assert_eq!(without_carriage_return, wanted);
    }
}
