//! Adding a straight line to unpacked residuals.

use crate::level::dispatched;
use crate::narrow::Narrow;

dispatched! {
    /// Adds `first + step · i` to each value, wrapping.
    pub(crate) fn add_line<T: Narrow>(values: &mut [T], first: T, step: T) = add_line_body;
}

#[inline(always)]
fn add_line_body<T: Narrow>(values: &mut [T], first: T, step: T) {
    if step == T::default() {
        for value in values {
            *value = value.wrapping_add(first);
        }
        return;
    }
    for (index, value) in values.iter_mut().enumerate() {
        let line = first.wrapping_add(step.wrapping_mul(T::truncate(index as u64)));
        *value = value.wrapping_add(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn every_level_adds_the_same_line() {
        for step in [0, 1, 7, u32::MAX] {
            for level in Level::available() {
                let mut values: Vec<u32> = (0..200).collect();
                add_line(level, &mut values, 5, step);
                for (index, value) in (0..200_u32).zip(values) {
                    assert_eq!(value, index.wrapping_add(5).wrapping_add(step.wrapping_mul(index)));
                }
            }
        }
    }
}
