//! Free functions on slices, compiled per instruction set (see [`CpuFeatures`](crate::CpuFeatures)).
//!
//! Few are public; the others serve the blocks.

pub(crate) mod ans;
pub(crate) mod compare;
pub(crate) mod delta_sum;
pub(crate) mod float;
pub(crate) mod line;
pub(crate) mod lookup;
pub(crate) mod pack;
mod prefetch;
pub(crate) mod prefix;
pub(crate) mod profile;
pub(crate) mod residuals;
pub(crate) mod sort;
pub(crate) mod window;

pub use compare::CompareOp;
pub use prefetch::{LINE_BYTES, prefetch, prefetch_at};
pub use profile::min_max_i64;
