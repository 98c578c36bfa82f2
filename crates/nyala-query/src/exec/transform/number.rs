//! The types of numbers, so that an operator is written once for all of them.

use super::Series;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::ArrowNativeType;
use nyala_exec::Column;

/// A type of numbers. Integers wrap around, as InfluxDB's do.
pub trait Number: ArrowNativeType {
    /// The type of arrays of them.
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// Zero.
    const ZERO: Self;
    /// Whether it is a type of whole numbers.
    const IS_WHOLE: bool;

    /// The array in a column of them.
    fn array(column: &Column) -> Option<&PrimitiveArray<Self::Arrow>>;
    /// A column of them.
    fn column(values: Vec<Self>) -> Column;
    /// As a float.
    fn float(self) -> f64;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The difference as a float, whose sign is right even where the type has none.
    fn less(self, other: Self) -> f64;
}

macro_rules! number {
    ($type:ty, $arrow:ty, $variant:ident, $zero:expr, $whole:expr, $plus:expr, $minus:expr, $less:expr) => {
        impl Number for $type {
            type Arrow = $arrow;
            const ZERO: Self = $zero;
            const IS_WHOLE: bool = $whole;
            fn array(column: &Column) -> Option<&PrimitiveArray<$arrow>> {
                match column {
                    Column::$variant(array) => Some(array),
                    _ => None,
                }
            }
            fn column(values: Vec<Self>) -> Column {
                Column::$variant(values.into())
            }
            fn float(self) -> f64 {
                self as f64
            }
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            fn minus(self, other: Self) -> Self {
                $minus(self, other)
            }
            fn less(self, other: Self) -> f64 {
                $less(self, other)
            }
        }
    };
}

number!(f64, Float64Type, Float, 0.0, false, |a, b| a + b, |a, b| a - b, |a, b| a - b);
number!(i64, Int64Type, Integer, 0, true, i64::wrapping_add, i64::wrapping_sub, |a: i64, b| {
    a.wrapping_sub(b) as f64
});
number!(u64, UInt64Type, Unsigned, 0, true, u64::wrapping_add, u64::wrapping_sub, |a: u64, b: u64| {
    if a > b { (a - b) as f64 } else { -((b - a) as f64) }
});

/// The points of a series, if its values have this type; otherwise none.
pub fn points<T: Number>(series: &Series) -> impl Iterator<Item = (i64, T)> + '_ {
    let values: &[T] = T::array(&series.values).map_or(&[], |array| &array.values()[..]);
    series.times_ns.iter().copied().zip(values.iter().copied())
}

/// The previous point, if there was one.
pub struct Previous<T>(Option<(i64, T)>);

impl<T: Copy> Previous<T> {
    /// No point yet.
    pub fn none() -> Self {
        Self(None)
    }

    /// Stores a point and returns the previous one. Of points at one time only the first is stored; the others have no previous
    /// point.
    pub fn replaced_by(&mut self, time_ns: i64, value: T) -> Option<(i64, T)> {
        match self.0 {
            Some((previous_ns, _)) if previous_ns == time_ns => None,
            _ => self.0.replace((time_ns, value)),
        }
    }
}

/// Collects points that are computed one after the other.
pub struct Output<T> {
    times_ns: Vec<i64>,
    values: Vec<T>,
}

impl<T: Number> Output<T> {
    /// No points yet, with capacity for those of a batch.
    pub fn with_room_for(series: &Series) -> Self {
        let points = series.times_ns.len();
        Self { times_ns: Vec::with_capacity(points), values: Vec::with_capacity(points) }
    }

    /// Adds a point.
    pub fn push(&mut self, time_ns: i64, value: T) {
        self.times_ns.push(time_ns);
        self.values.push(value);
    }

    /// All points.
    pub fn into_series(self) -> Series {
        Series { times_ns: self.times_ns, values: T::column(self.values) }
    }
}
