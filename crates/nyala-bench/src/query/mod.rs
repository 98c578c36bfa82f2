//! The published queries: their types, random parameters as TSBS draws them, and their text.

pub mod file;
pub mod generator;
pub mod kind;
pub mod narrow;
pub mod text;
