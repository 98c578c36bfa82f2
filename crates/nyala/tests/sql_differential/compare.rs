//! Compares two answers, and knows which differences are meant (`testdata/postgres/differences.txt`).

use crate::session::Answer;
use regex::Regex;
use std::path::Path;

const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const NUMERIC: u32 = 1700;
/// How far floats may differ, in units in the last place: libraries of mathematics round differently.
const UNITS: f64 = 4.0;
/// So many digits behind the point, or in all, both have of every number.
const DIGITS_LEAST: usize = 10;
const ALL_DIGITS_LEAST: usize = 15;

/// How answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// nyala refuses what PostgreSQL answers.
    Refused,
    /// nyala answers what PostgreSQL refuses.
    Answered,
    /// Both refuse, with different codes.
    Codes,
    /// Columns have different types.
    Types,
    /// Values differ, or the number of rows.
    Values,
}

/// Compares answers.
pub(crate) fn difference(nyala: &Answer, peer: &Answer, is_ordered: bool) -> Option<Difference> {
    match (nyala, peer) {
        (Answer::Error { .. }, Answer::Rows { .. }) => Some(Difference::Refused),
        (Answer::Rows { .. }, Answer::Error { .. }) => Some(Difference::Answered),
        (Answer::Error { code, .. }, Answer::Error { code: other, .. }) => {
            (code != other).then_some(Difference::Codes)
        }
        (Answer::Rows { types, rows }, Answer::Rows { types: other_types, rows: other_rows }) => {
            if types != other_types {
                return Some(Difference::Types);
            }
            let (mut rows, mut other_rows) = (rows.clone(), other_rows.clone());
            if !is_ordered {
                sort(&mut rows, types);
                sort(&mut other_rows, types);
            }
            let is_same = |(own, other): (&Vec<Option<String>>, &Vec<Option<String>>)| {
                let mut cells = own.iter().zip(other).zip(types);
                cells.all(|((own, other), oid)| is_same_value(own.as_deref(), other.as_deref(), *oid))
            };
            let is_equal = rows.len() == other_rows.len() && rows.iter().zip(&other_rows).all(is_same);
            (!is_equal).then_some(Difference::Values)
        }
    }
}

/// Orders rows by their values; numbers that may have other digits are rounded for that.
fn sort(rows: &mut [Vec<Option<String>>], types: &[u32]) {
    rows.sort_by_key(|row| {
        let cells = row.iter().zip(types).map(|(cell, oid)| match (cell, *oid) {
            (Some(cell), NUMERIC | FLOAT4 | FLOAT8) => {
                // A zero has a sign or none.
                cell.parse::<f64>().map_or(cell.clone(), |number| format!("{:.6e}", number + 0.0))
            }
            (Some(cell), _) => format!("'{cell}"),
            (None, _) => String::new(),
        });
        // Where rounded numbers are the same, what they are rounded from decides.
        (cells.collect::<Vec<_>>(), row.clone())
    });
}

fn is_same_value(own: Option<&str>, other: Option<&str>, oid: u32) -> bool {
    match (own, other) {
        _ if own == other => true,
        (Some(own), Some(other)) if oid == NUMERIC => is_same_numeric(own, other),
        (Some(own), Some(other)) if oid == FLOAT8 => is_near(own, other, f64::EPSILON),
        (Some(own), Some(other)) if oid == FLOAT4 => is_near(own, other, f64::from(f32::EPSILON)),
        _ => false,
    }
}

fn is_near(own: &str, other: &str, unit: f64) -> bool {
    match (own.parse::<f64>(), other.parse::<f64>()) {
        (Ok(own), Ok(other)) => (own - other).abs() <= other.abs() * unit * UNITS,
        _ => false,
    }
}

/// Whether two numbers are the same as far as both have digits. PostgreSQL decides for each value how many it shows.
fn is_same_numeric(own: &str, other: &str) -> bool {
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let plain = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if plain(own) == plain(other) {
        return true;
    }
    let both = digits(own).min(digits(other));
    // A sign, and what is in front of the point, is part of it.
    let scaled = |text: &str| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(both).collect();
        format!("{whole}{digits}").parse::<i128>().ok()
    };
    match (scaled(own), scaled(other)) {
        // What was cut off here was rounded there.
        (Some(a), Some(b)) => {
            let all = own.find('.').unwrap_or(own.len()) + both;
            (both >= DIGITS_LEAST || all >= ALL_DIGITS_LEAST) && (a - b).abs() <= 1
        }
        _ => false,
    }
}

/// A difference that is meant.
struct Meant {
    kind: Difference,
    statement: Regex,
}

/// Those that are meant.
pub(crate) struct Differences(Vec<Meant>);

impl Differences {
    /// Reads the list.
    pub(crate) fn read(path: &Path) -> Differences {
        let text = std::fs::read_to_string(path).expect("a list of differences");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let meant = lines.map(|line| {
            let (kind, pattern) = line.split_once(' ').expect("a kind and a pattern");
            let kind = match kind {
                "refused" => Difference::Refused,
                "answered" => Difference::Answered,
                "codes" => Difference::Codes,
                "types" => Difference::Types,
                "values" => Difference::Values,
                other => panic!("{other} is no kind of difference"),
            };
            Meant { kind, statement: Regex::new(pattern).expect("a pattern") }
        });
        Differences(meant.collect())
    }

    /// Whether a statement may have other answers.
    pub(crate) fn include(&self, kind: Difference, statement: &str) -> bool {
        self.0.iter().any(|meant| meant.kind == kind && meant.statement.is_match(statement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_far_as_both_have_digits() {
        assert!(is_same_numeric("1.50", "1.5"));
        assert!(is_same_numeric("10", "10.000"));
        assert!(is_same_numeric("0.3333333333333333", "0.33333333333333333333"));
        assert!(!is_same_numeric("0.3333", "0.33333333333333333333"));
        assert!(!is_same_numeric("-0.5", "0.5"));
        assert!(!is_same_numeric("100", "10"));
        assert!(is_near("0.1", "0.10000000000000002", f64::EPSILON));
        assert!(!is_near("0.1", "0.1001", f64::EPSILON));
    }
}
