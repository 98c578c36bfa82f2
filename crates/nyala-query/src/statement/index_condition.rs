//! WHERE of SHOW and of deletions, which InfluxDB evaluates on its index, without reading points.
//!
//! The rules differ from those of SELECT. Measurements are selected by `_name` or by whether some tag value satisfies the
//! condition. Series are selected by their tags; every series satisfies a comparison of a field, or one that cannot be
//! evaluated.

use crate::influxql::{Binary, BinaryOperator, DataType, Expr, VarRef};
use crate::plan::compile_regex;
use nyala_core::{Error, Result};
use nyala_db::catalog::Measurement;
use nyala_db::series::TagFilter;

/// Stands for the measurement's name.
const NAME: &str = "_name";
/// Stands for a tag key of a series. A series has several, so a condition on it excludes no series.
pub(super) const TAG_KEY: &str = "_tagKey";
/// Names that stand for each tag of a series, or for all of them together.
const TAG_NAMES: [&str; 3] = [TAG_KEY, "_tagValue", "_seriesKey"];
/// Stands for the values of all tags, besides a tag or field of that name.
const VALUE: &str = "value";
/// Names that no tag of a point is compared with.
const SYSTEM_NAMES: [&str; 7] =
    ["_fieldKeys", "_measurements", NAME, "_series", TAG_KEY, "_tagKeys", "_tags"];

/// Whether a condition compares the time.
pub(super) fn has_time(condition: &Expr) -> bool {
    match condition {
        Expr::Binary(binary) if is_junction(binary.op) => has_time(&binary.lhs) || has_time(&binary.rhs),
        Expr::Binary(binary) => {
            matches!(&binary.lhs, Expr::VarRef(reference) if reference.name.eq_ignore_ascii_case("time"))
        }
        Expr::Paren(inner) => has_time(inner),
        _ => false,
    }
}

/// Refuses comparisons such as `<`, which the index cannot make. The error is InfluxDB's.
pub(super) fn refuse_inequalities(condition: &Expr) -> Result<()> {
    match condition {
        Expr::Binary(binary) if is_junction(binary.op) || is_equality(binary.op) => {
            refuse_inequalities(&binary.lhs)?;
            refuse_inequalities(&binary.rhs)
        }
        Expr::Binary(_) => Err(Error::invalid("invalid tag comparison operator")),
        Expr::Paren(inner) => refuse_inequalities(inner),
        _ => Ok(()),
    }
}

fn is_junction(operator: BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::And | BinaryOperator::Or)
}

fn is_equality(operator: BinaryOperator) -> bool {
    use BinaryOperator::{Equal, Matches, NotEqual, NotMatches};
    matches!(operator, Equal | NotEqual | Matches | NotMatches)
}

/// Whether SHOW MEASUREMENTS shows a measurement. A comparison looks at its name, or at all values of one tag.
pub(super) fn shows_measurement(condition: &Expr, measurement: &Measurement) -> Result<bool> {
    let binary = match condition {
        Expr::Binary(binary) => binary,
        Expr::Paren(inner) => return shows_measurement(inner, measurement),
        other => return Err(Error::invalid(format!("{other} selects no measurements: compare a tag"))),
    };
    if is_junction(binary.op) {
        // Both sides are evaluated, so that an error of either is reported.
        let left = shows_measurement(&binary.lhs, measurement)?;
        let right = shows_measurement(&binary.rhs, measurement)?;
        return Ok(if binary.op == BinaryOperator::And { left && right } else { left || right });
    }
    let (reference, pattern) = tag_comparison(binary)?;
    if reference.name == NAME {
        return Ok(pattern.is_match(measurement.name()) != is_negated(binary.op));
    }
    if SYSTEM_NAMES.contains(&&*reference.name) {
        return Ok(false);
    }
    let series = measurement.series();
    let values = series.values_of(&reference.name, &series.all());
    let matched = values.iter().any(|value| pattern.is_match(value));
    Ok(!values.is_empty() && matched != is_negated(binary.op))
}

/// Whether the name of a measurement satisfies a condition; `None`: it does not depend on names.
pub(super) fn names_measurement(condition: &Expr, name: &str) -> Result<Option<bool>> {
    let compare = |binary: &Binary| match &binary.lhs {
        Expr::VarRef(reference) if reference.name == NAME => text_comparison(binary, name).map(Some),
        _ => Ok(None),
    };
    evaluate(condition, &compare)
}

/// Whether a tag key satisfies a condition; `None`: it does not depend on keys.
pub(super) fn names_key(condition: &Expr, key: &str) -> Result<Option<bool>> {
    let compare = |binary: &Binary| match &binary.lhs {
        Expr::VarRef(reference) if reference.name == TAG_KEY => text_comparison(binary, key).map(Some),
        Expr::VarRef(_) => Ok(None),
        _ => Err(Error::invalid(format!("left side of '{}' must be a tag key", binary.op.as_str()))),
    };
    evaluate(condition, &compare)
}

/// Evaluates a condition, given the results of its comparisons. Comparisons without a result are ignored.
fn evaluate(condition: &Expr, compare: &impl Fn(&Binary) -> Result<Option<bool>>) -> Result<Option<bool>> {
    let binary = match condition {
        Expr::Binary(binary) => binary,
        Expr::Paren(inner) => return evaluate(inner, compare),
        _ => return Ok(None),
    };
    if is_junction(binary.op) {
        return Ok(match (evaluate(&binary.lhs, compare)?, evaluate(&binary.rhs, compare)?) {
            (Some(left), Some(right)) if binary.op == BinaryOperator::And => Some(left && right),
            (Some(left), Some(right)) => Some(left || right),
            (left, right) => left.or(right),
        });
    }
    match is_equality(binary.op) {
        true => compare(binary),
        false => Err(Error::invalid("invalid tag comparison operator")),
    }
}

/// Whether a comparison holds for a text on its left side.
pub(super) fn text_comparison(binary: &Binary, text: &str) -> Result<bool> {
    let (_, pattern) = tag_comparison(binary)?;
    Ok(pattern.is_match(text) != is_negated(binary.op))
}

/// The condition on tag values in SHOW TAG VALUES and SHOW TAG KEYS.
pub(super) enum ValueTest {
    /// Holds for values of which the pattern `matches`, or does not.
    Compared {
        pattern: Pattern,
        matches: bool,
    },
    /// Holds for all values, or for none.
    Constant(bool),
    Both(Box<[ValueTest; 2]>),
    Either(Box<[ValueTest; 2]>),
}

impl ValueTest {
    /// The part of a condition that compares `value`; `None` if there is none.
    pub(super) fn of(condition: &Expr) -> Result<Option<Self>> {
        let binary = match condition {
            Expr::Binary(binary) => binary,
            Expr::Paren(inner) => return Self::of(inner),
            _ => return Ok(None),
        };
        if is_junction(binary.op) {
            return Ok(match (Self::of(&binary.lhs)?, Self::of(&binary.rhs)?) {
                (Some(left), Some(right)) if binary.op == BinaryOperator::And => {
                    Some(Self::Both(Box::new([left, right])))
                }
                (Some(left), Some(right)) => Some(Self::Either(Box::new([left, right]))),
                (left, right) => left.or(right),
            });
        }
        let is_value = |side: &Expr| matches!(side, Expr::VarRef(reference) if reference.name == VALUE);
        if !is_equality(binary.op) || !is_value(&binary.lhs) {
            return Ok(None);
        }
        Ok(Some(match tag_comparison(binary) {
            Ok((_, pattern)) => Self::Compared { pattern, matches: !is_negated(binary.op) },
            // A value is neither equal nor unequal to what is not text; only `value = value` holds.
            Err(_) => Self::Constant(binary.op == BinaryOperator::Equal && is_value(&binary.rhs)),
        }))
    }

    /// Whether a value satisfies it.
    pub(super) fn holds(&self, value: &str) -> bool {
        match self {
            Self::Compared { pattern, matches } => pattern.is_match(value) == *matches,
            Self::Constant(holds) => *holds,
            Self::Both(tests) => tests.iter().all(|test| test.holds(value)),
            Self::Either(tests) => tests.iter().any(|test| test.holds(value)),
        }
    }
}

fn is_negated(operator: BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::NotEqual | BinaryOperator::NotMatches)
}

/// What a value is compared with.
pub(super) enum Pattern {
    Text(String),
    Regex(regex::bytes::Regex),
}

impl Pattern {
    fn is_match(&self, text: &str) -> bool {
        match self {
            Pattern::Text(own) => own == text,
            Pattern::Regex(regex) => regex.is_match(text.as_bytes()),
        }
    }
}

fn tag_comparison(binary: &Binary) -> Result<(&VarRef, Pattern)> {
    let operator = binary.op.as_str();
    if !is_equality(binary.op) {
        return Err(Error::invalid("invalid tag comparison operator"));
    }
    let Expr::VarRef(reference) = &binary.lhs else {
        return Err(Error::invalid(format!("left side of '{operator}' must be a tag key")));
    };
    let takes_regex = matches!(binary.op, BinaryOperator::Matches | BinaryOperator::NotMatches);
    let pattern = match &binary.rhs {
        Expr::Regex(regex) if takes_regex => Pattern::Regex(compile_regex(regex)?),
        _ if takes_regex => {
            let words = format!("right side of '{operator}' must be a regular expression");
            return Err(Error::invalid(words));
        }
        Expr::String(text) => Pattern::Text(text.clone()),
        _ => return Err(Error::invalid(format!("right side of '{operator}' must be a tag value string"))),
    };
    Ok((reference, pattern))
}

/// The series that a condition selects. With `tags_only`, comparisons of system names are ignored.
pub(super) fn series_filter(
    condition: &Expr,
    measurement: &Measurement,
    tags_only: bool,
) -> Result<Option<TagFilter>> {
    let binary = match condition {
        Expr::Binary(binary) => binary,
        Expr::Paren(inner) => return series_filter(inner, measurement, tags_only),
        Expr::Boolean(true) => return Ok(Some(TagFilter::All)),
        _ => return Ok(Some(TagFilter::None)),
    };
    if is_junction(binary.op) {
        let left = series_filter(&binary.lhs, measurement, tags_only)?;
        let right = series_filter(&binary.rhs, measurement, tags_only)?;
        return Ok(match (left, right) {
            (Some(left), Some(right)) if binary.op == BinaryOperator::And => {
                Some(TagFilter::And(vec![left, right]))
            }
            (Some(left), Some(right)) => Some(TagFilter::Or(vec![left, right])),
            (left, right) => left.or(right),
        });
    }
    if tags_only && !matches!(binary.lhs, Expr::VarRef(_)) {
        return Ok(None);
    }
    let (reference, other) = match (&binary.lhs, &binary.rhs) {
        (Expr::Binary(_), _) | (_, Expr::Binary(_)) => return Ok(Some(TagFilter::All)),
        (Expr::VarRef(reference), other) | (other, Expr::VarRef(reference)) => (reference, other),
        _ => return Ok(Some(TagFilter::All)),
    };
    if tags_only && SYSTEM_NAMES.contains(&&*reference.name) {
        return Ok(None);
    }
    if TAG_NAMES.contains(&&*reference.name) && !tags_only && reference.data_type != Some(DataType::Tag) {
        return Ok(Some(TagFilter::All));
    }
    if reference.name == NAME {
        let named = text_comparison(binary, measurement.name())?;
        return Ok(Some(if named { TagFilter::All } else { TagFilter::None }));
    }
    if is_field(measurement, reference) {
        return Ok(Some(TagFilter::All));
    }
    let key = reference.name.clone();
    Ok(Some(match (binary.op, other) {
        (BinaryOperator::Equal, Expr::String(value)) => TagFilter::Equal(key, value.clone()),
        (BinaryOperator::NotEqual, Expr::String(value)) => TagFilter::NotEqual(key, value.clone()),
        (BinaryOperator::Matches, Expr::Regex(regex)) => TagFilter::Matches(key, compile_regex(regex)?),
        (BinaryOperator::NotMatches, Expr::Regex(regex)) => TagFilter::MatchesNot(key, compile_regex(regex)?),
        // Of two tags only their presence is compared.
        (BinaryOperator::Equal, Expr::VarRef(tag)) if !is_field(measurement, tag) => {
            TagFilter::And(vec![present(key), present(tag.name.clone())])
        }
        (BinaryOperator::NotEqual, Expr::VarRef(tag)) if !is_field(measurement, tag) => {
            TagFilter::And(vec![present(key), TagFilter::Equal(tag.name.clone(), String::new())])
        }
        _ => TagFilter::All,
    }))
}

fn present(key: String) -> TagFilter {
    TagFilter::NotEqual(key, String::new())
}

fn is_field(measurement: &Measurement, reference: &VarRef) -> bool {
    match reference.data_type {
        None => measurement.fields().iter().any(|field| field.name == reference.name),
        Some(data_type) => data_type != DataType::Tag,
    }
}
