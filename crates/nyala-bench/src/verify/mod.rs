//! Are the answers right? Computes them again from the generator's model, and compares.
//!
//! [`answer`] reads a server's JSON row by row. [`expected`] computes what it should say from the model alone, in the
//! simplest way and without any code of a server. [`compare`] names the first difference. [`sql`] brings answers of SQL into
//! the same form.

pub mod answer;
pub mod compare;
pub mod expected;
#[cfg(feature = "sql")]
pub mod order;
pub mod sql;
#[cfg(feature = "sql")]
pub mod tables;
