//! Executes plans: reads scans and aggregates of the store, and gives frames of columns.
//!
//! [`select::SelectStream`] walks the measurements and groups of a plan in the order of the answer. A group's rows are
//! shown as they are (`raw`, `order`), or its calls are computed: by the store (`push_down`), or from rows (`measurement`,
//! `reader`, `aggregate`, `calls`, `reduce`) if the store cannot evaluate the conditions, types or functions. Then gaps are
//! filled (`fill_windows`, `fill_nulls`), functions of consecutive points are computed (`transform`) and the selected
//! expressions are evaluated (`nyala_exec::expression`).
//!
//! Nothing here knows the text of a query or how the answer is sent.

mod aggregate;
mod calls;
mod fill_nulls;
mod fill_windows;
mod group;
mod inner;
mod limit;
mod measurement;
mod order;
mod ordered_rows;
mod push_down;
mod raw;
mod reader;
mod reduce;
mod row_batch;
pub mod select;
mod transform;
mod windows;

pub use measurement::MeasurementRows;
pub use select::{SelectStream, is_pushed_down};
