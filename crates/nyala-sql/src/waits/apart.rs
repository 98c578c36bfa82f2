//! Changes of sequences, which wait for the disk. A thread of its own makes them: the store may wait for somebody whose turn is
//! in the thread of the session, so that waiting there could be for ever.

use super::{Waits, Wanted};
use crate::error::{SqlError, SqlResult, SqlState};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a thread waits for a sequence, for a statement that cannot begin anew.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A call that gives a number, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SequenceCall {
    /// The next number of a sequence.
    Next(u64),
    /// Sets where one is: the number, and whether it was given.
    Set(u64, i64, bool),
    /// Where one is.
    State(u64),
}

/// What a thread of its own does for a call.
pub(super) struct Awaited {
    /// Whose result it is; nothing if the call is to be made again.
    call: Option<SequenceCall>,
    result: oneshot::Receiver<SqlResult<Option<i64>>>,
}

impl Awaited {
    /// The result, if it is that of a call.
    pub(super) async fn done(self) -> SqlResult<Option<(SequenceCall, Option<i64>)>> {
        let result = self.result.await.map_err(|_| broke_off())??;
        Ok(self.call.map(|call| (call, result)))
    }
}

impl Waits {
    /// What a call has given before its statement began anew.
    pub(crate) fn sequence_again(&self, call: &SequenceCall) -> Option<Option<i64>> {
        self.calls().of_sequences.again(call)
    }

    /// Keeps what a call gives.
    pub(crate) fn keep_of_sequence(&self, call: SequenceCall, result: i64) {
        self.calls().of_sequences.keep(call, Some(result));
    }

    /// Makes a call in a thread of its own, unless the statement has made it before it began anew.
    ///
    /// # Errors
    /// That the statement must wait: [`super::CanBeginAnew`] does.
    pub(crate) fn sequence_call(
        &self,
        call: SequenceCall,
        make: impl FnOnce() -> SqlResult<Option<i64>> + Send + 'static,
    ) -> SqlResult<Option<i64>> {
        match self.sequence_again(&call) {
            Some(result) => Ok(result),
            None => self.made_apart(Some(call), make),
        }
    }

    /// Does what a call needs before it is made again, in a thread of its own.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn prepare_sequence(
        &self,
        prepare: impl FnOnce() -> SqlResult<()> + Send + 'static,
    ) -> SqlResult<()> {
        self.made_apart(None, move || prepare().map(|()| None)).map(drop)
    }

    fn made_apart(
        &self,
        call: Option<SequenceCall>,
        make: impl FnOnce() -> SqlResult<Option<i64>> + Send + 'static,
    ) -> SqlResult<Option<i64>> {
        let words = "a sequence could not be changed, because others of its session's thread are in the middle of a commit";
        let not_done = || SqlError::new(SqlState::SERIALIZATION_FAILURE, words).with_hint("Try it again.");
        let mut calls = self.calls();
        if calls.can_begin_anew && calls.keep_all() {
            let (sender, result) = oneshot::channel();
            apart(move || drop(sender.send(make())))?;
            calls.wanted = Some(Wanted::OfSequence(Awaited { call, result }));
            return Err(not_done());
        }
        drop(calls);
        let (sender, result) = mpsc::channel();
        apart(move || drop(sender.send(make())))?;
        result.recv_timeout(WAIT_MAX).map_err(|error| match error {
            RecvTimeoutError::Timeout => not_done(),
            RecvTimeoutError::Disconnected => broke_off(),
        })?
    }
}

/// Changes a sequence in a thread of its own.
pub(crate) fn apart(change: impl FnOnce() + Send + 'static) -> SqlResult<()> {
    let spawned = std::thread::Builder::new().name("numbers".to_owned()).spawn(change);
    spawned.map(drop).map_err(|error| {
        SqlError::new(SqlState::INTERNAL, format!("cannot start a thread to change a sequence: {error}"))
    })
}

fn broke_off() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "the change of a sequence broke off")
}
