//! Sums of floats in the order of addition that all stores share: see [`super`].

/// Lanes of a sum of floats.
pub const FLOAT_SUM_LANES: usize = 8;

/// A sum of floats in the fixed order. Values are added one by one or in slices.
#[derive(Debug, Clone, Copy, Default)]
pub struct FloatSum {
    lanes: [f64; FLOAT_SUM_LANES],
    count: u64,
}

impl FloatSum {
    /// Adds the next value.
    pub fn add(&mut self, value: f64) {
        self.lanes[(self.count % FLOAT_SUM_LANES as u64) as usize] += value;
        self.count += 1;
    }

    /// Adds the next values.
    pub fn add_slice(&mut self, values: &[f64]) {
        let until_lane_0 = self.count.wrapping_neg() as usize % FLOAT_SUM_LANES;
        let (head, rest) = values.split_at(until_lane_0.min(values.len()));
        head.iter().for_each(|value| self.add(*value));
        let (rows, tail) = rest.as_chunks::<FLOAT_SUM_LANES>();
        for row in rows {
            self.lanes.iter_mut().zip(row).for_each(|(lane, value)| *lane += value);
        }
        self.count += (rows.len() * FLOAT_SUM_LANES) as u64;
        tail.iter().for_each(|value| self.add(*value));
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum.
    pub fn sum(&self) -> f64 {
        self.lanes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_add_up_as_single_values_do() {
        let values: Vec<f64> = (0..100).map(|index| f64::from(index) * 0.1 + 1e9).collect();
        let mut single = FloatSum::default();
        values.iter().for_each(|value| single.add(*value));
        for cut in 0..40 {
            let mut sliced = FloatSum::default();
            sliced.add_slice(&values[..cut]);
            sliced.add_slice(&values[cut..cut + 5]);
            sliced.add_slice(&values[cut + 5..]);
            assert_eq!((sliced.sum(), sliced.count()), (single.sum(), 100));
        }
    }
}
