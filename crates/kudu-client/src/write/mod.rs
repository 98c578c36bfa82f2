//! Writing: sessions collect row operations, batches carry them to tablets.

mod arrow;
mod batch;
mod call;
pub(crate) mod request_ids;
mod send;
mod session;

pub use batch::{PendingErrors, RowError};
pub use call::WriteCall;
pub use session::{FlushMode, Session, SessionBuilder};
