//! Pieces of files that are sent one after the other, and how many of them are written.

use super::inputs::Input;
use super::journal::Journal;
use nyala_bench::report::progress::Progress;
use nyala_core::env::{Clock, SystemClock};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

/// A step of the import.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    /// The load has a name: it is that of its attempts, which keep each other from writing at the same time.
    Named { load: String },
    /// It is tried again.
    Again,
    /// The time of points that have none.
    Timed { time_ns: i64 },
    /// How many rows the table had before the first one was written.
    Began { rows: u64 },
    /// A piece is being sent, which ends behind so many rows of its file (of lines: bytes).
    PieceBegun { file: String, fingerprint: String, until: u64, rows: u64 },
    /// It was written, but for so many rows that were refused.
    PieceDone {
        #[serde(default)]
        refused: u64,
    },
}

/// Begins another attempt. Returns the name of the load, and the number of the attempt. Once it is noted, what the server is asked by it
/// waits until nothing of earlier attempts is under way.
pub(super) fn next_attempt(journal: &mut Journal<Line>, lines: &[Line]) -> Result<(String, u64), String> {
    let named = lines.iter().find_map(|line| match line {
        Line::Named { load } => Some(load.clone()),
        _ => None,
    });
    let Some(load) = named else {
        let mut name = [0; 16];
        SystemRandom::new().fill(&mut name).map_err(|_| "the system has no random numbers".to_owned())?;
        let load = format!("{:032x}", u128::from_be_bytes(name));
        journal.add(&Line::Named { load: load.clone() })?;
        return Ok((load, 1));
    };
    journal.add(&Line::Again)?;
    let again = lines.iter().filter(|line| matches!(line, Line::Again)).count() as u64;
    Ok((load, again + 2))
}

/// The time of points that have none. It is the same when the import goes on: a piece that is sent again is the same points then.
pub(super) fn time_of_points(journal: &mut Journal<Line>, lines: &[Line]) -> Result<i64, String> {
    let noted = lines.iter().find_map(|line| match line {
        Line::Timed { time_ns } => Some(*time_ns),
        _ => None,
    });
    if let Some(time_ns) = noted {
        return Ok(time_ns);
    }
    let time_ns = SystemClock.now_ns();
    journal.add(&Line::Timed { time_ns })?;
    Ok(time_ns)
}

/// Notes pieces in the journal, and knows which ones are done.
pub(super) struct ImportedPieces<'a> {
    journal: Journal<Line>,
    /// Per file how many of its rows (of lines: bytes) are written.
    done: HashMap<(String, String), u64>,
    rows: u64,
    /// Rows that were refused, also by earlier runs.
    pub(super) refused: u64,
    progress: Progress,
    begun: Instant,
    /// Bytes of all files, and of those that are done.
    bytes: (u64, u64),
    /// Whether rows go into a table, where one that is written twice is there twice.
    is_table: bool,
    /// A piece was sent, by this run or an earlier one.
    is_begun: bool,
    path: &'a Path,
}

impl<'a> ImportedPieces<'a> {
    /// The pieces of some files. `path` is that of the journal, and `lines` are those that are in it.
    pub(super) fn of(
        journal: Journal<Line>,
        path: &'a Path,
        lines: &[Line],
        inputs: &[Input],
        is_table: bool,
    ) -> Self {
        let bytes = inputs.iter().map(|input| input.bytes).sum();
        Self {
            journal,
            done: HashMap::new(),
            rows: 0,
            refused: 0,
            progress: Progress::start("importing"),
            begun: Instant::now(),
            bytes: (bytes, 0),
            is_table,
            is_begun: lines.iter().any(|line| matches!(line, Line::PieceBegun { .. })),
            path,
        }
    }

    /// A file is read to its end.
    pub(super) fn end_file(&mut self, input: &Input) {
        self.bytes.1 += input.bytes;
    }

    /// Learns what an earlier run has done. Returns how many rows the table had before it.
    pub(super) fn resume(&mut self, lines: Vec<Line>, now: u64) -> Result<u64, String> {
        let mut first = None;
        let mut open = None;
        let mut written = 0;
        for line in lines {
            match line {
                Line::Named { .. } | Line::Again | Line::Timed { .. } => {}
                Line::Began { rows } => first = Some(rows),
                Line::PieceBegun { file, fingerprint, until, rows } => {
                    open = Some((file, fingerprint, until, rows))
                }
                Line::PieceDone { refused } => {
                    self.refused += refused;
                    if let Some((file, fingerprint, until, rows)) = open.take() {
                        self.done.insert((file, fingerprint), until);
                        written += rows;
                    }
                }
            }
        }
        let Some(first) = first else {
            self.journal.add(&Line::Began { rows: now })?;
            return Ok(now);
        };
        let Some((file, fingerprint, until, rows)) = open else { return Ok(first) };
        // Points that are written twice are the same points. Rows of a table are not: was the last piece written?
        if self.is_table && now == first + written + rows {
            self.done.insert((file, fingerprint), until);
            self.journal.add(&Line::PieceDone { refused: 0 })?;
        } else if self.is_table && now != first + written {
            return Err(format!(
                "the import was interrupted while {rows} rows of {file} were written, and somebody else has written to the \
                 table since: look whether they are there, and remove {} to begin anew",
                self.path.display()
            ));
        }
        Ok(first)
    }

    /// How many rows of a file (of lines: bytes) are written.
    pub(super) fn done_rows(&self, input: &Input) -> u64 {
        self.done.get(&input.key()).copied().unwrap_or(0)
    }

    /// Writes a piece, which ends behind so many rows of the file. `write` returns how many of its rows were refused.
    pub(super) fn send(
        &mut self,
        input: &Input,
        until: u64,
        rows: u64,
        write: impl FnOnce() -> Result<u64, String>,
    ) -> Result<(), String> {
        let (file, fingerprint) = input.key();
        self.journal.add(&Line::PieceBegun { file, fingerprint, until, rows })?;
        self.is_begun = true;
        let refused = write().map_err(|words| {
            format!(
                "{}: {words}\nRows before are written: start the same command again to go on, or remove {} to begin anew",
                input.shown,
                self.path.display()
            )
        })?;
        self.journal.add(&Line::PieceDone { refused })?;
        self.rows += rows;
        self.refused += refused;
        Ok(())
    }

    /// Ends the import, which is complete or has failed. What can go on keeps its journal. Where no piece was sent, it would only
    /// keep the corrected command away.
    pub(super) fn end<T>(self, outcome: Result<T, String>) -> Result<T, String> {
        self.progress.clear();
        if outcome.is_ok() {
            self.journal.remove()?;
        } else if !self.is_begun {
            // What is wrong is to be read, not this.
            let _ = self.journal.remove();
        }
        outcome
    }

    /// Shows how much of a file is read.
    pub(super) fn watch(&mut self, read_bytes: u64) {
        let share = (self.bytes.1 + read_bytes) as f64 / self.bytes.0.max(1) as f64;
        let (rows, begun) = (self.rows, self.begun);
        self.progress.update(share, || super::note(rows, begun));
    }
}
