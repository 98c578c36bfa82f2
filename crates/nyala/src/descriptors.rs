//! Limits on open file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// This fraction of the file descriptors (1/2) may be client connections; the others are for files and outgoing
/// connections.
const CONNECTIONS_SHARE: u64 = 2;

/// Raises the limit to the highest value that the system allows. The usual default of 1024 exists for programs that
/// call `select`.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // On failure the old limit stays, which only allows fewer connections.
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the number of open files stays limited to {current:?}");
    }
}

/// The most client connections.
pub fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / CONNECTIONS_SHARE).unwrap_or(usize::MAX)
}
