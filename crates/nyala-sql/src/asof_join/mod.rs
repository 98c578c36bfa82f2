//! `ASOF JOIN`: for each row of the left side the newest row of the right side that is not later.
//!
//! [`syntax`] repairs forms that the parser does not know, [`written`] makes an ordinary join with a marker of it, [`rule`]
//! finds the marker in the plan, [`node`] is what it becomes there, and [`push_down`] lets conditions on the left side
//! through. [`exec`] executes it, with [`merging`], in one pass over both sides, which come sorted.

mod exec;
mod marker;
mod merging;
mod node;
mod push_down;
mod rule;
mod syntax;
mod written;

pub(crate) use exec::AsofJoinExec;
pub(crate) use marker::register;
pub(crate) use node::AsofJoin;
pub(crate) use push_down::PushThroughAsofJoins;
pub(crate) use rule::FindAsofJoins;
pub(crate) use syntax::rewritten;
pub(crate) use written::rewrite;
