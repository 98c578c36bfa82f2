//! Passwords: from the environment, or typed at the terminal, which does not show them.

use crate::error::{Result, ShellError};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{Read, Write};

/// Variables that may have the password.
pub(crate) const VARIABLES: [&str; 2] = ["NYALA_PASSWORD", "INFLUX_PASSWORD"];
const PASSWORD_BYTES_MAX: usize = 64 << 10;

/// The password of a user: that of the first of the variables that is there, or typed.
pub(crate) fn of(username: &str, variables: &[&str]) -> Result<String> {
    match variables.iter().find_map(|name| std::env::var(name).ok()) {
        Some(password) => Ok(password),
        None => ask(&format!("Password of {}: ", crate::style::escaped(username)), variables[0]),
    }
}

/// Asks at the terminal, also if standard input is a file. The variable is what can be set instead.
pub(crate) fn ask(prompt: &str, variable: &str) -> Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        ShellError::Command(format!("there is no terminal to ask for the password: set {variable}"))
    })?;
    let failed = |error: std::io::Error| ShellError::Command(format!("asking for the password: {error}"));
    let silent = Silent::begin(&terminal).map_err(failed)?;
    (&terminal).write_all(prompt.as_bytes()).map_err(failed)?;
    let typed = read(&mut &terminal);
    drop(silent);
    // The line end was not shown either.
    (&terminal).write_all(b"\n").map_err(failed)?;
    typed.map_err(failed)?.ok_or(ShellError::Cancelled)
}

/// Reads what is typed up to the end of the line; `None` after Ctrl-C or Ctrl-D.
fn read(terminal: &mut impl Read) -> std::io::Result<Option<String>> {
    const INTERRUPT: u8 = 3;
    const END: u8 = 4;
    const BACKSPACE: u8 = 8;
    const CLEAR: u8 = 21;
    const DELETE: u8 = 0x7f;
    let mut typed = Vec::new();
    let mut byte = [0];
    while typed.len() < PASSWORD_BYTES_MAX && terminal.read(&mut byte)? == 1 {
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&typed).into_owned())),
            INTERRUPT => return Ok(None),
            END if typed.is_empty() => return Ok(None),
            CLEAR => typed.clear(),
            BACKSPACE | DELETE => {
                // A character of UTF-8 has its first byte and those that continue it.
                while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => typed.push(byte),
        }
    }
    Ok(None)
}

/// As long as it lives, the terminal does not show what is typed.
struct Silent<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silent<'a> {
    fn begin(terminal: &'a File) -> std::io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        // Ctrl-C is a byte like others, so that nothing ends with a silent terminal.
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // The terminal may be gone; there is nobody to tell.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_taken_back() {
        let typed = |bytes: &[u8]| read(&mut &bytes[..]).unwrap();
        assert_eq!(typed("ab\u{7f}ö\u{7f}c\n".as_bytes()).unwrap(), "ac");
        assert_eq!(typed(b"wrong\x15right\r").unwrap(), "right");
        assert_eq!(typed(b"abc\x03"), None);
        assert_eq!(typed(b"\x04"), None);
        assert_eq!(typed(b"no end"), None);
    }
}
