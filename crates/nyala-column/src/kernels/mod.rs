//! Free functions on slices, compiled per instruction set (see [`crate::level`]).

pub(crate) mod line;
pub(crate) mod lookup;
pub(crate) mod pack;
pub(crate) mod prefix;
pub(crate) mod profile;
pub(crate) mod window;
