//! Data directories that are damaged: what is wrong with them, and what can be saved.

pub(crate) mod check;
pub(crate) mod repair;
