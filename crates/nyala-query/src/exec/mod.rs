//! Executing plans: scans and pushed-down aggregates in, frames of columns out.
//!
//! [`select::SelectStream`] walks the measurements and groups of a plan in the order of the answer. A
//! group's rows are shown as they are (`raw`, `order`), or its calls are computed: by the store (`push_down`) or,
//! where conditions, types or functions are beyond it, from rows (`measurement`, `rows`, `aggregate`, `calls`,
//! `reduce`). Then gaps are filled (`points`, `fill`), functions of consecutive points computed (`transform`) and the
//! selected expressions evaluated (`nyala_exec::expression`).
//!
//! Nothing here knows how a query was written down or how the answer is sent.

mod aggregate;
mod calls;
mod fill;
mod group;
mod inner;
mod limit;
mod measurement;
mod order;
mod ordered;
mod points;
mod push_down;
mod raw;
mod reduce;
mod rows;
pub mod select;
mod series;
mod transform;

pub use select::{SelectStream, is_pushed_down};
