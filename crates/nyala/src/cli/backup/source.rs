//! A temporary copy of the store to back up or to move, made by a running server or from a stopped server's directory.

use crate::backup::copies::{self, CopyPlace, Lease};
use crate::cli::server::{Ended, MadeCopy, Server};
use crate::storage;
use nyala_core::env::{Clock, SystemClock};
use std::path::Path;
use std::time::Duration;

/// A copy of the store. Call [`Source::end`] to remove it: dropping only releases the lease.
pub(in crate::cli) struct Source {
    pub(in crate::cli) copy: MadeCopy,
    pub(in crate::cli) place: CopyPlace,
    lease: Option<Lease>,
    server: Option<Server>,
}

impl Source {
    /// Asks a server for a copy; waits up to `wait_max` while it holds another.
    pub(in crate::cli) fn of_server(server: Server, wait_max: Duration) -> Result<Self, String> {
        let copy = server.make_copy(wait_max)?;
        let place = CopyPlace::beside(&copy.directory);
        let place = place
            .ok_or_else(|| format!("the server named an unexpected copy directory: {:?}", copy.directory));
        let leased = place.and_then(|place| Ok((place.lease()?, place)));
        match leased {
            Ok((lease, place)) => Ok(Self { copy, place, lease: Some(lease), server: Some(server) }),
            Err(words) => {
                // If this fails, the server removes it before long.
                let _ = server.end(&copy.name, Ended::GivenUp);
                Err(format!(
                    "the copy that the server has made cannot be read here: {words}. Run this on the machine of the \
                     server, as its user or as root"
                ))
            }
        }
    }

    /// Copies a directory that no server has open.
    pub(super) fn of_directory(data_dir: &Path) -> Result<Self, String> {
        let time_ns = SystemClock.now_ns();
        if !data_dir.is_dir() {
            return Err(format!("{} is not a directory", data_dir.display()));
        }
        copies::remove_unread(data_dir, None)?;
        let (place, lease) = CopyPlace::new(data_dir, time_ns)?;
        let copied = storage::copy_closed(data_dir, &place.dir, time_ns).map_err(|error| {
            let _ = place.remove();
            format!("{error} (a running server is backed up without --data-dir)")
        })?;
        let copy = MadeCopy {
            name: place.name.clone(),
            directory: place.dir.clone(),
            time_ns,
            sequence: copied.sequence,
        };
        Ok(Self { copy, place, lease: Some(lease), server: None })
    }

    /// Removes the copy, or tells the server to.
    pub(in crate::cli) fn end(&mut self, ended: Ended) -> Result<(), String> {
        let removed = match &self.server {
            None => self.place.remove(),
            Some(server) => server.end(&self.copy.name, ended),
        };
        // Before, the server might take the copy for that of a command that was killed.
        self.lease = None;
        removed
    }
}
