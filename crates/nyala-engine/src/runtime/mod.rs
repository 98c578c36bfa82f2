//! Threads, timers and waiting: nothing here knows what a row is.

pub(crate) mod block_on;
pub(crate) mod priority;
pub(crate) mod signal;
pub(crate) mod timer;
pub(crate) mod worker_pool;
