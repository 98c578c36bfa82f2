//! Writing: sessions collect row operations and send them to tablets in batches.

mod arrow;
mod batch;
mod call;
mod queues;
mod send;
mod session;

pub use batch::{PendingErrors, RowError};
pub use call::WriteCall;
pub use session::{FlushMode, Session, SessionBuilder};
