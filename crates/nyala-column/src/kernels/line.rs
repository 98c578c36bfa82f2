//! Adding a straight line to unpacked residuals, and from offsets to values.

use crate::cpu::dispatched;
use crate::narrow::{FrameOfReference, Narrow};

dispatched! {
    /// Adds `first + step · i` to each value, wrapping.
    pub(crate) fn add_line<T: Narrow>(values: &mut [T], first: T, step: T) = add_line_body;

    /// Appends the value of each offset.
    pub(crate) fn append_values<T: Narrow>(offsets: &[T], reference: FrameOfReference, out: &mut Vec<i64>) = append_values_body;

    /// Whether the offsets decode to these values.
    pub(crate) fn decodes_to<T: Narrow>(offsets: &[T], reference: FrameOfReference, values: &[i64]) -> bool = decodes_to_body;

    /// Writes the value of each offset.
    pub(crate) fn write_values<T: Narrow>(offsets: &[T], reference: FrameOfReference, out: &mut [i64]) = write_values_body;
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

#[inline(always)]
fn append_values_body<T: Narrow>(offsets: &[T], reference: FrameOfReference, out: &mut Vec<i64>) {
    // A case of its own, because vector multiplications of 64 bits are slow or missing.
    if reference.divisor == 1 {
        out.extend(offsets.iter().map(|offset| reference.min.wrapping_add_unsigned(offset.widen())));
    } else {
        out.extend(offsets.iter().map(|offset| reference.value(offset.widen())));
    }
}

#[inline(always)]
fn decodes_to_body<T: Narrow>(offsets: &[T], reference: FrameOfReference, values: &[i64]) -> bool {
    let mut different = 0;
    for (offset, value) in offsets.iter().zip(values) {
        different |= reference.value(offset.widen()) ^ value;
    }
    different == 0 && offsets.len() == values.len()
}

#[inline(always)]
fn write_values_body<T: Narrow>(offsets: &[T], reference: FrameOfReference, out: &mut [i64]) {
    for (out, offset) in out.iter_mut().zip(offsets) {
        *out = reference.value(offset.widen());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;

    #[test]
    fn every_instruction_set_adds_the_same_line() {
        for step in [0, 1, 7, u32::MAX] {
            for cpu in CpuFeatures::available() {
                let mut values: Vec<u32> = (0..200).collect();
                add_line(cpu, &mut values, 5, step);
                for (index, value) in (0..200_u32).zip(values) {
                    assert_eq!(value, index.wrapping_add(5).wrapping_add(step.wrapping_mul(index)));
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_makes_the_same_values() {
        let offsets: Vec<u16> = (0..100).map(|index| index * 600).collect();
        for cpu in CpuFeatures::available() {
            for divisor in [1, 1000] {
                let reference = FrameOfReference { min: i64::MIN + 5, divisor };
                let value = |offset: &u16| i64::MIN + 5 + i64::from(*offset) * divisor as i64;
                let expected: Vec<i64> = offsets.iter().map(value).collect();
                let mut appended = vec![1];
                append_values(cpu, &offsets, reference, &mut appended);
                assert_eq!(appended[1..], expected);
                let mut written = vec![0; 100];
                write_values(cpu, &offsets, reference, &mut written);
                assert_eq!(written, expected);
                assert!(decodes_to(cpu, &offsets, reference, &expected));
                assert!(!decodes_to(cpu, &offsets, reference, &expected[1..]));
                written[99] ^= 1 << 63;
                assert!(!decodes_to(cpu, &offsets, reference, &written));
            }
        }
    }
}
