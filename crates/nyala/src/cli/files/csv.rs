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

/// Values that each record of a file gets at its end, as CSV.
#[derive(Default)]
pub(super) struct Suffix(Vec<u8>);

impl Suffix {
    /// `None` is NULL.
    pub(super) fn of(values: &[Option<String>]) -> Self {
        let value = |value: &Option<String>| match value {
            Some(text) => format!(",\"{}\"", text.replace('"', "\"\"")),
            None => ",".to_owned(),
        };
        Self(values.iter().map(value).collect::<String>().into_bytes())
    }

    /// Appends a record and the values to a body.
    pub(super) fn append(&self, record: &Record<'_>, body: &mut Vec<u8>) {
        if self.0.is_empty() {
            return body.extend_from_slice(record.text);
        }
        let text = record.text;
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let line_end = &record.text[text.len()..];
        body.extend_from_slice(text);
        body.extend_from_slice(&self.0);
        // As those of the other lines: PostgreSQL refuses a file that has several kinds.
        body.extend_from_slice(if line_end.is_empty() { b"\n" } else { line_end });
    }
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
    fn values_are_appended_before_the_end_of_a_line() {
        let appended = |values: &[Option<&str>], text: &str| {
            let values: Vec<_> = values.iter().map(|value| value.map(str::to_owned)).collect();
            let mut body = b"x\n".to_vec();
            Suffix::of(&values).append(&Record { text: text.as_bytes() }, &mut body);
            String::from_utf8(body).unwrap()
        };
        assert_eq!(appended(&[], "1,a"), "x\n1,a");
        assert_eq!(appended(&[Some("a\",b"), None, Some("")], "1\r\n"), "x\n1,\"a\"\",b\",,\"\"\r\n");
        assert_eq!(appended(&[None], "1\n") + &appended(&[None], "1"), "x\n1,\nx\n1,\n");
    }

    #[test]
    fn names_are_read_with_their_quotes() {
        let names = |text: &str| Record { text: text.as_bytes() }.names();
        assert_eq!(names("\u{feff}a,\"b,\"\"c\"\r\n").unwrap(), ["a", "b,\"c"]);
        assert_eq!(names("a,,b\n"), None);
    }
}
