//! Progress on standard error: one line that is redrawn on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const TERMINAL_PAUSE: Duration = Duration::from_millis(100);
const PLAIN_PAUSE: Duration = Duration::from_secs(5);
const BAR_WIDTH: usize = 28;

/// Progress of one phase of a run.
#[derive(Debug)]
pub struct Progress {
    title: String,
    terminal: bool,
    started: Instant,
    shown: Option<Instant>,
}

impl Progress {
    /// A phase called `title` that begins now.
    pub fn start(title: impl Into<String>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { title: title.into(), terminal, started: Instant::now(), shown: None }
    }

    /// Shows that `share` (0 to 1) is done, with a note such as a rate; does nothing if it was shown a moment ago.
    pub fn update(&mut self, share: f64, note: impl FnOnce() -> String) {
        let pause = if self.terminal { TERMINAL_PAUSE } else { PLAIN_PAUSE };
        let last = self.shown.unwrap_or(self.started);
        if last.elapsed() < pause {
            return;
        }
        self.shown = Some(Instant::now());
        let share = share.clamp(0.0, 1.0);
        let remaining = remaining(self.started.elapsed(), share);
        let (percent, note) = (share * 100.0, note());
        // A closed standard error must not end a benchmark.
        let _ = if self.terminal {
            let filled = (share * BAR_WIDTH as f64) as usize;
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled));
            write!(std::io::stderr(), "\r\x1b[2K{} {bar} {percent:3.0} % {note}{remaining}", self.title)
        } else {
            writeln!(std::io::stderr(), "{}: {percent:.0} % {note}{remaining}", self.title)
        };
    }

    /// Ends the phase and clears its line on a terminal.
    pub fn clear(self) {
        if self.terminal && self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }

    /// Ends the phase with one last line.
    pub fn finish(self, summary: &str) {
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{}: {summary}", self.title);
    }
}

fn remaining(elapsed: Duration, share: f64) -> String {
    if !(0.01..1.0).contains(&share) {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * (1.0 - share) / share;
    if seconds < 90.0 {
        format!(", {seconds:.0} s left")
    } else {
        format!(", {:.0} min left", seconds / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_shown_when_it_can_be_estimated() {
        assert_eq!(remaining(Duration::from_secs(1), 0.001), "");
        assert_eq!(remaining(Duration::from_secs(10), 0.5), ", 10 s left");
        assert_eq!(remaining(Duration::from_secs(100), 0.1), ", 15 min left");
        assert_eq!(remaining(Duration::from_secs(100), 1.0), "");
    }
}
