//! Compares an answer of SQL with that of a peer: exactly, but for floats, and in the order that the query decides.
//!
//! Rows that a query leaves in any order (equal keys of its ORDER BY) are compared as a set. If it ends at a LIMIT in the
//! middle of such rows, any of them may be shown, so of the last ones only the keys are compared.

use super::order::{Key, Order};
use crate::client::sql::SqlAnswer;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::ops::Range;

/// Floats may differ by this part: sums have another order of addition.
const FLOAT_TOLERANCE: f64 = 1e-9;
/// The type of PostgreSQL's `numeric`.
const NUMERIC: u32 = 1700;
/// Those of `real` and `double precision`.
const FLOATS: [u32; 2] = [700, 701];

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `t` or `f`.
    Boolean,
    /// Whole numbers of any size.
    Integer,
    /// Numbers with digits that count.
    Decimal,
    /// Numbers that are close to what is meant.
    Float,
    /// Dates and times.
    Time,
    /// Anything else, and columns of NULL.
    Text,
}

/// The answer of a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableAnswer {
    /// What each column has.
    pub kinds: Vec<Kind>,
    /// The rows; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

/// Fails with the first difference between an answer and the expected one.
pub fn compare(own: &SqlAnswer, expected: &TableAnswer, order: &Order) -> Result<(), String> {
    let (rows, columns) = (own.rows.len(), own.columns.len());
    if rows != expected.rows.len() {
        return Err(format!("{rows} rows instead of {}", expected.rows.len()));
    }
    if columns != expected.kinds.len() && rows > 0 {
        return Err(format!("{columns} columns instead of {}", expected.kinds.len()));
    }
    let comparison = Comparison { own, expected };
    let keys: Option<Vec<usize>> = order
        .keys
        .iter()
        .map(|key| match key {
            Key::Column(column) => Some(*column).filter(|column| *column < columns),
            Key::Unseen => None,
        })
        .collect();
    // Keys that are not shown leave no rows that are known to be in any order.
    let Some(keys) = keys else {
        return (0..rows).try_for_each(|row| comparison.equal_rows(row, row, 0..columns));
    };
    for row in 0..rows {
        comparison.equal_rows(row, row, keys.iter().copied())?;
    }
    let is_cut = order.limit == Some(rows);
    for run in comparison.runs(&keys) {
        let partial = (run.end == rows && is_cut) || (run.start == 0 && order.skips);
        if !partial {
            comparison.equal_sets(run)?;
        }
    }
    Ok(())
}

struct Comparison<'a> {
    own: &'a SqlAnswer,
    expected: &'a TableAnswer,
}

impl Comparison<'_> {
    /// The rows that have equal keys, one range after the other.
    fn runs(&self, keys: &[usize]) -> Vec<Range<usize>> {
        let rows = &self.own.rows;
        let mut runs: Vec<Range<usize>> = Vec::new();
        for row in 0..rows.len() {
            match runs.last_mut() {
                Some(run) if keys.iter().all(|key| rows[run.start][*key] == rows[row][*key]) => {
                    run.end = row + 1
                }
                _ => runs.push(row..row + 1),
            }
        }
        runs
    }

    fn equal_sets(&self, run: Range<usize>) -> Result<(), String> {
        let columns = 0..self.own.columns.len();
        if run.len() == 1 {
            return self.equal_rows(run.start, run.start, columns);
        }
        let sorted = |rows: &[Vec<Option<String>>]| {
            let mut order: Vec<usize> = run.clone().collect();
            order.sort_by(|a, b| self.by_value(&rows[*a], &rows[*b]));
            order
        };
        let pairs = sorted(&self.own.rows).into_iter().zip(sorted(&self.expected.rows));
        for (own, expected) in pairs {
            self.equal_rows(own, expected, columns.clone())?;
        }
        Ok(())
    }

    /// An order in which rows stand beside their equals: floats come last, because theirs are not quite the same.
    fn by_value(&self, a: &[Option<String>], b: &[Option<String>]) -> Ordering {
        let is_float = |column: &usize| self.expected.kinds[*column] == Kind::Float;
        let columns = || 0..self.expected.kinds.len();
        let exact = columns().filter(|column| !is_float(column)).map(|column| {
            plain(a[column].as_deref(), self.expected.kinds[column])
                .cmp(&plain(b[column].as_deref(), self.expected.kinds[column]))
        });
        let number =
            |cell: &Option<String>| cell.as_deref().map_or(f64::NAN, |text| text.parse().unwrap_or(f64::NAN));
        let close =
            columns().filter(is_float).map(|column| number(&a[column]).total_cmp(&number(&b[column])));
        exact.chain(close).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn equal_rows(
        &self,
        own: usize,
        expected: usize,
        columns: impl IntoIterator<Item = usize>,
    ) -> Result<(), String> {
        for column in columns {
            let cells =
                (self.own.rows[own][column].as_deref(), self.expected.rows[expected][column].as_deref());
            let is_equal = match cells {
                (None, None) => true,
                (Some(a), Some(b)) => is_equal(a, self.own.types[column], b, self.expected.kinds[column]),
                _ => false,
            };
            if !is_equal {
                let shown = |cell: Option<&str>| cell.map_or("NULL".to_owned(), |text| format!("'{text}'"));
                return Err(format!(
                    "row {}, column {}: {} instead of {}",
                    own + 1,
                    self.own.columns[column],
                    shown(cells.0),
                    shown(cells.1)
                ));
            }
        }
        Ok(())
    }
}

fn is_equal(own: &str, own_type: u32, expected: &str, kind: Kind) -> bool {
    let is_float =
        kind == Kind::Float || (FLOATS.contains(&own_type) && matches!(kind, Kind::Integer | Kind::Decimal));
    if !is_float {
        return plain(Some(own), kind) == plain(Some(expected), kind);
    }
    let (Ok(a), Ok(b)) = (own.parse::<f64>(), expected.parse::<f64>()) else { return false };
    // A quotient that is a decimal here has as many digits as its type.
    let digits = match own_type == NUMERIC {
        true => own.split_once('.').map_or(0, |(_, digits)| digits.len() as i32),
        false => i32::MAX,
    };
    let last_digit = if digits == i32::MAX { 0.0 } else { 10_f64.powi(-digits) };
    a == b
        || (a.is_nan() && b.is_nan())
        || (a - b).abs() <= last_digit.max(FLOAT_TOLERANCE * a.abs().max(b.abs()))
}

/// One text for all spellings of a value.
fn plain(cell: Option<&str>, kind: Kind) -> Option<String> {
    let text = cell?;
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    Some(match kind {
        Kind::Integer | Kind::Decimal => match without_zeros(text) {
            text if text == "-0" => "0".to_owned(),
            text => text,
        },
        Kind::Time => without_zeros(text),
        Kind::Boolean | Kind::Float | Kind::Text => text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<Option<String>> {
        cells.iter().map(|cell| (*cell != "NULL").then(|| (*cell).to_owned())).collect()
    }

    fn compared(own: &[&[&str]], expected: &[&[&str]], order: Order) -> Result<(), String> {
        let rows = |rows: &[&[&str]]| rows.iter().map(|cells| row(cells)).collect();
        let columns = vec!["name".to_owned(), "n".to_owned(), "f".to_owned()];
        let own = SqlAnswer { columns, types: vec![25, NUMERIC, 701], rows: rows(own) };
        compare(
            &own,
            &TableAnswer { kinds: vec![Kind::Text, Kind::Decimal, Kind::Float], rows: rows(expected) },
            &order,
        )
    }

    fn by(column: usize, limit: Option<usize>) -> Order {
        Order { keys: vec![Key::Column(column)], limit, skips: false }
    }

    #[test]
    fn rows_without_an_order_are_a_set() {
        let (a, b): (&[&str], &[&str]) = (&["a", "1.50", "0.1"], &["b", "NULL", "2"]);
        let close: &[&str] = &["a", "1.5", "0.10000000000001"];
        assert_eq!(compared(&[a, b], &[b, close], Order::default()), Ok(()));
        let words = compared(&[a, b], &[b, &["a", "1.51", "0.1"]], Order::default());
        assert_eq!(words, Err("row 1, column n: '1.50' instead of '1.51'".to_owned()));
        assert!(compared(&[a], &[a, b], Order::default()).is_err());
        assert!(compared(&[a], &[&["a", "1.50", "0.1001"]], Order::default()).is_err());
        assert!(compared(&[a], &[&["NULL", "1.50", "0.1"]], Order::default()).is_err());
    }

    #[test]
    fn an_order_is_kept_and_ties_are_a_set() {
        let (a, b, c): (&[&str], &[&str], &[&str]) = (&["a", "2", "0"], &["b", "1", "0"], &["c", "1", "0"]);
        assert_eq!(compared(&[a, b, c], &[a, c, b], by(1, None)), Ok(()));
        assert!(compared(&[a, b, c], &[b, a, c], by(1, None)).is_err());
        let other: &[&str] = &["d", "1", "0"];
        assert!(compared(&[a, b, c], &[a, b, other], by(1, None)).is_err());
        assert_eq!(compared(&[a, b, c], &[a, b, other], by(1, Some(3))), Ok(()), "a limit among equal keys");
        assert!(compared(&[a, b, c], &[a, b, other], by(1, Some(4))).is_err(), "nothing was cut off");
    }
}
