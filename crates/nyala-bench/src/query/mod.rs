//! The published queries: their types, their random parameters, and their text.

pub mod file;
pub mod generator;
pub mod kind;
pub mod narrow;
pub mod sql;
pub mod text;
