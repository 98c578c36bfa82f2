//! What a move asks of the server whose data it takes, while clients write: marks, what was changed since, and a hold on its
//! writers at the end (`crates/nyala-db/src/handover`).

use crate::cli::server::Server;
use nyala_client::query_escape;
use nyala_db::handover::{Changed, LEASE, Mark};
use nyala_shell::AccessArgs;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What was changed is some kilobytes for each table.
const CHANGED_BYTES_MAX: usize = 256 << 20;
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A server that is moved.
#[derive(Clone)]
pub(super) struct MovedServer {
    pub(super) server: Server,
}

/// Its writers are held off while this is there.
pub(super) struct WriteStop {
    server: MovedServer,
    id: u64,
    has_left: bool,
    /// Dropped to end the thread that renews it.
    end: Option<SyncSender<()>>,
    renewing: Option<JoinHandle<()>>,
}

impl MovedServer {
    pub(super) fn at(url: &str, access: &AccessArgs) -> Result<Self, String> {
        Ok(Self { server: Server::at(url, access)? })
    }

    /// Where everything of it has gone, if it has left its store.
    pub(super) fn left_to(&self) -> Result<Option<String>, String> {
        #[derive(Deserialize)]
        struct Told {
            left_to: Option<String>,
        }
        self.ask::<Told>("GET", "", ANSWER_BYTES_MAX).map(|told| told.left_to)
    }

    /// Makes a mark, before a copy is made.
    pub(super) fn mark(&self) -> Result<Mark, String> {
        #[derive(Deserialize)]
        struct Made {
            epoch: u64,
            number: u64,
        }
        let Made { epoch, number } = self.ask("POST", "?step=mark", ANSWER_BYTES_MAX)?;
        Ok(Mark { epoch, number })
    }

    /// What was changed in the epoch of a mark.
    pub(super) fn changed(&self, mark: Mark) -> Result<Changed, String> {
        self.ask("GET", &format!("?epoch={}", mark.epoch), CHANGED_BYTES_MAX)
    }

    /// Holds its writers off, for so many seconds at most.
    pub(super) fn hold(&self, limit_seconds: u64) -> Result<WriteStop, String> {
        #[derive(Deserialize)]
        struct Begun {
            hold: u64,
        }
        let path = format!("?step=hold&seconds={limit_seconds}");
        let Begun { hold: id } = self.ask("POST", &path, ANSWER_BYTES_MAX)?;
        let (end, ended) = sync_channel(0);
        let server = self.clone();
        let renewing = std::thread::spawn(move || server.renew(id, &ended));
        let (end, renewing) = (Some(end), Some(renewing));
        Ok(WriteStop { server: self.clone(), id, has_left: false, end, renewing })
    }

    /// Renews a hold again and again.
    fn renew(&self, id: u64, ended: &Receiver<()>) {
        const INTERVAL: Duration = Duration::from_millis(LEASE.as_millis() as u64 / 4);
        while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // If the hold is over, the store cannot be left any more, which then says why.
            let _ = self.tell("POST", &format!("?step=renew&hold={id}"));
        }
    }

    /// Has its writers write again, also if it has left its store.
    pub(super) fn take_back(&self) -> Result<(), String> {
        self.tell("DELETE", "")
    }

    fn ask<T: DeserializeOwned>(&self, method: &str, query: &str, limit_bytes: usize) -> Result<T, String> {
        let answer = self.server.ask_for(method, &format!("/api/move{query}"), b"", limit_bytes)?;
        serde_json::from_slice(&answer).map_err(|error| format!("the server answers strangely: {error}"))
    }

    fn tell(&self, method: &str, query: &str) -> Result<(), String> {
        self.server.ask_for(method, &format!("/api/move{query}"), b"", ANSWER_BYTES_MAX).map(drop)
    }
}

impl WriteStop {
    /// Has the server take no writes any more, for good.
    pub(super) fn leave(mut self, to: &str) -> Result<(), String> {
        let left = self.server.tell("POST", &format!("?step=leave&hold={}&to={}", self.id, query_escape(to)));
        self.has_left = left.is_ok();
        left
    }
}

impl Drop for WriteStop {
    fn drop(&mut self) {
        self.end = None;
        // It only sleeps and asks.
        let _ = self.renewing.take().map(JoinHandle::join);
        if !self.has_left {
            // If this fails, the hold ends by itself. A store that was left stays so.
            let _ = self.server.tell("DELETE", &format!("?hold={}", self.id));
        }
    }
}
