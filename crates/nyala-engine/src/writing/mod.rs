//! A batch on its way into the log and into memory.

pub(crate) mod claims;
pub(crate) mod conditional_write;
pub(crate) mod gate;
pub(crate) mod modify;
pub(crate) mod write;
