//! How many files and sockets the process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of so many one is a connection; the others are for the store and for what the process connects to.
const CONNECTIONS_SHARE: u64 = 2;

/// Raises the limit to the highest that the system allows.
pub fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If that is refused, what was set before does as well, with fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// How many connections there may be at once.
pub fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / CONNECTIONS_SHARE).unwrap_or(usize::MAX)
}
