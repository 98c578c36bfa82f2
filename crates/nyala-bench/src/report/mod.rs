//! Reports: progress, tables, pages, and results as data.

pub mod html;
pub mod progress;
pub mod result;
#[cfg(feature = "sql")]
pub mod sql;
pub mod svg;
pub mod table;
pub mod ycsb;
pub mod ycsb_page;
