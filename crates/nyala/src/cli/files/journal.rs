//! How far a command has come: a file with a JSON object a line. A line is written when everything that it tells is durable,
//! or before something begins that cannot be told apart from being done. A last line that is cut off is ignored. The file is
//! removed when the command is complete.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A journal with lines of one type. Its first line says what the command does.
pub(super) struct Journal<L> {
    path: PathBuf,
    file: File,
    lines: PhantomData<L>,
}

impl<L: Serialize + DeserializeOwned> Journal<L> {
    /// Opens the journal of a command, or begins it. Returns the lines that are there.
    ///
    /// # Errors
    /// It is the journal of another command.
    pub(super) fn open<H>(path: &Path, header: &H) -> Result<(Self, Vec<L>), String>
    where
        H: Serialize + DeserializeOwned + PartialEq,
    {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut written = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        // What was cut off is written again.
        file.set_len(whole as u64).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file, lines: PhantomData };
        match written.next() {
            None => {
                journal.append(header)?;
                Ok((journal, Vec::new()))
            }
            Some(first) if serde_json::from_slice::<H>(first).is_ok_and(|own| own == *header) => {
                let lines = written.map(serde_json::from_slice).collect::<Result<_, _>>();
                let lines = lines.map_err(|error| format!("{}: {error}", path.display()))?;
                Ok((journal, lines))
            }
            Some(_) => Err(format!(
                "{} is of another command: finish that one, or remove the file to begin anew",
                path.display()
            )),
        }
    }

    /// Notes a line, durably.
    pub(super) fn add(&mut self, line: &L) -> Result<(), String> {
        self.append(line)
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_vec(line).map_err(|error| error.to_string())?;
        text.push(b'\n');
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_all());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// The command is complete.
    pub(super) fn remove(self) -> Result<(), String> {
        std::fs::remove_file(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_there_again_and_a_line_that_was_cut_off_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let open = |header: &str| Journal::<u64>::open(&path, &header.to_owned());
        let (mut journal, lines) = open("a").unwrap();
        assert!(lines.is_empty());
        journal.add(&1).unwrap();
        journal.add(&23).unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        let (mut journal, lines) = open("a").unwrap();
        assert_eq!(lines, [1]);
        journal.add(&4).unwrap();
        assert_eq!(open("a").unwrap().1, [1, 4]);
        assert!(open("b").err().unwrap().contains("another command"));
        journal.remove().unwrap();
        assert!(open("b").unwrap().1.is_empty());
    }
}
