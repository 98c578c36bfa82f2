//! The mathematical functions, and their values for constants.

use std::borrow::Cow;

use super::expr::Expr;
use nyala_exec::elementary::{Formula, MathFunction};

/// Whether a function computes one value from one row's values.
pub fn is_math_function(name: &str) -> bool {
    MathFunction::named(name).is_some()
}

/// The value of a function of constants: nil if the result is NaN, `None` if there is no such function.
///
/// As in InfluxDB, an unsigned result is nil too; only numbers above the greatest signed integer give one.
pub(super) fn call(name: &str, args: &[Cow<'_, Expr>]) -> Option<Expr> {
    let function = MathFunction::named(name)?;
    let number = |expr: &Expr| match expr {
        Expr::Number(value) => Some(*value),
        Expr::Integer(value) => Some(*value as f64),
        Expr::Unsigned(value) => Some(*value as f64),
        _ => None,
    };
    let value = match (function.formula(), args) {
        (Formula::Unary(_), [arg]) if function.keeps_integers() && !matches!(**arg, Expr::Number(_)) => {
            return Some(match **arg {
                Expr::Integer(value) if function == MathFunction::Abs => Expr::Integer(value.wrapping_abs()),
                Expr::Integer(value) => Expr::Integer(value),
                _ => Expr::Nil,
            });
        }
        (Formula::Unary(compute), [arg]) => number(arg).map(compute),
        (Formula::Binary(compute), [first, second]) => {
            number(first).zip(number(second)).map(|(first, second)| compute(first, second))
        }
        _ => return None,
    };
    Some(value.map_or(Expr::Nil, Expr::Number))
}
