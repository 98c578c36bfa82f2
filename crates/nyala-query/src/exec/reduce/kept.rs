//! Rows that a window keeps until its end: with time and row, with time, or the value alone.

use nyala_exec::aggregate::RowId;
use std::cmp::Ordering;

/// A kept row, or the part of it that is needed.
pub trait Kept<T> {
    /// Keeps the part that is needed.
    fn of(item: Item<T>) -> Self;
    /// The value.
    fn value(&self) -> &T;
    /// The time, ns, if it was kept.
    fn time_ns(&self) -> i64;
    /// The row, if it was kept.
    fn row(&self) -> RowId {
        (0, 0)
    }
    /// Everything that was kept.
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

/// Orders by value, and then by time.
pub fn by_value<T: PartialOrd, K: Kept<T>>(a: &K, b: &K) -> Ordering {
    let values = a.value().partial_cmp(b.value()).unwrap_or(Ordering::Equal);
    values.then_with(|| a.time_ns().cmp(&b.time_ns()))
}

/// The most frequent value; of several the one with the earliest time. A value that occurs once counts only if it is the
/// smallest.
pub fn mode<T: Clone + PartialOrd, K: Kept<T>>(mut kept: Vec<K>) -> T {
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
