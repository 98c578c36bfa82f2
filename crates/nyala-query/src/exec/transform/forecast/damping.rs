//! How far a damped trend reaches: φ + φ + φ² + φ³ + … up to a step.
//!
//! A power is what repeated squaring gives, each product rounded, so that it does not matter who computes it. All
//! powers of one φ are made from its squares with one multiplication each, because that of a number is that of the
//! number without its highest bit, times a square. Once powers are too small to change the sum, there are no more.

use crate::elementary::{fraction_and_exponent, scaled};

/// Sums of powers of one φ.
#[derive(Default)]
pub struct Damping {
    phi: f64,
    /// The sum so far.
    sum: f64,
    /// The power that comes next.
    next: usize,
    /// Whether further powers change nothing.
    settled: bool,
    /// Powers as fractions with exponents, by number.
    powers: Vec<(f64, i64)>,
    /// φ², φ⁴, … in the same way.
    squares: Vec<(f64, i64)>,
}

impl Damping {
    /// Begins anew with a φ from 0 to 1.
    pub fn restart(&mut self, phi: f64) {
        let (fraction, exponent) = fraction_and_exponent(phi);
        self.powers.clear();
        self.powers.push((1.0, 0));
        self.squares.clear();
        self.squares.push((fraction, i64::from(exponent)));
        (self.phi, self.sum, self.next, self.settled) = (phi, phi, 1, phi == 0.0);
    }

    /// The sum for the next step.
    pub fn ahead(&mut self) -> f64 {
        let sum = self.sum;
        if !self.settled {
            let more = self.power(self.next);
            self.next += 1;
            self.sum += more;
            // Powers of less than 1 do not grow again.
            self.settled = self.sum == sum && self.phi < 1.0;
        }
        sum
    }

    fn power(&mut self, number: usize) -> f64 {
        if self.phi == 1.0 {
            return 1.0;
        }
        let highest = number.ilog2() as usize;
        while self.squares.len() <= highest {
            let (fraction, exponent) = self.squares[self.squares.len() - 1];
            let (mut square, mut exponent) = (fraction * fraction, 2 * exponent);
            if square < 0.5 {
                square += square;
                exponent -= 1;
            }
            self.squares.push((square, exponent));
        }
        let (rest, rest_exponent) = self.powers[number - (1 << highest)];
        let (square, exponent) = self.squares[highest];
        let power = (rest * square, rest_exponent + exponent);
        self.powers.push(power);
        scaled(power.0, power.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementary::pow;

    #[test]
    fn sums_are_those_of_powers() {
        for phi in [0.0, 1.0, 0.3, 0.7, 0.999_999, 1e-9, 5e-324, 0.5] {
            let mut damping = Damping::default();
            damping.restart(phi);
            let mut sum = phi;
            for step in 1..2000 {
                assert_eq!(damping.ahead(), sum, "{phi} {step}");
                sum += pow(phi, f64::from(step));
            }
        }
    }
}
