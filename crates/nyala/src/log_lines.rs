//! The last lines of the process's log, kept in memory for administrators: `cli::log` adds them, `/debug/log/lines` shows
//! them.
//!
//! They are what standard error gets, so they have no secrets either. As for the filter of the log, a process has one, and
//! it is not handed around.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tracing::Level;

/// So many lines are kept, …
const LINES_MAX: usize = 1000;
/// … each up to so many bytes of message and fields together: a megabyte at most.
const LINE_BYTES_MAX: usize = 1000;

/// A line.
#[derive(Debug, Clone)]
pub(crate) struct LogLine {
    /// Its place among all lines since the start, from 1.
    pub(crate) number: u64,
    pub(crate) time_ns: i64,
    pub(crate) level: Level,
    /// The part of the program.
    pub(crate) target: &'static str,
    pub(crate) message: String,
    /// As `name=value`, with a space between two.
    pub(crate) fields: String,
}

#[derive(Default)]
struct Lines {
    last_number: u64,
    lines: VecDeque<LogLine>,
}

static LINES: Mutex<Lines> = Mutex::new(Lines { last_number: 0, lines: VecDeque::new() });

/// Adds a line, whose number is given here.
pub(crate) fn add(mut line: LogLine) {
    cut(&mut line.message, LINE_BYTES_MAX);
    cut(&mut line.fields, LINE_BYTES_MAX - line.message.len());
    let mut all = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    all.last_number += 1;
    line.number = all.last_number;
    if all.lines.len() == LINES_MAX {
        all.lines.pop_front();
    }
    all.lines.push_back(line);
}

/// The lines after a number that are at least as severe as a level, oldest first.
pub(crate) fn after(number: u64, level: Level) -> Vec<LogLine> {
    let all = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    all.lines.iter().filter(|line| line.number > number && line.level <= level).cloned().collect()
}

fn cut(text: &mut String, bytes_max: usize) {
    if text.len() <= bytes_max {
        return;
    }
    let end = (0..=bytes_max.saturating_sub('…'.len_utf8())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    if bytes_max > 0 {
        text.push('…');
    }
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_in_number_and_length() {
        let line = |level, message: &str| LogLine {
            number: 0,
            time_ns: 0,
            level,
            target: "test",
            message: message.to_owned(),
            fields: "ä".repeat(LINE_BYTES_MAX),
        };
        add(line(Level::WARN, "first"));
        let first = after(0, Level::WARN).last().expect("a line").number;
        for number in 0..LINES_MAX {
            add(line(if number % 2 == 0 { Level::INFO } else { Level::ERROR }, "more"));
        }
        let all = after(0, Level::TRACE);
        assert_eq!((all.len(), all[0].number), (LINES_MAX, first + 1));
        assert!(all.iter().all(|line| line.message.len() + line.fields.len() <= LINE_BYTES_MAX));
        assert_eq!(after(first, Level::WARN).len(), LINES_MAX / 2);
        assert_eq!(after(first + LINES_MAX as u64 - 1, Level::TRACE).len(), 1);
    }
}
