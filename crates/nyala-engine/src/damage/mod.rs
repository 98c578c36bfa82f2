//! Data directories that are damaged: what is wrong with them, and what can be saved; and those of other versions.

pub(crate) mod check;
pub(crate) mod formats;
pub(crate) mod repair;
