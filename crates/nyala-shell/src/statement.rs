//! Where statements end: at a semicolon in SQL, at the end of the line in InfluxQL. Commands of the shell are a line.
//!
//! The reader gets lines and keeps what is not complete yet. It looks at each character once, however long a statement is.

use crate::language::Language;

/// What a person or a script says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// The line that it begins in, from 1.
    pub(crate) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For the server.
    Statement,
    /// For the shell.
    Command,
}

/// Words that begin a command of the shell, as in influx and psql. No statement begins with them.
const WORDS: [&str; 14] = [
    "auth",
    "chunked",
    "clear",
    "connect",
    "consistency",
    "exit",
    "format",
    "help",
    "history",
    "precision",
    "pretty",
    "quit",
    "settings",
    "use",
];
/// A command of InfluxQL, and a statement of SQL.
const INSERT: &str = "insert";
/// Longer statements are refused by the server.
const STATEMENT_BYTES_MAX: usize = 64 << 20;

/// Collects lines until a statement is complete.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pending: String,
    /// How much of `pending` was looked at, and what is open there.
    at: usize,
    open: Open,
    /// Lines before those of `pending`.
    lines: usize,
}

/// What a position of a statement of SQL is inside of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    /// `'…'`; with a prefix `E`, a backslash escapes the next character.
    Text { escapes: bool },
    /// `"…"`.
    Name,
    /// `-- …`.
    LineComment,
    /// `/* … */`, which nest.
    Comment { depth: usize },
    /// `$tag$…$tag$`.
    Dollar(String),
}

impl Reader {
    /// Adds a line, without its end.
    ///
    /// # Errors
    /// The statement is too long.
    pub(crate) fn push_line(&mut self, line: &str) -> Result<(), String> {
        if self.pending.len() + line.len() > STATEMENT_BYTES_MAX {
            *self = Self::default();
            return Err(format!("a statement of more than {} MiB", STATEMENT_BYTES_MAX >> 20));
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        Ok(())
    }

    /// The next complete statement or command.
    pub(crate) fn next(&mut self, language: Language) -> Option<Input> {
        if self.at == 0 {
            self.skip_blank();
        }
        if self.pending.is_empty() {
            return None;
        }
        let line_end = self.pending.find('\n').unwrap_or(self.pending.len());
        let first_line = &self.pending[..line_end];
        if self.at == 0 && is_command(first_line, language) {
            return Some(self.take(line_end + 1, Kind::Command));
        }
        if language == Language::Influxql {
            let says_nothing = is_comment(first_line);
            let line = self.take(line_end + 1, Kind::Statement);
            return if says_nothing { self.next(language) } else { Some(line) };
        }
        let end = self.scan()?;
        Some(self.take(end, Kind::Statement))
    }

    /// What is left at the end of the input: a last statement without a semicolon.
    pub(crate) fn finish(&mut self) -> Option<Input> {
        let is_nothing = is_comment(&self.pending);
        let length = self.pending.len();
        let rest = self.take(length, Kind::Statement);
        (!is_nothing).then_some(rest)
    }

    /// Whether a statement has begun.
    #[cfg(test)]
    fn has_begun(&self) -> bool {
        !self.pending.trim().is_empty()
    }

    fn take(&mut self, end: usize, kind: Kind) -> Input {
        let end = end.min(self.pending.len());
        let line = self.lines + 1;
        let text: String = self.pending.drain(..end).collect();
        self.lines += text.matches('\n').count();
        (self.at, self.open) = (0, Open::Nothing);
        Input { kind, text: text.trim().to_owned(), line }
    }

    fn skip_blank(&mut self) {
        let blank = self.pending.len() - self.pending.trim_start().len();
        self.lines += self.pending[..blank].matches('\n').count();
        self.pending.drain(..blank);
    }

    /// Looks for the semicolon that ends the first statement, and returns where the text after it begins.
    fn scan(&mut self) -> Option<usize> {
        let text = self.pending.as_bytes();
        while self.at < text.len() {
            let rest = &text[self.at..];
            let (open, length) = match (&mut self.open, rest) {
                (Open::Nothing, [b';', ..]) => return Some(self.at + 1),
                (Open::Nothing, [b'\'', ..]) => {
                    let before = &text[..self.at];
                    let escapes = matches!(before.last(), Some(b'e' | b'E'))
                        && !before.len().checked_sub(2).is_some_and(|at| is_of_a_name(before[at]));
                    (Open::Text { escapes }, 1)
                }
                (Open::Nothing, [b'"', ..]) => (Open::Name, 1),
                (Open::Nothing, [b'-', b'-', ..]) => (Open::LineComment, 2),
                (Open::Nothing, [b'/', b'*', ..]) => (Open::Comment { depth: 1 }, 2),
                (Open::Nothing, [b'$', ..])
                    if !self.at.checked_sub(1).is_some_and(|at| is_of_a_name(text[at])) =>
                {
                    match dollar_quote(rest) {
                        Some(quote) => {
                            let length = quote.len();
                            (Open::Dollar(quote), length)
                        }
                        None => (Open::Nothing, 1),
                    }
                }
                (Open::Text { escapes: true }, [b'\\', _, ..]) => (Open::Text { escapes: true }, 2),
                (Open::Text { .. }, [b'\'', ..])
                | (Open::Name, [b'"', ..])
                | (Open::LineComment, [b'\n', ..]) => (Open::Nothing, 1),
                (Open::Comment { depth }, [b'/', b'*', ..]) => (Open::Comment { depth: *depth + 1 }, 2),
                (Open::Comment { depth: 1 }, [b'*', b'/', ..]) => (Open::Nothing, 2),
                (Open::Comment { depth }, [b'*', b'/', ..]) => (Open::Comment { depth: *depth - 1 }, 2),
                (Open::Dollar(quote), rest) if rest.starts_with(quote.as_bytes()) => {
                    (Open::Nothing, quote.len())
                }
                (open, _) => (std::mem::take(open), 1),
            };
            (self.open, self.at) = (open, self.at + length);
        }
        None
    }
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The quote `$tag$` that a text begins with.
fn dollar_quote(text: &[u8]) -> Option<String> {
    let end = text[1..].iter().position(|byte| !is_of_a_name(*byte))? + 1;
    let is_quote = text[end] == b'$' && !text[1].is_ascii_digit();
    is_quote.then(|| String::from_utf8_lossy(&text[..=end]).into_owned())
}

/// Whether a line is a command of the shell.
pub(crate) fn is_command(line: &str, language: Language) -> bool {
    let line = line.trim_start();
    if line.starts_with('\\') {
        return true;
    }
    let word = line.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_word = WORDS.iter().any(|own| own.eq_ignore_ascii_case(word))
        || language == Language::Influxql && word.eq_ignore_ascii_case(INSERT);
    // A word alone, or words behind it: `use.x` is something else.
    is_word && line[word.len()..].chars().next().is_none_or(|next| next.is_whitespace() || next == ';')
}

/// Whether the text of an editor can be executed as it is.
pub(crate) fn is_complete(text: &str, language: Language) -> bool {
    let mut reader = Reader::default();
    // What is too long is executed, and refused then.
    if reader.push_line(text).is_err() {
        return true;
    }
    while reader.next(language).is_some() {}
    is_comment(&reader.pending)
}

/// Whether the text says nothing.
fn is_comment(text: &str) -> bool {
    let mut rest = text.trim_start();
    loop {
        let after = match (rest.strip_prefix("--"), rest.strip_prefix("/*")) {
            (Some(comment), _) => comment.split_once('\n').map_or("", |(_, after)| after),
            (None, Some(comment)) => match after_comment(comment) {
                Some(after) => after,
                // The server says that its end is missing.
                None => return false,
            },
            (None, None) => return rest.is_empty(),
        };
        rest = after.trim_start();
    }
}

/// What stands behind the end of a comment that `/*` has begun; `None` if it has none.
fn after_comment(text: &str) -> Option<&str> {
    let (mut at, mut depth) = (0, 1);
    while depth > 0 {
        at += text[at..].find(['*', '/'])?;
        let length = match &text.as_bytes()[at..] {
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            _ => 1,
        };
        at += length;
    }
    Some(&text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, language: Language) -> (Vec<String>, bool) {
        let mut reader = Reader::default();
        let mut inputs = Vec::new();
        for line in text.lines() {
            reader.push_line(line).unwrap();
            while let Some(input) = reader.next(language) {
                let mark = if input.kind == Kind::Command { "!" } else { "" };
                inputs.push(format!("{}:{mark}{}", input.line, input.text));
            }
        }
        (inputs, reader.has_begun())
    }

    #[test]
    fn statements_of_sql_end_at_semicolons() {
        let sql = |text| read(text, Language::Sql);
        assert_eq!(sql("SELECT 1;SELECT\n2 ;"), (vec!["1:SELECT 1;".into(), "1:SELECT\n2 ;".into()], false));
        for whole in [
            "SELECT ';' , E'\\';' , 'a''; ', 'e\\';",
            "SELECT \";\"\";\";",
            "SELECT 1 -- ; '\n;",
            "SELECT /* ; /* ; */ ' ; */ 1;",
            "SELECT $$;$$, $t$ ; $$ ; $t$, a$b, $1;",
            "SELECT e, type'x;';",
        ] {
            assert_eq!(sql(whole), (vec![format!("1:{whole}")], false));
        }
        assert_eq!(sql("\n\nSELECT 'a;\nb"), (vec![], true));
    }

    #[test]
    fn statements_of_influxql_end_with_the_line() {
        let (inputs, _) = read(
            "show databases\n-- or\nuse d;\nselect * from m; select 1\ninsert m v=1",
            Language::Influxql,
        );
        assert_eq!(
            inputs,
            ["1:show databases", "3:!use d;", "4:select * from m; select 1", "5:!insert m v=1"]
        );
    }

    #[test]
    fn commands_are_lines() {
        let (inputs, _) = read("\\d m\nuse d\nselect\n\\d;\nINSERT INTO t VALUES (1);\nuser;", Language::Sql);
        assert_eq!(
            inputs,
            ["1:!\\d m", "2:!use d", "3:select\n\\d;", "5:INSERT INTO t VALUES (1);", "6:user;"]
        );
    }

    #[test]
    fn the_editor_waits_for_the_end() {
        assert!(!is_complete("select 1", Language::Sql));
        assert!(is_complete("select 1", Language::Influxql));
        assert!(is_complete("select 1; -- done", Language::Sql));
        assert!(is_complete("select 1; /* done */", Language::Sql));
        assert!(!is_complete("select 1; /* not", Language::Sql));
        assert!(is_complete("", Language::Sql) && is_complete("\\x", Language::Sql));
    }

    #[test]
    fn the_last_statement_needs_no_semicolon() {
        let mut reader = Reader::default();
        reader.push_line("select 1; select 2").unwrap();
        assert!(reader.next(Language::Sql).is_some() && reader.next(Language::Sql).is_none());
        assert_eq!(reader.finish().unwrap().text, "select 2");
        assert_eq!(reader.finish(), None);
        for nothing in ["-- the end", "/* the end */", "/* /* in */ ' */ -- \n/**/ /***/ ", ""] {
            reader.push_line(nothing).unwrap();
            assert_eq!(reader.finish(), None, "{nothing}");
        }
        for something in ["/* /* in */ out", "/*/", "/* the end */ select 3", "/ * */"] {
            reader.push_line(something).unwrap();
            assert_eq!(reader.finish().unwrap().text, something);
        }
    }
}
