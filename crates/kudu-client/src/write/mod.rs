//! Writing: sessions collect row operations, batches carry them to tablets.

mod arrow;
mod batch;
pub(crate) mod request_ids;
mod send;
mod session;

pub use batch::{PendingErrors, RowError};
pub use session::{FlushMode, Session, SessionBuilder};
