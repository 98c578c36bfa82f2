//! What was moved and compared, for the person who moves.

use nyala_db::moving::{Comparison, Levelled, Move, MovedTable};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// How the writers of a server were held off.
pub(super) struct Stop {
    pub(super) took: Duration,
    /// Rows that were read meanwhile, because they had changed since the last round.
    pub(super) rows: u64,
}

/// What came of a move.
pub(super) struct Report {
    begun: Instant,
    text: String,
    pub(super) moved: Levelled,
    series_records: u64,
    /// A move was begun, or gone on with.
    is_begun: bool,
    /// How writers were held off at the end.
    pub(super) stop: Option<Stop>,
    /// The source is a server that goes on.
    pub(super) is_preliminary: bool,
}

impl Report {
    pub(super) fn new(begun: Instant) -> Self {
        Self {
            begun,
            text: String::new(),
            moved: Levelled::default(),
            series_records: 0,
            is_begun: false,
            stop: None,
            is_preliminary: false,
        }
    }

    pub(super) fn note(&mut self, words: String) {
        self.line(format_args!("note: {words}"));
    }

    /// A move begins, or a further round of it.
    pub(super) fn begun(&mut self, moving: &Move) {
        if !self.is_begun {
            if moving.is_resumed() {
                self.note("the move had been begun before".to_owned());
            }
            moving.notes().iter().for_each(|note| self.note(note.clone()));
        }
        self.is_begun = true;
    }

    /// Adds what became of rows in a round.
    pub(super) fn add(&mut self, moved: Levelled, series_records: u64) {
        self.moved.add(moved);
        // What is there now, and not what was there in all rounds.
        (self.moved.rows, self.series_records) = (moved.rows, series_records);
    }

    /// Adds what was found of a table.
    pub(super) fn compared(&mut self, table: &MovedTable, comparison: &Comparison) {
        let Comparison { rows, days, differing_days, differences } = comparison;
        let what = if table.has_points { "points" } else { "rows" };
        match differing_days {
            0 if table.has_points => {
                self.line(format_args!("{}: {rows} {what} of {days} days, equal", table.shown));
            }
            0 => self.line(format_args!("{}: {rows} {what}, equal", table.shown)),
            _ => {
                differences.iter().for_each(|words| self.line(format_args!("differs: {words}")));
                let unlisted = differing_days - differences.len() as u64;
                if unlisted > 0 {
                    self.line(format_args!("differs: {unlisted} further days of {}", table.shown));
                }
            }
        }
    }

    fn line(&mut self, words: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{words}").expect("writing to memory does not fail");
    }

    pub(super) fn print(mut self, is_equal: bool, only_compared: bool) -> Result<(), String> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let Levelled { rows, inserted, changed, deleted } = self.moved;
        if !only_compared {
            let series_records = self.series_records;
            self.line(format_args!(
                "{rows} rows and {series_records} records of series in {seconds:.1} s: {inserted} rows were new in the target, \
                 {changed} were others there, {deleted} were surplus"
            ));
        }
        if let Some(Stop { took, rows }) = self.stop {
            let seconds = took.as_secs_f64();
            self.line(format_args!(
                "writes were held off for {seconds:.2} s, in which {rows} rows were moved or compared that had changed since; \
                 the server takes none any more: start the daemons, and send clients there"
            ));
        }
        self.line(format_args!(
            "{}",
            match (is_equal, only_compared) {
                (true, true) => "both sides are equal",
                (true, false) if self.is_preliminary => {
                    "everything that the server had was moved, and both sides are equal. To end the move, start it again with \
                     --cut-over, or stop the server and move from its directory: what was written since is moved then"
                }
                (true, false) => "everything was moved, and both sides are equal",
                (false, true) => "the sides differ: see above",
                (false, false) => {
                    "the sides differ: see above. Servers do not open the target yet; start the same command again, which \
                     makes it equal"
                }
            }
        ));
        let written = std::io::stdout().write_all(self.text.as_bytes());
        written.map_err(|error| format!("writing the report: {error}"))
    }
}
