//! Splits CSV into records. What is in them the server reads; only quotes matter here, within which lines do not end.

/// The longest record: the server takes 16 MiB at once.
const RECORD_MAX_BYTES: usize = 8 << 20;

/// Bytes that were not split yet.
#[derive(Default)]
pub(super) struct Records {
    buffer: Vec<u8>,
    /// Where the next record begins.
    begin: usize,
    /// Up to where it was looked at, and whether that is in quotes.
    looked: usize,
    is_quoted: bool,
    line: u64,
}

/// A record, with the end of its line.
pub(super) struct Record<'a> {
    pub(super) text: &'a [u8],
}

impl Records {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.begin);
        self.looked -= self.begin;
        self.begin = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next record; at the end of the bytes also one without a line end.
    pub(super) fn next(&mut self, is_end: bool) -> Option<Record<'_>> {
        let begin = self.begin;
        while self.looked < self.buffer.len() {
            let byte = self.buffer[self.looked];
            self.looked += 1;
            match byte {
                b'"' => self.is_quoted = !self.is_quoted,
                b'\n' => {
                    self.line += 1;
                    if !self.is_quoted {
                        self.begin = self.looked;
                        return Some(Record { text: &self.buffer[begin..self.looked] });
                    }
                }
                _ => {}
            }
        }
        if !is_end || begin == self.buffer.len() {
            return None;
        }
        self.begin = self.buffer.len();
        Some(Record { text: &self.buffer[begin..] })
    }

    /// Fails if a record is too long.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.buffer.len() - self.begin > RECORD_MAX_BYTES {
            true => Err(format!("a record is longer than {RECORD_MAX_BYTES} bytes: is a quote missing?")),
            false => Ok(()),
        }
    }

    /// How many lines ended.
    pub(super) fn line(&self) -> u64 {
        self.line
    }
}

impl Record<'_> {
    /// The names in a line of them; `None` if one is missing.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let text = std::str::from_utf8(self.text).ok()?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.trim_end_matches(['\r', '\n']);
        let mut names = vec![String::new()];
        let mut is_quoted = false;
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let name = names.last_mut()?;
            match letter {
                '"' if is_quoted && letters.peek() == Some(&'"') => {
                    letters.next();
                    name.push('"');
                }
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => names.push(String::new()),
                other => name.push(other),
            }
        }
        names.iter().all(|name| !name.is_empty()).then_some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_outside_of_quotes_however_bytes_come() {
        let text = b"a,b\n1,\"x\ny\"\"\n\"\r\n2,\n3";
        for step in 1..text.len() {
            let mut records = Records::default();
            let mut found = Vec::new();
            for piece in text.chunks(step).chain([&b""[..]]) {
                records.push(piece);
                while let Some(record) = records.next(piece.is_empty()) {
                    found.push(String::from_utf8(record.text.to_vec()).unwrap());
                }
            }
            assert_eq!(found, ["a,b\n", "1,\"x\ny\"\"\n\"\r\n", "2,\n", "3"], "{step}");
        }
    }

    #[test]
    fn names_are_read_with_their_quotes() {
        let names = |text: &str| Record { text: text.as_bytes() }.names();
        assert_eq!(names("\u{feff}a,\"b,\"\"c\"\r\n").unwrap(), ["a", "b,\"c"]);
        assert_eq!(names("a,,b\n"), None);
    }
}
