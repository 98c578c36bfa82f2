//! What a run says about itself: progress, tables, results as data.

pub mod progress;
pub mod result;
pub mod table;
