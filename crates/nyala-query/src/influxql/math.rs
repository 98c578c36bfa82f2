//! Mathematical functions: which there are, and their value for constants.

use std::borrow::Cow;

use super::expr::Expr;
use crate::elementary;

/// Whether a function computes one value from one row's values.
pub fn is_math_function(name: &str) -> bool {
    matches!(
        name,
        "abs"
            | "sin"
            | "cos"
            | "tan"
            | "asin"
            | "acos"
            | "atan"
            | "atan2"
            | "exp"
            | "log"
            | "ln"
            | "log2"
            | "log10"
            | "sqrt"
            | "pow"
            | "floor"
            | "ceil"
            | "round"
    )
}

/// The value of a function of constants: nil for what is no number, `None` for what is no such function.
///
/// Also nil for an unsigned result, which only numbers above the greatest signed one give: so does InfluxDB.
pub(super) fn call(name: &str, args: &[Cow<'_, Expr>]) -> Option<Expr> {
    if !is_math_function(name) {
        return None;
    }
    let number = |expr: &Expr| match expr {
        Expr::Number(value) => Some(*value),
        Expr::Integer(value) => Some(*value as f64),
        Expr::Unsigned(value) => Some(*value as f64),
        _ => None,
    };
    let value = match args {
        [arg] if matches!(name, "abs" | "floor" | "ceil" | "round") && !matches!(**arg, Expr::Number(_)) => {
            return Some(match **arg {
                Expr::Integer(value) if name == "abs" => Expr::Integer(value.wrapping_abs()),
                Expr::Integer(value) => Expr::Integer(value),
                _ => Expr::Nil,
            });
        }
        [arg] => match (one_argument(name), number(arg)) {
            (Some(function), arg) => arg.map(function),
            (None, _) => return None,
        },
        [first, second] => match (two_arguments(name), number(first).zip(number(second))) {
            (Some(function), args) => args.map(|(first, second)| function(first, second)),
            (None, _) => return None,
        },
        _ => return None,
    };
    Some(value.map_or(Expr::Nil, Expr::Number))
}

fn one_argument(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "sin" => elementary::sin,
        "cos" => elementary::cos,
        "tan" => elementary::tan,
        "asin" => elementary::asin,
        "acos" => elementary::acos,
        "atan" => elementary::atan,
        "exp" => elementary::exp,
        "ln" => elementary::ln,
        "log2" => elementary::log2,
        "log10" => elementary::log10,
        "sqrt" => f64::sqrt,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        "round" => f64::round,
        _ => return None,
    })
}

fn two_arguments(name: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match name {
        "atan2" => elementary::atan2,
        "pow" => elementary::pow,
        "log" => |value, base| elementary::ln(value) / elementary::ln(base),
        _ => return None,
    })
}
