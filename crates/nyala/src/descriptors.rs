//! How many files and sockets the process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of so many one is a connection; the others are for the store and for what the process connects to.
const CONNECTIONS_SHARE: u64 = 2;

/// Raises the limit to the highest that the system allows. The usual default of 1024 is meant for programs that still
/// call `select`.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // What was set before does as well, with fewer connections.
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the number of open files stays limited to {current:?}");
    }
}

/// How many connections there may be at once.
pub fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / CONNECTIONS_SHARE).unwrap_or(usize::MAX)
}
