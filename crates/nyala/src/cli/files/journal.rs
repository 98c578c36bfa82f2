//! How far a command has come: a file with a JSON object a line. A line is written when everything that it tells is durable,
//! or before something begins that cannot be told apart from being done. A last line that is cut off is ignored. The file is
//! removed when the command is complete. It is locked while the command runs, so that no other one writes there.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
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
    /// It is the journal of another command, or no journal: then it stays as it is. Or another command is using it.
    pub(super) fn open<H>(path: &Path, header: &H) -> Result<(Self, Vec<L>), String>
    where
        H: Serialize + DeserializeOwned + PartialEq,
    {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let of_another = || {
            Err(format!(
                "{} is of another command: finish that one, or remove the file to begin anew",
                path.display()
            ))
        };
        let mut file = locked(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file, lines: PhantomData };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut written = text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let Some(first) = written.next() else {
            // A first line that was cut off is written again. Other bytes are those of a file that is no journal.
            if !line_of(header)?.starts_with(&text) {
                return of_another();
            }
            journal.file.set_len(0).map_err(failed)?;
            journal.append(header)?;
            return Ok((journal, Vec::new()));
        };
        if !serde_json::from_slice::<H>(first).is_ok_and(|own| own == *header) {
            return of_another();
        }
        let lines = written.map(serde_json::from_slice).collect::<Result<_, _>>();
        let lines = lines.map_err(|error| format!("{}: {error}", path.display()))?;
        // What was cut off is written again.
        journal.file.set_len(whole as u64).map_err(failed)?;
        Ok((journal, lines))
    }

    /// Notes a line, durably.
    pub(super) fn add(&mut self, line: &L) -> Result<(), String> {
        self.append(line)
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), String> {
        let text = line_of(line)?;
        let written = self.file.write_all(&text).and_then(|()| self.file.sync_all());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// The command is complete.
    pub(super) fn remove(self) -> Result<(), String> {
        std::fs::remove_file(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// Opens the file of a journal, or creates it, and keeps other commands from it.
fn locked(path: &Path) -> Result<File, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    loop {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "{} is in use: another command goes on there. Wait for it, or work in another folder",
                    path.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // A command that was complete meanwhile has removed what was opened.
        let is_there = match std::fs::metadata(path) {
            Ok(named) => named.ino() == file.metadata().map_err(failed)?.ino(),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(failed(error)),
        };
        if is_there {
            return Ok(file);
        }
    }
}

fn line_of(line: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut text = serde_json::to_vec(line).map_err(|error| error.to_string())?;
    text.push(b'\n');
    Ok(text)
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
        drop(journal);
        let length = std::fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        let (mut journal, lines) = open("a").unwrap();
        assert_eq!(lines, [1]);
        journal.add(&4).unwrap();
        drop(journal);
        assert!(open("b").err().unwrap().contains("another command"));
        let (journal, lines) = open("a").unwrap();
        assert_eq!(lines, [1, 4]);
        journal.remove().unwrap();
        assert!(open("b").unwrap().1.is_empty());
    }

    #[test]
    fn two_commands_never_share_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let open = || Journal::<u64>::open(&path, &"a".to_owned());
        let (mut journal, _) = open().unwrap();
        assert!(open().err().unwrap().contains("is in use"));
        journal.add(&1).unwrap();
        drop(journal);
        assert_eq!(open().unwrap().1, [1]);
    }

    #[test]
    fn a_file_that_is_no_journal_keeps_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let open = || Journal::<u64>::open(&path, &"header".to_owned());
        for text in ["a,b\n1,2\n3", "no end", "\"head\nand more", "\"other\"\n1\n2"] {
            std::fs::write(&path, text).unwrap();
            assert!(open().err().unwrap().contains("another command"), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        // What was cut off in its first line is a journal.
        std::fs::write(&path, "\"hea").unwrap();
        assert!(open().unwrap().1.is_empty());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\"header\"\n");
    }
}
