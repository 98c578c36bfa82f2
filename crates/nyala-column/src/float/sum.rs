//! Sums of floats that do not depend on how rows are laid out.
//!
//! Float addition is not associative, so a sum must add in one order whatever blocks, vectors and instruction
//! sets its rows pass through. The order here: row `i` of the window is added to lane `i mod 8`, each lane in row
//! order, and at the end the lanes are combined as `((0+4)+(2+6)) + ((1+5)+(3+7))`. Eight lanes are what one
//! AVX-512 register holds; slices add to them at any phase.

use crate::kernels::lanes::add_to_lanes;
use crate::level::Level;

/// Lanes of every float sum. Part of what a query answers: changing it changes results in the last bit.
pub(crate) const LANES: usize = 8;

/// The running sum of one window's rows, to be fed in row order.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FloatSum {
    lanes: [f64; LANES],
    count: u64,
}

impl FloatSum {
    /// The sum of nothing.
    pub const fn new() -> Self {
        Self { lanes: [0.0; LANES], count: 0 }
    }

    /// Adds the window's next rows.
    pub fn add_slice(&mut self, level: Level, values: &[f64]) {
        add_to_lanes(level, &mut self.lanes, (self.count % LANES as u64) as usize, values);
        self.count += values.len() as u64;
    }

    /// Adds the window's next row.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.lanes[(self.count % LANES as u64) as usize] += value;
        self.count += 1;
    }

    /// Rows added so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the rows added so far; 0 of none.
    pub fn total(&self) -> f64 {
        let [a, b, c, d, e, f, g, h] = self.lanes;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut [f64; LANES], &mut u64) {
        (&mut self.lanes, &mut self.count)
    }
}
