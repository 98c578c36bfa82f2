//! Splits the WHERE clause into bounds on time, and the rest.
//!
//! As in InfluxDB, comparisons of `time` are taken out of any part of the clause, and all apply together, even under OR.
//! Constants in the rest are folded.

use std::borrow::Cow;

use super::expr::{Binary, BinaryOperator, Expr};
use super::reduce::{Context, Overflow, fold, fold_binary, fold_paren, reduce};
use super::time::{MAXIMUM_TIME_NS, MINIMUM_TIME_NS, TimeLiteral, Zone, looks_like_time, parse_time};
use nyala_core::{Error, Result};

/// Bounds on time, both inclusive, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TimeRange {
    /// The earliest time, where one is written.
    pub minimum: Option<i64>,
    /// The latest time, where one is written.
    pub maximum: Option<i64>,
}

impl TimeRange {
    /// The times in both ranges.
    pub fn intersect(self, other: TimeRange) -> TimeRange {
        TimeRange {
            minimum: self.minimum.max(other.minimum),
            maximum: match (self.maximum, other.maximum) {
                (Some(left), Some(right)) => Some(left.min(right)),
                (left, right) => left.or(right),
            },
        }
    }
}

/// The two parts of a WHERE clause.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SplitCondition {
    /// The bounds on time.
    pub range: TimeRange,
    /// The rest of the condition.
    pub condition: Option<Expr>,
}

/// Splits a WHERE clause. Times without an offset are local to `zone`.
pub fn split_condition(condition: &Expr, now_ns: i64, zone: Option<Zone>) -> Result<SplitCondition> {
    split_in(condition, &Context { now_ns: Some(now_ns), zone, ..Context::default() })
}

/// Splits the WHERE clause of a deletion. A bound beyond the range of times does not wrap around to the other end, so that
/// the deletion deletes nothing more than it says. If constants overflow in a bound, the deletion is refused.
pub fn split_deletion(condition: &Expr, now_ns: i64) -> Result<SplitCondition> {
    let overflow = Overflow::Refused;
    split_in(condition, &Context { now_ns: Some(now_ns), overflow, ..Context::default() })
}

fn split_in(condition: &Expr, context: &Context) -> Result<SplitCondition> {
    let (rest, range) = split(condition, context)?;
    let condition = rest.map(|rest| match rest.into_owned() {
        Expr::Paren(inner) => *inner,
        rest => rest,
    });
    // A condition that always holds is no condition.
    Ok(SplitCondition { range, condition: condition.filter(|rest| *rest != Expr::Boolean(true)) })
}

/// The rest of a condition, and the bounds on time in it.
type Split<'a> = (Option<Cow<'a, Expr>>, TimeRange);

pub(super) fn split<'a>(condition: &'a Expr, context: &Context) -> Result<Split<'a>> {
    match condition {
        Expr::Binary(binary) => match binary.op {
            BinaryOperator::And | BinaryOperator::Or => {
                let (left, left_range) = split(&binary.lhs, context)?;
                let (right, right_range) = split(&binary.rhs, context)?;
                let rest = match (left, right) {
                    (Some(Cow::Borrowed(left)), Some(Cow::Borrowed(right)))
                        if std::ptr::eq(left, &binary.lhs)
                            && std::ptr::eq(right, &binary.rhs)
                            && !matches!((left, right), (Expr::Boolean(_), _) | (_, Expr::Boolean(_))) =>
                    {
                        Some(Cow::Borrowed(condition))
                    }
                    (Some(left), Some(right)) => Some(fold_binary(binary.op, left, right, context)),
                    (left, right) => left.or(right),
                };
                Ok((rest, left_range.intersect(right_range)))
            }
            _ => match time_comparison(binary) {
                Some((op, bound)) => Ok((None, time_range(op, bound, context)?)),
                None => {
                    let rest = fold(condition, context);
                    refuse_overflow(&rest, context)?;
                    Ok((Some(rest), TimeRange::default()))
                }
            },
        },
        Expr::Paren(inner) => {
            let (rest, range) = split(inner, context)?;
            let rest = rest.map(|rest| match rest {
                Cow::Borrowed(rest) if std::ptr::eq(rest, &**inner) && matches!(rest, Expr::Binary(_)) => {
                    Cow::Borrowed(condition)
                }
                rest => fold_paren(rest),
            });
            Ok((rest, range))
        }
        Expr::Boolean(_) => Ok((Some(Cow::Borrowed(condition)), TimeRange::default())),
        _ => Err(Error::invalid(format!("invalid condition expression: {condition}"))),
    }
}

/// A comparison with `time`, with `time` on its left side.
fn time_comparison(binary: &Binary) -> Option<(BinaryOperator, &Expr)> {
    match (&binary.lhs, &binary.rhs) {
        (Expr::VarRef(left), bound) if left.is_time() => Some((binary.op, bound)),
        (bound, Expr::VarRef(right)) if right.is_time() => {
            let op = match binary.op {
                BinaryOperator::Greater => BinaryOperator::Less,
                BinaryOperator::Less => BinaryOperator::Greater,
                BinaryOperator::GreaterOrEqual => BinaryOperator::LessOrEqual,
                BinaryOperator::LessOrEqual => BinaryOperator::GreaterOrEqual,
                op => op,
            };
            Some((op, bound))
        }
        _ => None,
    }
}

fn time_range(op: BinaryOperator, bound: &Expr, context: &Context) -> Result<TimeRange> {
    let unix_ns = match bound {
        Expr::String(text) if looks_like_time(text) => match parse_time(text, context.zone) {
            Some(time) => within_range(time)?,
            None => return Err(Error::invalid("invalid timestamp string")),
        },
        _ => match reduce(bound, context).as_ref() {
            Expr::Time(time) => within_range(*time)?,
            Expr::Duration(unix_ns) | Expr::Integer(unix_ns) => *unix_ns,
            Expr::Number(unix_ns) => match context.overflow {
                Overflow::Refused if unix_ns.is_nan() => {
                    return Err(Error::invalid(format!("time bound out of range: {bound}")));
                }
                Overflow::Refused => *unix_ns as i64,
                wraps => wraps.integer(*unix_ns).expect("wraps"),
            },
            Expr::Binary(_) if overflows(bound, context) => {
                return Err(Error::invalid(format!("time bound out of range: {bound}")));
            }
            other => {
                let kind = go_type(other);
                return Err(Error::invalid(format!("invalid operation: time and {kind} are not compatible")));
            }
        },
    };
    let wraps = context.overflow == Overflow::Wraps;
    let (minimum, maximum) = match op {
        // As in InfluxDB, a time beyond the range wraps around to the other end.
        BinaryOperator::Greater if wraps => (Some(unix_ns.wrapping_add(1)), None),
        BinaryOperator::Less if wraps => (None, Some(unix_ns.wrapping_sub(1))),
        BinaryOperator::Greater => (Some(unix_ns.saturating_add(1)), None),
        BinaryOperator::Less => (None, Some(unix_ns.saturating_sub(1))),
        BinaryOperator::GreaterOrEqual => (Some(unix_ns), None),
        BinaryOperator::LessOrEqual => (None, Some(unix_ns)),
        BinaryOperator::Equal => (Some(unix_ns), Some(unix_ns)),
        _ => return Err(Error::invalid(format!("invalid time comparison operator: {}", op.as_str()))),
    };
    Ok(TimeRange { minimum, maximum })
}

/// Whether an overflow is the reason why this is no bound.
fn overflows(bound: &Expr, context: &Context) -> bool {
    let wrapping = Context { overflow: Overflow::Wraps, ..*context };
    context.overflow == Overflow::Refused && !matches!(&*reduce(bound, &wrapping), Expr::Binary(_))
}

/// Refuses constants that were not folded because they overflow: rows would be compared with what is left after it.
fn refuse_overflow(rest: &Expr, context: &Context) -> Result<()> {
    let mut overflowing = None;
    rest.walk(&mut |part| {
        if let Expr::Binary(binary) = part
            && binary.lhs.is_literal()
            && binary.rhs.is_literal()
            && overflows(part, context)
        {
            overflowing = Some(part);
        }
        overflowing.is_none()
    });
    match overflowing {
        Some(part) => Err(Error::invalid(format!("number out of range: {part}"))),
        None => Ok(()),
    }
}

fn within_range(time: TimeLiteral) -> Result<i64> {
    let flow = if time.unix_ns > i128::from(MAXIMUM_TIME_NS) {
        "overflows"
    } else if time.unix_ns <= i128::from(MINIMUM_TIME_NS) {
        // The minimum itself is reserved.
        "underflows"
    } else {
        return Ok(time.unix_ns as i64);
    };
    Err(Error::invalid(format!("time {} {flow} time literal", time.to_rfc3339_seconds())))
}

/// How InfluxDB's messages name the kind of an expression.
pub(super) fn go_type(expr: &Expr) -> &'static str {
    match expr {
        Expr::Binary(_) => "*influxql.BinaryExpr",
        Expr::Boolean(_) => "*influxql.BooleanLiteral",
        Expr::Call(_) => "*influxql.Call",
        Expr::Distinct(_) => "*influxql.Distinct",
        Expr::Duration(_) => "*influxql.DurationLiteral",
        Expr::Integer(_) => "*influxql.IntegerLiteral",
        Expr::Nil => "*influxql.NilLiteral",
        Expr::Number(_) => "*influxql.NumberLiteral",
        Expr::Paren(_) => "*influxql.ParenExpr",
        Expr::Regex(_) => "*influxql.RegexLiteral",
        Expr::String(_) => "*influxql.StringLiteral",
        Expr::Time(_) => "*influxql.TimeLiteral",
        Expr::Unsigned(_) => "*influxql.UnsignedLiteral",
        Expr::VarRef(_) => "*influxql.VarRef",
        Expr::Wildcard(_) => "*influxql.Wildcard",
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_expr;
    use super::*;

    fn split_text(text: &str) -> std::result::Result<(Option<i64>, Option<i64>, String), String> {
        let expr = parse_expr(text).unwrap();
        split_condition(&expr, 100_000_000_000, None)
            .map(|split| {
                let rest = split.condition.map(|rest| rest.to_string()).unwrap_or_default();
                (split.range.minimum, split.range.maximum, rest)
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn bounds_and_rest() {
        for (text, minimum, maximum, rest) in [
            ("time >= 5 AND time < 10", Some(5), Some(9), ""),
            ("time > 5 OR time <= 10", Some(6), Some(10), ""),
            ("5 < time AND a = 1", Some(6), None, "a = 1"),
            (
                "(time > now() - 1m AND (a = 'x' OR b =~ /y/))",
                Some(40_000_000_001),
                None,
                "a = 'x' OR b =~ /y/",
            ),
            ("time = 7 AND (a = 1)", Some(7), Some(7), "a = 1"),
            ("time > 1 AND time > 3 AND time < 9 AND time < 5", Some(4), Some(4), ""),
            ("TIME >= '1970-01-01T00:00:00.000000001Z'", Some(1), None, ""),
            ("time < 1500ms", None, Some(1_499_999_999), ""),
            ("time < '1970-01-01' + 1s", None, Some(999_999_999), ""),
            ("true", None, None, ""),
            ("a = 1 AND 1 = 1", None, None, "a = 1"),
            ("a = 1 AND 1 = 2", None, None, "false"),
            ("a > now() - 1h", None, None, "a > '1969-12-31T23:01:40Z'"),
            ("time > 9223372036854775807", Some(i64::MIN), None, ""),
            ("time + 1 > 5", None, None, "time + 1 > 5"),
        ] {
            assert_eq!(split_text(text), Ok((minimum, maximum, rest.to_string())), "{text}");
        }
    }

    #[test]
    fn deletions_do_not_wrap_around_at_the_ends_of_time() {
        for (text, minimum, maximum) in [
            ("time > 9223372036854775807", Some(i64::MAX), None),
            ("time > 9223372036854775806", Some(i64::MAX), None),
            ("time < -9223372036854775808", None, Some(i64::MIN)),
            ("time >= 10000000000000000000.0", Some(i64::MAX), None),
            ("time < -10000000000000000000.0", None, Some(i64::MIN)),
            ("time < 5 + 1s * 3", None, Some(3_000_000_004)),
            ("time > now() - 1m AND time <= 7", Some(40_000_000_001), Some(7)),
        ] {
            let split = split_deletion(&parse_expr(text).unwrap(), 100_000_000_000).unwrap();
            assert_eq!((split.range.minimum, split.range.maximum), (minimum, maximum), "{text}");
        }
        for bound in [
            "106751d + 106751d",
            "106751d * 3",
            "9223372036854775807 + 1",
            "0 - 9223372036854775807 - 2",
            "9223372036854775807 * 2",
            "1s * 10000000000000000000.0",
            "now() - (106751d + 106751d)",
            "5.0 % 0",
        ] {
            let condition = parse_expr(&format!("time > {bound}")).unwrap();
            let error = split_deletion(&condition, 100_000_000_000).unwrap_err();
            assert!(error.to_string().starts_with("time bound out of range: "), "{error}");
        }
        for constant in [
            "18446744073709551615 + 1",
            "1 - 18446744073709551615",
            "18446744073709551615 * -1",
            "9223372036854775807 + 1",
            "2 * (9223372036854775807 * 2)",
        ] {
            let condition = parse_expr(&format!("counter > 0 + {constant} AND time > 5")).unwrap();
            let error = split_deletion(&condition, 100_000_000_000).unwrap_err();
            assert!(error.to_string().starts_with("number out of range: "), "{constant}: {error}");
        }
        let condition = parse_expr("counter > 18446744073709551614 + 1").unwrap();
        let split = split_deletion(&condition, 100_000_000_000).unwrap();
        assert_eq!(split.condition.unwrap().to_string(), "counter > 18446744073709551615");
    }

    #[test]
    fn refused() {
        for (text, message) in [
            ("a", "invalid condition expression: a"),
            ("time > 'x'", "invalid operation: time and *influxql.StringLiteral are not compatible"),
            ("time > '2020-13-01'", "invalid timestamp string"),
            ("time > a", "invalid operation: time and *influxql.VarRef are not compatible"),
            ("time != 5", "invalid time comparison operator: !="),
            ("time > '3000-01-01'", "time 3000-01-01T00:00:00Z overflows time literal"),
            ("time > '1000-01-01T00:00:00+02:00'", "time 1000-01-01T00:00:00+02:00 underflows time literal"),
        ] {
            assert_eq!(split_text(text), Err(message.to_string()), "{text}");
        }
    }
}
