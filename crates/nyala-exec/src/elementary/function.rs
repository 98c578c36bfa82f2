//! The mathematical functions that queries name.

use super::{acos, asin, atan, atan2, cos, exp, ln, log2, log10, pow, sin, tan};

/// A function that computes one value from one row's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the functions' names")]
pub enum MathFunction {
    Abs,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Exp,
    Ln,
    Log,
    Log2,
    Log10,
    Sqrt,
    Pow,
    Floor,
    Ceil,
    Round,
}

/// How a function computes floats.
#[derive(Clone, Copy)]
pub enum Formula {
    /// Of one argument.
    Unary(fn(f64) -> f64),
    /// Of two.
    Binary(fn(f64, f64) -> f64),
}

impl MathFunction {
    /// The function of that name.
    pub fn named(name: &str) -> Option<Self> {
        use MathFunction::*;
        Some(match name {
            "abs" => Abs,
            "sin" => Sin,
            "cos" => Cos,
            "tan" => Tan,
            "asin" => Asin,
            "acos" => Acos,
            "atan" => Atan,
            "atan2" => Atan2,
            "exp" => Exp,
            "ln" => Ln,
            "log" => Log,
            "log2" => Log2,
            "log10" => Log10,
            "sqrt" => Sqrt,
            "pow" => Pow,
            "floor" => Floor,
            "ceil" => Ceil,
            "round" => Round,
            _ => return None,
        })
    }

    /// Whether integers stay integers.
    pub fn keeps_integers(self) -> bool {
        use MathFunction::{Abs, Ceil, Floor, Round};
        matches!(self, Abs | Floor | Ceil | Round)
    }

    /// How it computes floats.
    pub fn formula(self) -> Formula {
        use Formula::{Binary, Unary};
        match self {
            MathFunction::Abs => Unary(f64::abs),
            MathFunction::Sin => Unary(sin),
            MathFunction::Cos => Unary(cos),
            MathFunction::Tan => Unary(tan),
            MathFunction::Asin => Unary(asin),
            MathFunction::Acos => Unary(acos),
            MathFunction::Atan => Unary(atan),
            MathFunction::Atan2 => Binary(atan2),
            MathFunction::Exp => Unary(exp),
            MathFunction::Ln => Unary(ln),
            MathFunction::Log => Binary(|value, base| ln(value) / ln(base)),
            MathFunction::Log2 => Unary(log2),
            MathFunction::Log10 => Unary(log10),
            MathFunction::Sqrt => Unary(f64::sqrt),
            MathFunction::Pow => Binary(pow),
            MathFunction::Floor => Unary(f64::floor),
            MathFunction::Ceil => Unary(f64::ceil),
            MathFunction::Round => Unary(f64::round),
        }
    }
}
