//! A program at a terminal of its own: what a person types, and what stands on the screen.

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
        Self { child, keyboard, written, seen: 0 }
    }

    /// Types a text.
    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("the terminal is there");
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

    /// Waits until a line is asked for with this prompt, and returns what stood before it.
    pub(crate) fn asks(&mut self, prompt: &str) -> String {
        // Editors have pasted text marked as long as they read a line. While it is typed they may show the prompt again.
        let before = self.shows("\u{1b}[?2004h");
        before + &self.shows(prompt)
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
