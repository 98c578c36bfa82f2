//! A program at a terminal of its own: what a person types, and what stands on the screen.
//!
//! What is typed before the program reads a line may be lost: the terminal drops it at Ctrl-C, and editors drop what they
//! have read ahead when a line is given up. So a line can only be typed after its prompt was waited for.

use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A program that is killed when this is dropped.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// All bytes that the program has written.
    written: Arc<Mutex<Vec<u8>>>,
    /// How much of it was looked at.
    seen: usize,
    /// The last prompt that was waited for has no line yet.
    is_asked: bool,
}

impl Terminal {
    /// Starts a program with a terminal of 24 lines and 100 columns, which Ctrl-C works in.
    pub(crate) fn start(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).expect("a terminal");
        let other = || pair.slave.try_clone().expect("a descriptor");
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", program])
            .args(arguments)
            .env("TERM", "xterm")
            .envs(variables.iter().copied())
            .stdin(other())
            .stdout(other())
            .stderr(other())
            .spawn()
            .expect("it starts");
        let keyboard = File::from(pair.master);
        let mut screen = keyboard.try_clone().expect("a descriptor");
        let written: Arc<Mutex<Vec<u8>>> = Arc::default();
        let all = written.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // At the end of the program, reading fails.
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                all.lock().expect("nobody panics here").extend_from_slice(&piece[..count]);
            }
        });
        Self { child, keyboard, written, seen: 0, is_asked: false }
    }

    /// Types a line, or a part of it, at the prompt that was waited for. Its end is Enter, Ctrl-C or Ctrl-D.
    pub(crate) fn types(&mut self, text: &str) {
        assert!(self.is_asked, "nothing was waited for that asks for {text:?}");
        self.is_asked = !text.contains(['\r', '\u{3}', '\u{4}']);
        self.keyboard.write_all(text.as_bytes()).expect("the terminal is there");
    }

    /// Presses Ctrl-C while something runs.
    #[allow(dead_code, reason = "without SQL nothing runs for long")]
    pub(crate) fn interrupts(&mut self) {
        assert!(!self.is_asked, "a line is asked for, and nothing runs");
        self.keyboard.write_all(b"\x03").expect("the terminal is there");
    }

    /// Waits until a text appears behind what was waited for before, and returns what stood before it.
    pub(crate) fn shows(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let unseen = self.unseen();
            if let Some(at) = unseen.find(text) {
                self.seen += at + text.len();
                return unseen[..at].to_owned();
            }
            assert!(begun.elapsed() < TIMEOUT, "{text:?} does not appear in {unseen:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until an editor asks for a line with this prompt, and returns what was written before.
    pub(crate) fn asks(&mut self, prompt: &str) -> String {
        // Editors have pasted text marked as long as they read a line. While it is typed they may show the prompt again.
        let before = self.shows("\u{1b}[?2004h");
        self.shows(prompt);
        self.is_asked = true;
        before
    }

    /// Waits until a line is asked for that is not shown, without an editor.
    pub(crate) fn asks_for_secret(&mut self, prompt: &str) {
        self.shows(prompt);
        self.is_asked = true;
    }

    /// What was written and not waited for yet.
    pub(crate) fn unseen(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("nobody panics here")[self.seen..]).into_owned()
    }

    /// Everything that was written.
    pub(crate) fn all(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("nobody panics here")).into_owned()
    }

    /// Waits until the program ends by itself.
    pub(crate) fn ends(mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("can be waited for") {
                return status;
            }
            assert!(begun.elapsed() < TIMEOUT, "does not end: {}", self.unseen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
