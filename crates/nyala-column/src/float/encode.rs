//! Choosing how to encode one vector of floats.
//!
//! Repeated bit patterns are tried first. Then decimals, because most measurements were typed or printed with few
//! digits; then shared upper bits. Floats are stored raw when nothing helps.

use super::decimal::{DecimalPowers, EXPONENT_LIMIT, exceptions_bytes, push_decimal_start};
use super::split::{plan_split, push_split};
use super::vector::{FloatEncoding, FloatVector};
use crate::cpu::CpuFeatures;
use crate::directory::VECTOR_VALUES;
use crate::integer::{IntegerScratch, push_nested_vector};
use crate::kernels::float::{count_changes, same_bits, scale_down, scale_down_one, to_ordered};
use crate::preference::Preference;

/// Values in the sample that shows a power of ten or a split.
const SAMPLE: usize = 64;
/// Digits after the point beyond which floats are not decimals.
const DIGITS_LIMIT: u8 = 17;

/// One float vector being encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct FloatScratch {
    integers: Vec<i64>,
    positions: Vec<u16>,
    exceptions: Vec<u64>,
    /// The powers of the previous vector, which mostly fit the next one.
    decimals: Option<DecimalPowers>,
}

/// Calls [`encode_vector`] and decodes the result. A vector that does not decode to the same bits is written raw.
pub(super) fn encode_verified(
    cpu: CpuFeatures,
    values: &[f64],
    preference: Preference,
    floats: &mut FloatScratch,
    integers: &mut IntegerScratch,
    out: &mut Vec<u8>,
) -> FloatEncoding {
    let start = out.len();
    let encoding = encode_vector(cpu, values, preference, floats, integers, out);
    let mut decoded = [0.0; VECTOR_VALUES];
    let read = FloatVector::parse(encoding, values.len(), &out[start..])
        .and_then(|vector| vector.decode(cpu, 0..values.len(), &mut decoded));
    if read.is_ok() && same_bits(cpu, values, &decoded[..values.len()]) {
        return encoding;
    }
    debug_assert!(false, "an encoding lost floats: {encoding:?}");
    out.truncate(start);
    push_raw(values, out);
    FloatEncoding::Raw
}

fn push_raw(values: &[f64], out: &mut Vec<u8>) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

/// Appends the payload of `values` (1..=1024) to `out`.
fn encode_vector(
    cpu: CpuFeatures,
    values: &[f64],
    preference: Preference,
    floats: &mut FloatScratch,
    integers: &mut IntegerScratch,
    out: &mut Vec<u8>,
) -> FloatEncoding {
    let start = out.len();
    if let Some(bits) = repeated(cpu, values, floats) {
        push_nested_vector(cpu, bits, preference, integers, out);
        return FloatEncoding::Ordered;
    }
    if let Some(decimals) = find_decimals(values, floats.decimals) {
        let scaled = scale_all(cpu, values, decimals, floats);
        // Without exceptions decimals are about as small as it gets. With some, the alternative is estimated.
        let limit = if scaled == 0 { usize::MAX } else { alternative_bytes(values) };
        if exceptions_bytes(scaled, values.len(), 8) < limit {
            push_decimals(cpu, values.len(), decimals, preference, floats, integers, out);
            if out.len() - start < limit {
                floats.decimals = Some(decimals);
                return FloatEncoding::Decimal;
            }
            out.truncate(start);
        }
    }
    match plan_split(&bit_sample(values), values.len()) {
        Some(plan) => {
            push_split(values, plan, out);
            FloatEncoding::Split
        }
        None => {
            push_raw(values, out);
            FloatEncoding::Raw
        }
    }
}

/// Bytes that the vector takes without decimals.
fn alternative_bytes(values: &[f64]) -> usize {
    plan_split(&bit_sample(values), values.len()).map_or(values.len() * 8, |split| split.bytes)
}

fn bit_sample(values: &[f64]) -> Vec<u64> {
    let mut sample: Vec<u64> = spread(values).map(f64::to_bits).collect();
    sample.sort_unstable();
    sample
}

fn spread(values: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let count = values.len().min(SAMPLE);
    (0..count).map(move |index| values[index * values.len() / count])
}

/// The bit patterns as ordered integers, if all are equal or runs are long. Decimals would keep the runs too, but
/// not the bit patterns of floats that are not decimals.
fn repeated<'a>(cpu: CpuFeatures, values: &[f64], scratch: &'a mut FloatScratch) -> Option<&'a [i64]> {
    if count_changes(cpu, values) * 8 > values.len() {
        return None;
    }
    scratch.integers.clear();
    scratch.integers.extend(values.iter().map(|value| to_ordered(*value)));
    Some(&scratch.integers)
}

/// A power of ten under which nearly all of a sample are integers.
fn find_decimals(values: &[f64], last: Option<DecimalPowers>) -> Option<DecimalPowers> {
    let misses = |decimals: DecimalPowers| {
        let (powers, scale) = (decimals.powers(), decimals.scale());
        spread(values).filter(|value| !scale_down_one(*value, powers, scale).1).count()
    };
    let sampled = values.len().min(SAMPLE);
    // Exceptions are costly: an eighth of the sample already rules decimals out.
    let tolerable = sampled / 8;
    if let Some(last) = last
        && misses(last) == 0
    {
        return Some(last);
    }
    let divide = |exponent| DecimalPowers { exponent, factor: None };
    let exponent = (0..=DIGITS_LIMIT).find(|exponent| misses(divide(*exponent)) <= tolerable)?;
    let divided = divide(exponent);
    let least = misses(divided);
    // Division is exact but slow. Mostly some multiplication is exact too, more often with higher powers.
    (0..=EXPONENT_LIMIT - exponent)
        .rev()
        .map(|factor| DecimalPowers { exponent: exponent + factor, factor: Some(factor) })
        .find(|decimals| misses(*decimals) <= least)
        .or(Some(divided))
}

/// Scales all values down, collects those that do not come back as exceptions, and returns how many these are.
fn scale_all(cpu: CpuFeatures, values: &[f64], decimals: DecimalPowers, floats: &mut FloatScratch) -> usize {
    let (powers, scale) = (decimals.powers(), decimals.scale());
    floats.integers.resize(values.len(), 0);
    floats.positions.clear();
    floats.exceptions.clear();
    let lost = scale_down(cpu, values, powers, scale, &mut floats.integers);
    if lost > 0 {
        // An exception repeats the integer before it, which costs least in every encoding.
        let is_exact = |value: &&f64| scale_down_one(**value, powers, scale).1;
        let first = values.iter().find(is_exact).map_or(0, |value| scale_down_one(*value, powers, scale).0);
        let mut last = first;
        for (row, (integer, value)) in floats.integers.iter_mut().zip(values).enumerate() {
            if scale_down_one(*value, powers, scale).1 {
                last = *integer;
            } else {
                floats.positions.push(row as u16);
                floats.exceptions.push(value.to_bits());
                *integer = last;
            }
        }
    }
    lost
}

/// Appends the output of [`scale_all`].
fn push_decimals(
    cpu: CpuFeatures,
    rows: usize,
    decimals: DecimalPowers,
    preference: Preference,
    floats: &FloatScratch,
    integers: &mut IntegerScratch,
    out: &mut Vec<u8>,
) {
    push_decimal_start(decimals, &floats.positions, &floats.exceptions, rows, out);
    push_nested_vector(cpu, &floats.integers, preference, integers, out);
}
