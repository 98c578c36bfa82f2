//! Medians, percentiles and standard deviations of the values that a window keeps.

use super::datum::Datum;
use super::kept::{Item, Kept, by_value};

/// The value in the middle; the mean of the two in the middle if their number is even.
pub fn median<T: Datum, K: Kept<T>>(mut kept: Vec<K>) -> f64 {
    let middle = kept.len() / 2;
    let (below, high, above) = kept.select_nth_unstable_by(middle, by_value);
    let high = high.value();
    match below.iter().max_by(|a, b| by_value(*a, *b)) {
        Some(low) if (below.len() + 1 + above.len()).is_multiple_of(2) => mean_of_middle(low.value(), high),
        _ => high.to_float(),
    }
}

/// The mean of two values. They are subtracted in their own type, as in InfluxDB.
pub fn mean_of_middle<T: Datum>(low: &T, high: &T) -> f64 {
    low.to_float() + high.minus(low).to_float() / 2.0
}

/// The sample standard deviation; NaN for a single value.
pub fn stddev<T: Datum, K: Kept<T>>(kept: &[K]) -> f64 {
    if kept.len() < 2 {
        return f64::NAN;
    }
    let mut mean = 0.0;
    for (count, kept) in kept.iter().enumerate() {
        mean += (kept.value().to_float() - mean) / (count + 1) as f64;
    }
    let squares: f64 = kept.iter().map(|kept| (kept.value().to_float() - mean).powi(2)).sum();
    (squares / (kept.len() - 1) as f64).sqrt()
}

/// The position of the nearest rank of a percentage among `count` sorted values, if there is one.
pub fn percentile_rank(count: u64, percentage: f64) -> Option<u64> {
    let rank = (count as f64 * percentage / 100.0 + 0.5).floor() - 1.0;
    (rank >= 0.0 && rank < count as f64).then_some(rank as u64)
}

/// The row at the nearest rank; of several with one value and time the first.
pub fn percentile<T: Datum, K: Kept<T>>(mut kept: Vec<K>, percentage: f64) -> Option<Item<T>> {
    let rank = percentile_rank(kept.len() as u64, percentage)? as usize;
    kept.select_nth_unstable_by(rank, by_value);
    let equal = |position: &usize| by_value(&kept[*position], &kept[rank]).is_eq();
    let first = (0..kept.len()).filter(equal).min_by_key(|position| kept[*position].row())?;
    Some(kept.swap_remove(first).into_item())
}
