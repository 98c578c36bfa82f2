//! Constant folding.
//!
//! Values of different kinds are combined by InfluxQL's rules: an integer with a duration is a time, a string that reads as a
//! time becomes one if only a time makes sense, a division of integers gives a fraction, a division by zero gives zero.
//! Other operations stay as they are.

use std::borrow::Cow;

use super::expr::{BinaryOperator as Op, Call, Expr};
use super::time::{TimeLiteral, Zone, looks_like_time, parse_time};

/// What folding depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// What `now()` means; without it the call stays.
    pub now_ns: Option<i64>,
    /// The zone of times that do not name one; UTC without it.
    pub zone: Option<Zone>,
    /// Whether to call mathematical functions of constants.
    pub mathematics: bool,
    /// What happens if the sum or product of integers or durations overflows 64 bits.
    pub overflow: Overflow,
}

/// What happens to integers that overflow 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// They wrap around, as in InfluxDB.
    #[default]
    Wraps,
    /// The operation is not folded, and bounds on time stop at the ends of time: for deletions.
    Refused,
}

impl Overflow {
    /// The value of an operation, from its exact value (`None` if it overflows 64 bits) and its value modulo 2⁶⁴.
    fn of<T>(self, exact: Option<T>, wrapped: T) -> Option<T> {
        match self {
            Overflow::Wraps => Some(wrapped),
            Overflow::Refused => exact,
        }
    }

    /// A float without its fraction. A float beyond all integers gives the least integer, as on x86-64, or is refused.
    pub fn integer(self, value: f64) -> Option<i64> {
        self.of(held(value), to_integer(value))
    }
}

/// A float without its fraction. A value that does not fit gives the smallest integer, as on x86-64, where InfluxDB runs.
pub fn to_integer(value: f64) -> i64 {
    held(value).unwrap_or(i64::MIN)
}

/// A float without its fraction, if that is an integer of 64 bits.
fn held(value: f64) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    (-BEYOND..BEYOND).contains(&value).then_some(value as i64)
}

/// Folds constants and removes the outermost parentheses. An expression without constants to fold is borrowed.
pub fn reduce<'a>(expr: &'a Expr, context: &Context) -> Cow<'a, Expr> {
    match fold(expr, context) {
        Cow::Borrowed(Expr::Paren(inner)) => Cow::Borrowed(&**inner),
        Cow::Owned(Expr::Paren(inner)) => Cow::Owned(*inner),
        folded => folded,
    }
}

/// [`reduce`] that keeps the outermost parentheses.
pub(super) fn fold<'a>(expr: &'a Expr, context: &Context) -> Cow<'a, Expr> {
    match expr {
        Expr::Binary(binary) => {
            let (lhs, rhs) = (fold(&binary.lhs, context), fold(&binary.rhs, context));
            match (&lhs, &rhs) {
                (Cow::Borrowed(left), Cow::Borrowed(right)) => {
                    match value(binary.op, left, right, context) {
                        Value::Lhs => lhs,
                        Value::Rhs => rhs,
                        Value::Constant(constant) => Cow::Owned(constant),
                        // An operand may have lost its parentheses.
                        Value::None
                            if std::ptr::eq(*left, &binary.lhs) && std::ptr::eq(*right, &binary.rhs) =>
                        {
                            Cow::Borrowed(expr)
                        }
                        Value::None => {
                            Cow::Owned(Expr::binary(binary.op, lhs.into_owned(), rhs.into_owned()))
                        }
                    }
                }
                _ => fold_binary(binary.op, lhs, rhs, context),
            }
        }
        Expr::Call(call) => fold_call(expr, call, context),
        Expr::Paren(inner) => match fold(inner, context) {
            Cow::Borrowed(folded) if std::ptr::eq(folded, &**inner) && matches!(folded, Expr::Binary(_)) => {
                Cow::Borrowed(expr)
            }
            folded => fold_paren(folded),
        },
        _ => Cow::Borrowed(expr),
    }
}

/// Parentheses around a folded expression: they matter only around an operation.
pub(super) fn fold_paren(inner: Cow<'_, Expr>) -> Cow<'_, Expr> {
    match inner.as_ref() {
        Expr::Binary(_) => Cow::Owned(Expr::Paren(Box::new(inner.into_owned()))),
        _ => inner,
    }
}

fn fold_call<'a>(expr: &'a Expr, call: &Call, context: &Context) -> Cow<'a, Expr> {
    if let (true, true, Some(now_ns)) = (call.args.is_empty(), call.name == "now", context.now_ns) {
        return Cow::Owned(Expr::Time(TimeLiteral::utc(now_ns.into())));
    }
    let args: Vec<Cow<'_, Expr>> = call.args.iter().map(|arg| fold(arg, context)).collect();
    let unchanged = |(folded, arg): (&Cow<'_, Expr>, &Expr)| match folded {
        Cow::Borrowed(folded) => std::ptr::eq(*folded, arg),
        Cow::Owned(_) => false,
    };
    if context.mathematics
        && args.iter().all(|arg| arg.is_literal())
        && let Some(value) = super::math::call(&call.name, &args)
    {
        return Cow::Owned(value);
    }
    if args.iter().zip(&call.args).all(unchanged) {
        return Cow::Borrowed(expr);
    }
    let args = args.into_iter().map(Cow::into_owned).collect();
    Cow::Owned(Expr::call(call.name.clone(), args))
}

/// Folds an operation on folded operands.
pub(super) fn fold_binary<'a>(
    op: Op,
    lhs: Cow<'a, Expr>,
    rhs: Cow<'a, Expr>,
    context: &Context,
) -> Cow<'a, Expr> {
    match value(op, &lhs, &rhs, context) {
        Value::Lhs => lhs,
        Value::Rhs => rhs,
        Value::Constant(constant) => Cow::Owned(constant),
        Value::None => Cow::Owned(Expr::binary(op, lhs.into_owned(), rhs.into_owned())),
    }
}

/// The result of folding an operation.
enum Value {
    /// The same as its left operand.
    Lhs,
    /// The same as its right operand.
    Rhs,
    Constant(Expr),
    /// It stays an operation.
    None,
}

fn value(op: Op, lhs: &Expr, rhs: &Expr, context: &Context) -> Value {
    match (op, lhs, rhs) {
        (Op::And, Expr::Boolean(false), _) | (Op::And, _, Expr::Boolean(false)) => {
            Value::Constant(Expr::Boolean(false))
        }
        (Op::Or, Expr::Boolean(true), _) | (Op::Or, _, Expr::Boolean(true)) => {
            Value::Constant(Expr::Boolean(true))
        }
        (Op::And, Expr::Boolean(true), _) | (Op::Or, Expr::Boolean(false), _) => Value::Rhs,
        (Op::And, _, Expr::Boolean(true)) | (Op::Or, _, Expr::Boolean(false)) => Value::Lhs,
        _ => constant(op, lhs, rhs, context).map_or(Value::None, Value::Constant),
    }
}

/// The value of an operation, if both operands are constants that can be combined.
fn constant(op: Op, lhs: &Expr, rhs: &Expr, context: &Context) -> Option<Expr> {
    let (zone, overflow) = (context.zone, context.overflow);
    let time = |text: &str| parse_time(text, zone).map(Expr::Time);
    match (lhs, rhs) {
        (Expr::Nil, _) => matches!(op, Op::Equal | Op::NotEqual).then_some(Expr::Boolean(false)),
        (Expr::String(_), Expr::Nil) => {
            matches!(op, Op::Equal | Op::NotEqual).then_some(Expr::Boolean(false))
        }
        (Expr::Unsigned(_), Expr::Nil) => None,
        (_, Expr::Nil) if lhs.is_literal() => Some(Expr::Boolean(false)),
        (Expr::Boolean(left), Expr::Boolean(right)) => booleans(op, *left, *right),
        (Expr::Duration(left), Expr::Duration(right)) => match op {
            Op::Add => overflow.of(left.checked_add(*right), left.wrapping_add(*right)).map(Expr::Duration),
            Op::Subtract => {
                overflow.of(left.checked_sub(*right), left.wrapping_sub(*right)).map(Expr::Duration)
            }
            _ => compare(op, left, right),
        },
        // The factor loses its fraction, as in InfluxDB; a division by zero then gives zero.
        (Expr::Duration(left), Expr::Number(right)) => scale(op, *left, overflow.integer(*right)?, overflow),
        (Expr::Duration(left), Expr::Integer(right)) => scale(op, *left, *right, overflow),
        (Expr::Duration(left), Expr::Time(right)) => shift(op, *right, *left).filter(|_| op == Op::Add),
        (Expr::Duration(_), Expr::String(text)) => constant(op, lhs, &time(text)?, context),
        (Expr::Integer(left), Expr::Integer(right)) => integers(op, *left, *right, overflow),
        (Expr::Integer(left), Expr::Number(right)) => numbers(op, *left as f64, *right),
        (Expr::Integer(left), Expr::Unsigned(right)) => match op {
            Op::Less | Op::LessOrEqual if *left < 0 => Some(Expr::Boolean(true)),
            Op::Greater | Op::GreaterOrEqual if *left < 0 => Some(Expr::Boolean(false)),
            _ => unsigneds(op, (*left).into(), (*right).into(), overflow),
        },
        (Expr::Integer(left), Expr::Duration(right)) => shift(op, TimeLiteral::utc((*left).into()), *right),
        (Expr::Integer(left), Expr::Time(_)) => constant(op, &Expr::Duration(*left), rhs, context),
        (Expr::Integer(left), Expr::String(text)) => {
            constant(op, &Expr::Duration(*left), &time(text)?, context)
        }
        (Expr::Unsigned(left), Expr::Unsigned(right)) => {
            unsigneds(op, (*left).into(), (*right).into(), overflow)
        }
        (Expr::Unsigned(left), Expr::Number(right)) => numbers(op, *left as f64, *right),
        (Expr::Unsigned(left), Expr::Integer(right)) => match op {
            Op::Less | Op::LessOrEqual if *right < 0 => Some(Expr::Boolean(false)),
            Op::Greater | Op::GreaterOrEqual if *right < 0 => Some(Expr::Boolean(true)),
            _ => unsigneds(op, (*left).into(), (*right).into(), overflow),
        },
        (Expr::Number(left), Expr::Number(right)) => numbers(op, *left, *right),
        (Expr::Number(left), Expr::Integer(right)) => numbers(op, *left, *right as f64),
        (Expr::Number(left), Expr::Unsigned(right)) => numbers(op, *left, *right as f64),
        (Expr::String(left), Expr::String(right)) => strings(op, left, right, zone),
        (Expr::String(text), Expr::Duration(_) | Expr::Time(_) | Expr::Integer(_)) => {
            constant(op, &time(text)?, rhs, context)
        }
        (Expr::Time(left), Expr::Duration(right) | Expr::Integer(right)) => shift(op, *left, *right),
        (Expr::Time(left), Expr::Time(right)) => times(op, *left, *right),
        (Expr::Time(_), Expr::String(text)) => constant(op, lhs, &time(text)?, context),
        _ => None,
    }
}

fn compare<T: PartialOrd>(op: Op, left: &T, right: &T) -> Option<Expr> {
    Some(Expr::Boolean(match op {
        Op::Equal => left == right,
        Op::NotEqual => left != right,
        Op::Less => left < right,
        Op::LessOrEqual => left <= right,
        Op::Greater => left > right,
        Op::GreaterOrEqual => left >= right,
        _ => return None,
    }))
}

fn booleans(op: Op, left: bool, right: bool) -> Option<Expr> {
    Some(Expr::Boolean(match op {
        Op::Equal => left == right,
        Op::NotEqual | Op::BitwiseXor => left != right,
        Op::And | Op::BitwiseAnd => left && right,
        Op::Or | Op::BitwiseOr => left || right,
        _ => return None,
    }))
}

fn scale(op: Op, duration: i64, factor: i64, overflow: Overflow) -> Option<Expr> {
    let scaled = match op {
        Op::Multiply => overflow.of(duration.checked_mul(factor), duration.wrapping_mul(factor)),
        Op::Divide if factor == 0 => Some(0),
        Op::Divide => overflow.of(duration.checked_div(factor), duration.wrapping_div(factor)),
        _ => None,
    };
    scaled.map(Expr::Duration)
}

fn shift(op: Op, time: TimeLiteral, duration: i64) -> Option<Expr> {
    let unix_ns = match op {
        Op::Add => time.unix_ns + i128::from(duration),
        Op::Subtract => time.unix_ns - i128::from(duration),
        _ => return None,
    };
    Some(Expr::Time(TimeLiteral { unix_ns, ..time }))
}

fn times(op: Op, left: TimeLiteral, right: TimeLiteral) -> Option<Expr> {
    if op == Op::Subtract {
        let difference = (left.unix_ns - right.unix_ns).clamp(i64::MIN.into(), i64::MAX.into());
        return Some(Expr::Duration(difference as i64));
    }
    compare(op, &left.unix_ns, &right.unix_ns)
}

fn integers(op: Op, left: i64, right: i64, overflow: Overflow) -> Option<Expr> {
    Some(match op {
        Op::Add => Expr::Integer(overflow.of(left.checked_add(right), left.wrapping_add(right))?),
        Op::Subtract => Expr::Integer(overflow.of(left.checked_sub(right), left.wrapping_sub(right))?),
        Op::Multiply => Expr::Integer(overflow.of(left.checked_mul(right), left.wrapping_mul(right))?),
        Op::Divide if right == 0 => Expr::Number(0.0),
        Op::Divide => Expr::Number(left as f64 / right as f64),
        Op::Modulo if right == 0 => Expr::Integer(0),
        Op::Modulo => Expr::Integer(left.wrapping_rem(right)),
        Op::BitwiseAnd => Expr::Integer(left & right),
        Op::BitwiseOr => Expr::Integer(left | right),
        Op::BitwiseXor => Expr::Integer(left ^ right),
        _ => return compare(op, &left, &right),
    })
}

/// Of operands of which one or both are unsigned. A negative one counts modulo 2⁶⁴, as in InfluxDB, or is refused.
fn unsigneds(op: Op, left: i128, right: i128, overflow: Overflow) -> Option<Expr> {
    let of = |exact: Option<i128>, wrapped: u64| {
        let exact = exact.and_then(|exact| u64::try_from(exact).ok());
        overflow.of(exact, wrapped).map(Expr::Unsigned)
    };
    let (a, b) = (left as u64, right as u64);
    match op {
        Op::Add => of(Some(left + right), a.wrapping_add(b)),
        Op::Subtract => of(Some(left - right), a.wrapping_sub(b)),
        Op::Multiply => of(left.checked_mul(right), a.wrapping_mul(b)),
        Op::Divide => of(left.checked_div(right).or(Some(0)), a.checked_div(b).unwrap_or(0)),
        Op::Modulo => of(left.checked_rem(right).or(Some(0)), a.checked_rem(b).unwrap_or(0)),
        _ => compare(op, &a, &b),
    }
}

fn numbers(op: Op, left: f64, right: f64) -> Option<Expr> {
    Some(Expr::Number(match op {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide if right == 0.0 => 0.0,
        Op::Divide => left / right,
        Op::Modulo => left % right,
        _ => return compare(op, &left, &right),
    }))
}

fn strings(op: Op, left: &str, right: &str, zone: Option<Zone>) -> Option<Expr> {
    let time = |text: &str| parse_time(text, zone);
    match op {
        Op::Add => Some(Expr::String(format!("{left}{right}"))),
        // The same time may be written in several ways.
        Op::Equal | Op::NotEqual if looks_like_time(left) && looks_like_time(right) => {
            match (time(left), time(right)) {
                (Some(left), Some(right)) => times(op, left, right),
                _ => compare(op, &left, &right),
            }
        }
        Op::Equal | Op::NotEqual => compare(op, &left, &right),
        _ => times(op, time(left)?, time(right)?),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_expr;
    use super::*;

    fn reduced(text: &str) -> String {
        let context = Context {
            now_ns: Some(1_000_000_000),
            zone: Zone::named("Europe/Berlin"),
            mathematics: true,
            ..Context::default()
        };
        reduce(&parse_expr(text).unwrap(), &context).to_string()
    }

    #[test]
    fn constants_fold() {
        for (text, result) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * a", "3 * a"),
            ("a * (1 + b)", "a * (1 + b)"),
            ("7 / 2", "3.500"),
            ("1 / 0", "0.000"),
            ("1.5 / 0", "0.000"),
            ("7 % 0", "0"),
            ("6 & 3 | 8 ^ 1", "11"),
            ("1h + 30m", "90m"),
            ("1h * 2.9", "2h"),
            ("1h / 0", "0s"),
            ("1s * 10000000000000000000.0", "0s"),
            ("1h / 0.5", "0s"),
            ("now() - 1s", "'1970-01-01T00:00:00Z'"),
            ("1s + now()", "'1970-01-01T00:00:02Z'"),
            ("1000 + 1u", "'1970-01-01T00:00:00.000002Z'"),
            ("'2020-01-01' + 1h", "'2020-01-01T00:00:00Z'"),
            ("'2020-01-02T00:00:00Z' - '2020-01-01T00:00:00Z'", "1d"),
            ("'2020-01-01' = '2020-01-01 00:00:00'", "true"),
            ("'a' + 'b'", "'ab'"),
            ("'a' < 'b'", "'a' < 'b'"),
            ("'0001-01-01T00:00:00Z' - '9999-01-01T00:00:00Z'", "-9223372036854775808ns"),
            ("true AND a = 1", "a = 1"),
            ("a = 1 OR true", "true"),
            ("a = 1 AND 1 > 2", "false"),
            ("18446744073709551615 + 1", "0"),
            ("-1 < 18446744073709551615", "true"),
            ("9223372036854775807 + 1", "-9223372036854775808"),
            ("-9223372036854775808 % -1", "0"),
            ("pow(2, 3) + abs(-1)", "9.000"),
            ("abs('a')", "nil"),
            ("abs(a + (1 + 1))", "abs(a + 2)"),
            ("((a))", "a"),
        ] {
            assert_eq!(reduced(text), result, "{text}");
        }
    }
}
