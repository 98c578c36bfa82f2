//! Requests to other machines, for callers that wait for them as they wait for a disk.
//!
//! A thread of its own sends them and hears the answers, so it does not matter what runtime the caller has, or whether it has
//! one.

use crate::error::{FileError, FileErrorKind};
use object_store::Error;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use tokio::runtime::{Builder, Handle, Runtime};

/// What a server says of an error, at most.
const WORDS_MAX: usize = 300;

/// Does something there, and waits for it.
pub(crate) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, outcome) = sync_channel(1);
    handle().spawn(async move { drop(done.send(work.await)) });
    outcome.recv().expect("the work neither panics nor is given up")
}

/// Where such work runs.
pub(crate) fn handle() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("objects").enable_all();
        builder.build().expect("the system gives a thread and an event queue")
    });
    runtime.handle()
}

/// What a server of objects says, in one line.
pub(crate) fn failed(shown: &str) -> impl Fn(Error) -> FileError {
    move |error| {
        let kind = match &error {
            Error::NotFound { .. } => FileErrorKind::Missing,
            Error::InvalidPath { .. } => FileErrorKind::Forbidden,
            _ => FileErrorKind::Io,
        };
        let words = match &error {
            Error::NotFound { .. } => "there is no such object, or no such bucket".to_owned(),
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                format!("the server of objects does not allow it: {error}")
            }
            _ => error.to_string(),
        };
        let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let words: String = words.chars().take(WORDS_MAX).collect();
        FileError::new(kind, format!("\"{shown}\": {words}"))
    }
}
