//! Elementary functions with the very results of InfluxDB, whose answers show every digit.
//!
//! No standard says how sines, logarithms and powers are rounded, so libraries differ in the last place. InfluxDB's are
//! those of Go on x86-64: the polynomials of the Cephes library (sine, cosine, tangent, arcus tangent), of FreeBSD
//! (logarithm), a Taylor series with fused multiplications (exponential), and powers by repeated squaring.

mod exponential;
mod function;
mod trigonometric;

pub use exponential::{exp, ln, log2, log10, pow};
pub use function::{Formula, MathFunction};
pub use trigonometric::{acos, asin, atan, atan2, cos, sin, tan};

/// A polynomial's value; the coefficient of the highest power comes first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().copied().reduce(|value, coefficient| value * x + coefficient).unwrap_or(0.0)
}
