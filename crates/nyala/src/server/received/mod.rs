//! What becomes of what was received by a protocol other than `/write`, wherever it is received: by the listeners of
//! `server/inputs` or by HTTP. Points become lines (`lines`), lines are written (`writer`), and what is not stored is counted
//! (`counts`).

mod counts;
mod lines;
mod writer;

pub(in crate::server) use counts::{InputCounts, Reason, metrics};
pub(in crate::server) use lines::PointLines;
pub use writer::{Destination, Writer};
