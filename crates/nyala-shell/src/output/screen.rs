//! Where output goes: standard output, a file of `\o`, or a pager if it is longer than the terminal.
//!
//! Whatever goes to a terminal passes through here, and control characters other than line ends are escaped on the way.

use crate::style::escaped;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Result, Stdout, Write, stdout};
use std::process::{Child, Command, Stdio};

/// Used without `PAGER`: long lines are cut, and what fits is left on the screen.
const PAGER: &str = "less";
const LESS: &str = "FSX";
/// A terminal that does not say its height.
const HEIGHT: usize = 24;

/// Output of one statement.
pub(crate) struct Screen<'a> {
    to: To<'a>,
    is_terminal: bool,
    /// The beginning of a character whose end has not come yet.
    unfinished: Vec<u8>,
}

enum To<'a> {
    Stdout(BufWriter<Stdout>),
    File(BufWriter<&'a File>),
    /// A terminal, and a pager if there will be more lines than it has.
    Undecided {
        held: Vec<u8>,
        lines: usize,
        height: usize,
    },
    Pager {
        child: Child,
    },
}

impl<'a> Screen<'a> {
    /// To standard output; `paged` if the terminal's user is there to read.
    pub(crate) fn stdout(paged: bool) -> Self {
        let is_terminal = stdout().is_terminal();
        let to = match paged && is_terminal {
            true => To::Undecided { held: Vec::new(), lines: 0, height: height() },
            false => To::Stdout(BufWriter::new(stdout())),
        };
        Self { to, is_terminal, unfinished: Vec::new() }
    }

    /// To a file.
    pub(crate) fn file(file: &'a File) -> Self {
        Self { to: To::File(BufWriter::new(file)), is_terminal: file.is_terminal(), unfinished: Vec::new() }
    }

    /// Shows everything, and waits until the pager is left.
    pub(crate) fn finish(mut self) -> Result<()> {
        if !self.unfinished.is_empty() {
            let rest = String::from_utf8_lossy(&std::mem::take(&mut self.unfinished)).into_owned();
            self.put(escaped(&rest).as_bytes())?;
        }
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::File(out) => out.flush(),
            To::Undecided { held, .. } => {
                let mut out = stdout();
                out.write_all(held)?;
                out.flush()
            }
            To::Pager { child } => {
                drop(child.stdin.take());
                child.wait().map(|_| ())
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.write_all(bytes),
            To::File(out) => out.write_all(bytes),
            To::Undecided { held, lines, height } => {
                held.extend_from_slice(bytes);
                *lines += bytes.iter().filter(|byte| **byte == b'\n').count();
                // The prompt needs a line, too.
                if *lines < *height {
                    return Ok(());
                }
                let held = std::mem::take(held);
                self.to = match pager() {
                    Some(child) => To::Pager { child },
                    None => To::Stdout(BufWriter::new(stdout())),
                };
                self.put(&held)
            }
            To::Pager { child } => match &mut child.stdin {
                Some(pipe) => pipe.write_all(bytes),
                None => Err(ErrorKind::BrokenPipe.into()),
            },
        }
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        // A statement failed: the pager still shows what came before.
        if let To::Pager { child } = &mut self.to {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

impl Write for Screen<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if !self.is_terminal {
            return self.put(bytes).map(|()| bytes.len());
        }
        self.unfinished.extend_from_slice(bytes);
        let (whole, rest) = split_unfinished(&self.unfinished);
        let text = String::from_utf8_lossy(whole).into_owned();
        self.unfinished = rest.to_vec();
        let mut safe = String::with_capacity(text.len());
        for (number, line) in text.split('\n').enumerate() {
            safe.push_str(if number == 0 { "" } else { "\n" });
            safe.push_str(&escaped(line));
        }
        self.put(safe.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::File(out) => out.flush(),
            To::Undecided { .. } | To::Pager { .. } => Ok(()),
        }
    }
}

/// Splits off the beginning of a character whose end is missing.
fn split_unfinished(bytes: &[u8]) -> (&[u8], &[u8]) {
    let from = bytes.len().saturating_sub(3);
    let begins = (from..bytes.len()).rev().find(|at| bytes[*at] >= 0xc0);
    let at = begins.filter(|at| {
        let length = match bytes[*at] {
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        at + length > bytes.len()
    });
    bytes.split_at(at.unwrap_or(bytes.len()))
}

/// The lines of the terminal.
fn height() -> usize {
    let size = rustix::termios::tcgetwinsize(stdout()).ok();
    size.map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(HEIGHT)
}

/// Starts the pager; `None` if there is none, or `PAGER` is empty.
fn pager() -> Option<Child> {
    let command = std::env::var("PAGER").unwrap_or_else(|_| PAGER.to_owned());
    if command.trim().is_empty() {
        return None;
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(&command).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", LESS);
    }
    // `sh` starts even if the pager does not exist.
    let found = command.split_whitespace().next().is_some_and(is_found);
    found.then(|| shell.spawn().ok()).flatten()
}

/// Whether there is such a program.
fn is_found(program: &str) -> bool {
    if program.contains('/') {
        return std::path::Path::new(program).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        let text = "aä日🦀".as_bytes();
        for end in 0..=text.len() {
            let (whole, rest) = split_unfinished(&text[..end]);
            assert!(std::str::from_utf8(whole).is_ok() && rest.len() < 4, "{end}");
        }
        assert_eq!(split_unfinished(b"\xff\x80\x80\x80\x80").1, b"");
    }
}
