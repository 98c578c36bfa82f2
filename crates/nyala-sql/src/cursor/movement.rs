//! Where a cursor stands, and which steps a FETCH or MOVE takes it: the rules of PostgreSQL.
//!
//! Rows are counted from 1. Before the first row a cursor has passed none; behind the last it has passed all, and knows that none
//! follows. Where a step ends is decided by the rows that there are, which only the step finds out.

/// As many rows as there are.
pub(crate) const ALL: u64 = u64::MAX;

/// Where a FETCH or MOVE goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Movement {
    /// The next rows, at most so many; 0: the current row again.
    Forward(u64),
    /// The rows before the current one, at most so many, the nearest first; 0: the current row again.
    Backward(u64),
    /// The row of a number; from the end if it is negative. 0 is before the first row.
    Absolute(i64),
    /// The row that is so many rows behind the current one.
    Relative(i64),
}

impl Movement {
    /// So many rows forward, or backward if the number is negative.
    pub(crate) fn forward(rows: i64) -> Self {
        if rows < 0 { Self::Backward(rows.unsigned_abs()) } else { Self::Forward(rows.unsigned_abs()) }
    }

    /// So many rows backward, or forward if the number is negative.
    pub(crate) fn backward(rows: i64) -> Self {
        if rows < 0 { Self::Forward(rows.unsigned_abs()) } else { Self::Backward(rows.unsigned_abs()) }
    }

    /// Whether it stays where it is.
    pub(crate) fn stays(self) -> bool {
        matches!(self, Self::Forward(0) | Self::Backward(0) | Self::Relative(0))
    }
}

/// Where a cursor stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// How many rows were passed: the number of the current row, if there is one.
    pub(crate) row: u64,
    /// Whether it is known that none follows, because one was asked for.
    pub(crate) is_after_end: bool,
}

impl Position {
    pub(crate) fn is_on_row(self) -> bool {
        self.row > 0 && !self.is_after_end
    }

    /// The number of the row that comes first on the way back; 0 if there is none.
    pub(crate) fn before(self) -> u64 {
        if self.is_after_end { self.row } else { self.row.saturating_sub(1) }
    }

    /// Steps back over rows: at most so many. Returns how many there were.
    pub(crate) fn step_back(&mut self, rows: u64) -> u64 {
        let before = self.before();
        let passed = rows.min(before);
        *self = match (passed < rows, before) {
            // Of no rows at all the end is as near as the beginning.
            (_, 0) => Self { row: 0, is_after_end: self.is_after_end },
            (true, _) => Self::default(),
            (false, _) => Self { row: before - passed + 1, is_after_end: false },
        };
        passed
    }
}

/// A step of a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// To before the first row.
    Rewind,
    /// Over rows that are not shown.
    Skip { is_forward: bool, rows: u64 },
    /// Over rows that are shown, or counted by MOVE.
    Show { is_forward: bool, rows: u64 },
}

/// The steps of a movement from a position.
pub(crate) fn steps(movement: Movement, from: Position) -> Vec<Step> {
    let skip = |is_forward, rows| Step::Skip { is_forward, rows };
    let show = |is_forward, rows| Step::Show { is_forward, rows };
    match movement {
        own if own.stays() => match from.is_on_row() {
            true => vec![skip(false, 1), show(true, 1)],
            false => Vec::new(),
        },
        Movement::Forward(rows) => vec![show(true, rows)],
        Movement::Backward(rows) => vec![show(false, rows)],
        Movement::Relative(rows) if rows > 0 => {
            vec![skip(true, rows.unsigned_abs() - 1), show(true, 1)]
        }
        Movement::Relative(rows) => vec![skip(false, rows.unsigned_abs() - 1), show(false, 1)],
        Movement::Absolute(0) => vec![Step::Rewind],
        Movement::Absolute(row) if row > 0 => {
            let passed = from.row + u64::from(from.is_after_end);
            match row.unsigned_abs().checked_sub(passed + 1) {
                // A cursor that only goes forward can do that, too.
                Some(between) => vec![skip(true, between), show(true, 1)],
                None => vec![Step::Rewind, skip(true, row.unsigned_abs() - 1), show(true, 1)],
            }
        }
        Movement::Absolute(row) => {
            vec![skip(true, ALL), skip(false, row.unsigned_abs() - 1), show(false, 1)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_end_where_those_of_postgresql_do() {
        let on = |row| Position { row, is_after_end: false };
        let end = |row| Position { row, is_after_end: true };
        let cases = [
            (on(5), 2, (2, on(3))),
            (on(3), 2, (2, on(1))),
            (on(3), 3, (2, on(0))),
            (on(1), 1, (0, on(0))),
            (end(5), 1, (1, on(5))),
            (end(5), 5, (5, on(1))),
            (end(5), ALL, (5, on(0))),
            (end(0), 1, (0, end(0))),
        ];
        for (from, rows, expected) in cases {
            let mut position = from;
            assert_eq!((position.step_back(rows), position), expected, "{from:?} {rows}");
        }
    }

    #[test]
    fn an_absolute_row_ahead_needs_no_way_back() {
        let at = |row| Position { row, is_after_end: false };
        assert_eq!(
            steps(Movement::Absolute(3), at(1)),
            [Step::Skip { is_forward: true, rows: 1 }, Step::Show { is_forward: true, rows: 1 }]
        );
        assert_eq!(steps(Movement::Absolute(1), at(1))[0], Step::Rewind);
        assert_eq!(steps(Movement::Relative(0), at(0)), []);
        assert_eq!(Movement::forward(-3), Movement::Backward(3));
        assert_eq!(Movement::backward(i64::MIN), Movement::Forward(1 << 63));
    }
}
