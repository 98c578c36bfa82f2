//! Free functions on slices, compiled per instruction set (see [`Level`](crate::Level)).
//!
//! Public are those on plain decoded slices; the others serve the blocks.

pub(crate) mod ans;
pub(crate) mod climb;
pub(crate) mod compare;
pub(crate) mod cut;
pub(crate) mod float;
pub(crate) mod lanes;
pub(crate) mod line;
pub(crate) mod lookup;
pub(crate) mod pack;
mod prefetch;
pub(crate) mod prefix;
pub(crate) mod profile;
mod slice;
pub(crate) mod sort;
pub(crate) mod window;

pub use compare::CompareOp;
pub use prefetch::{LINE_BYTES, prefetch, prefetch_at};
pub use slice::{
    compare_f64, compare_i64, min_max_f64, min_max_i64, min_max_windows_f64, min_max_windows_i64, sum_i64,
    sum_windows_f64, sum_windows_i64,
};
