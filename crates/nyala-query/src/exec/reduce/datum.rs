//! The types of values that functions reduce.

use super::kept::{Kept, mode};
use nyala_exec::Column;

/// A type of values.
pub trait Datum: Clone + PartialOrd {
    type Key: std::hash::Hash + Eq;
    fn key(&self) -> Self::Key;
    fn to_float(&self) -> f64;
    /// Subtracts in the type: integers wrap around.
    fn minus(&self, other: &Self) -> Self;
    fn column(values: Vec<Option<Self>>) -> Column;
    /// The most frequent of some values.
    fn mode<K: Kept<Self>>(kept: Vec<K>) -> Self {
        mode(kept)
    }
    /// Bytes beside the value itself.
    fn heap_bytes(&self) -> usize {
        0
    }
}

macro_rules! number_datum {
    ($type:ty, $key:ty, $variant:ident, $to_key:expr, $minus:expr) => {
        impl Datum for $type {
            type Key = $key;
            fn key(&self) -> $key {
                $to_key(*self)
            }
            fn to_float(&self) -> f64 {
                *self as f64
            }
            fn minus(&self, other: &Self) -> Self {
                $minus(*self, *other)
            }
            fn column(values: Vec<Option<Self>>) -> Column {
                Column::$variant(values.into())
            }
        }
    };
}

number_datum!(f64, u64, Float, key_of_float, |a, b| a - b);
number_datum!(i64, i64, Integer, |value| value, i64::wrapping_sub);
number_datum!(u64, u64, Unsigned, |value| value, u64::wrapping_sub);

/// Zero and negative zero are one value.
fn key_of_float(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

impl Datum for String {
    type Key = String;
    fn key(&self) -> String {
        self.clone()
    }
    fn to_float(&self) -> f64 {
        f64::NAN
    }
    fn minus(&self, _other: &Self) -> Self {
        self.clone()
    }
    fn column(values: Vec<Option<Self>>) -> Column {
        Column::String(values.into_iter().collect())
    }
    fn heap_bytes(&self) -> usize {
        self.len()
    }
}

impl Datum for bool {
    type Key = bool;
    fn key(&self) -> bool {
        *self
    }
    fn to_float(&self) -> f64 {
        f64::NAN
    }
    fn minus(&self, other: &Self) -> Self {
        *self != *other
    }
    fn column(values: Vec<Option<Self>>) -> Column {
        Column::Boolean(values.into())
    }
    /// True if there are equally many of both.
    fn mode<K: Kept<Self>>(kept: Vec<K>) -> Self {
        2 * kept.iter().filter(|kept| *kept.value()).count() >= kept.len()
    }
}
