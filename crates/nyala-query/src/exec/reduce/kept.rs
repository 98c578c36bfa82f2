//! Rows that a window keeps until its end, and what is found among them.

use super::datum::Datum;
use nyala_exec::aggregate::RowId;
use std::cmp::Ordering;

/// A row that was kept, or what of it is needed.
pub trait Kept<T> {
    /// Keeps what is needed.
    fn of(item: Item<T>) -> Self;
    /// The value.
    fn value(&self) -> &T;
    /// The time, ns, if it was kept.
    fn time_ns(&self) -> i64;
    /// The row, if it was kept.
    fn row(&self) -> RowId {
        (0, 0)
    }
    /// All that was kept.
    fn into_item(self) -> Item<T>;
}

/// A value with its time and row.
#[derive(Clone)]
pub struct Item<T> {
    /// The value.
    pub value: T,
    /// Its time, ns.
    pub time_ns: i64,
    /// Its row.
    pub row: RowId,
}

/// A value with its time.
pub struct Timed<T> {
    value: T,
    time_ns: i64,
}

/// A value alone.
pub struct Bare<T>(T);

impl<T> Kept<T> for Item<T> {
    fn of(item: Item<T>) -> Self {
        item
    }
    fn value(&self) -> &T {
        &self.value
    }
    fn time_ns(&self) -> i64 {
        self.time_ns
    }
    fn row(&self) -> RowId {
        self.row
    }
    fn into_item(self) -> Item<T> {
        self
    }
}

impl<T> Kept<T> for Timed<T> {
    fn of(item: Item<T>) -> Self {
        Self { value: item.value, time_ns: item.time_ns }
    }
    fn value(&self) -> &T {
        &self.value
    }
    fn time_ns(&self) -> i64 {
        self.time_ns
    }
    fn into_item(self) -> Item<T> {
        Item { value: self.value, time_ns: self.time_ns, row: (0, 0) }
    }
}

impl<T> Kept<T> for Bare<T> {
    fn of(item: Item<T>) -> Self {
        Self(item.value)
    }
    fn value(&self) -> &T {
        &self.0
    }
    fn time_ns(&self) -> i64 {
        0
    }
    fn into_item(self) -> Item<T> {
        Item { value: self.0, time_ns: 0, row: (0, 0) }
    }
}

/// By value, and those of one value by time.
pub fn by_value<T: PartialOrd, K: Kept<T>>(a: &K, b: &K) -> Ordering {
    let values = a.value().partial_cmp(b.value()).unwrap_or(Ordering::Equal);
    values.then_with(|| a.time_ns().cmp(&b.time_ns()))
}

/// The middle value; of an even number the mean of the two in the middle.
pub fn median<T: Datum, K: Kept<T>>(mut kept: Vec<K>) -> f64 {
    let middle = kept.len() / 2;
    let (below, high, above) = kept.select_nth_unstable_by(middle, by_value);
    let high = high.value();
    match below.iter().max_by(|a, b| by_value(*a, *b)) {
        Some(low) if (below.len() + 1 + above.len()).is_multiple_of(2) => mean_of_middle(low.value(), high),
        _ => high.to_float(),
    }
}

/// The mean of the two values in the middle. They are subtracted in their own type, as InfluxDB does.
pub fn mean_of_middle<T: Datum>(low: &T, high: &T) -> f64 {
    low.to_float() + high.minus(low).to_float() / 2.0
}

/// The sample standard deviation; of a single value not a number.
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

/// The place of the nearest rank of a percentage among `count` ordered values, if there is one.
pub fn percentile_rank(count: u64, percentage: f64) -> Option<u64> {
    let rank = (count as f64 * percentage / 100.0 + 0.5).floor() - 1.0;
    (rank >= 0.0 && rank < count as f64).then_some(rank as u64)
}

/// The value at the nearest rank; of several at one time the first.
pub fn percentile<T: Datum, K: Kept<T>>(mut kept: Vec<K>, percentage: f64) -> Option<Item<T>> {
    let rank = percentile_rank(kept.len() as u64, percentage)? as usize;
    kept.select_nth_unstable_by(rank, by_value);
    let equal = |place: &usize| by_value(&kept[*place], &kept[rank]).is_eq();
    let first = (0..kept.len()).filter(equal).min_by_key(|place| kept[*place].row())?;
    Some(kept.swap_remove(first).into_item())
}

/// The most frequent value; of several the earliest. A value that occurs once counts only if it is the smallest.
pub fn mode<T: Datum, K: Kept<T>>(mut kept: Vec<K>) -> T {
    kept.sort_by(by_value);
    let mut best = (kept[0].value().clone(), 0, kept[0].time_ns());
    let mut current = (kept[0].value().clone(), 0, kept[0].time_ns());
    for kept in kept {
        if *kept.value() != current.0 {
            current = (kept.value().clone(), 1, kept.time_ns());
            continue;
        }
        current.1 += 1;
        if best.1 > current.1 || (best.1 == current.1 && current.2 > best.2) {
            continue;
        }
        best = current.clone();
    }
    best.0
}
