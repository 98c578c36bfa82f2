//! A connection that is logged in: it reads messages and answers them, until one side ends it.
//!
//! Messages are answered strictly in order. While a statement runs, the stream is watched, so that a statement whose client
//! has left ends at once. A light statement is executed by the thread that received it; one that announces long work, or that
//! waits, is moved to the thread pool. Texts of statements are executed in `simple`, prepared statements in `extended`; both send rows
//! by `fetch`, and rows of COPY by `copy_in` and `copy_out`.

mod copy_in;
mod copy_out;
mod extended;
mod fetch;
pub(crate) mod log_in;
mod simple;
mod stored;
pub mod wire;

use crate::cancels::CancelKey;
use crate::error::Failure;
use crate::message::Frontend;
use crate::message::backend::{self, Severity};
use crate::shared::Server;
use extended::Portal;
use nyala_core::memory::{Charge, Component};
use nyala_core::span::Instrument;
use nyala_core::{before_long_work, poll_light, span};
use nyala_sql::{Session, TransactionStatus};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use stored::Stored;
use tokio::task::JoinSet;
use wire::{Message, Unread, Wire};

/// The settings whose values clients are told, at first and whenever they change.
const REPORTED: [&str; 10] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "standard_conforming_strings",
    "TimeZone",
];

/// Parsing a text of this length takes about a millisecond.
const LONG_TEXT_BYTES: usize = 32 << 10;

/// A connection with a session.
pub(crate) struct Connection {
    server: Arc<Server>,
    wire: Wire,
    session: Session,
    _key: CancelKey,
    statements: HashMap<String, Arc<Stored>>,
    portals: HashMap<String, Portal>,
    /// The memory of portals.
    charge: Charge,
    /// Whether messages are skipped up to the next Sync, because one before it failed.
    is_skipping: bool,
    /// The values of [`REPORTED`] that the client knows.
    reported: [String; REPORTED.len()],
}

/// Why the work on a message ends early.
enum Stop {
    /// The client has left.
    Closed,
    /// It is told why.
    Failed(Failure),
    /// It is told why, and the connection ends.
    Ended(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl From<nyala_sql::SqlError> for Stop {
    fn from(error: nyala_sql::SqlError) -> Self {
        Stop::Failed(error.into())
    }
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Stop::Closed
    }
}

/// Announces that parsing a text takes long, if it does.
async fn before_long_text(text: &str) {
    if text.len() > LONG_TEXT_BYTES {
        before_long_work().await;
    }
}

/// Waits for a step, unless the client closes the connection.
async fn unless_closed<T>(wire: &mut Wire, step: impl Future<Output = T>) -> Result<T, Stop> {
    tokio::select! {
        biased;
        done = step => Ok(done),
        () = wire.closed() => Err(Stop::Closed),
    }
}

impl Connection {
    /// A connection whose client has just logged in; greets it.
    pub(crate) fn new(
        server: Arc<Server>,
        mut wire: Wire,
        session: Session,
        key: CancelKey,
        user: &str,
    ) -> Self {
        wire.admit(server.settings.message_bytes_max);
        let charge = server.surroundings.memory.charge(Component::Query, 0);
        let reported = REPORTED.map(|name| session.setting(name).unwrap_or_default().to_owned());
        for (name, value) in REPORTED.iter().zip(&reported) {
            backend::parameter_status(&mut wire.output, name, value);
        }
        backend::parameter_status(&mut wire.output, "session_authorization", user);
        backend::backend_key_data(&mut wire.output, key.number, key.secret);
        let mut connection = Self {
            server,
            wire,
            session,
            _key: key,
            statements: HashMap::new(),
            portals: HashMap::new(),
            charge,
            is_skipping: false,
            reported,
        };
        connection.ready();
        connection
    }

    /// Answers messages until the connection ends.
    pub(crate) async fn run(mut self: Box<Self>) -> io::Result<()> {
        let mut stopped = self.server.surroundings.stopped.clone();
        let mut ended = pin!(self.session.ended());
        loop {
            let read = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => {
                    Err(Unread::Fatal(Failure::shutdown()))
                }
                () = &mut ended => Err(Unread::Fatal(Failure::shutdown())),
                read = self.wire.read(Frontend::is_known) => read,
            };
            match read {
                Ok(Message { letter: b'X', .. }) => {
                    self.wire.close().await;
                    return Ok(());
                }
                Err(Unread::Closed) => return Ok(()),
                Ok(message) => {
                    let (connection, answered) = self.answer_anywhere(message).await?;
                    self = connection;
                    match answered {
                        Ok(()) => {}
                        Err(Stop::Closed) => return Ok(()),
                        Err(Stop::Failed(failure) | Stop::Ended(failure)) => return self.end(&failure).await,
                    }
                }
                Err(Unread::Skipped(letter, failure)) => self.refuse_unread(letter, failure).await,
                Err(Unread::Fatal(failure)) => return self.end(&failure).await,
            }
        }
    }

    /// Answers a message: here if that neither takes long nor waits long (`nyala_core::poll_light`), otherwise in the thread
    /// pool. If this is dropped, the statement ends.
    async fn answer_anywhere(
        mut self: Box<Self>,
        message: Message,
    ) -> io::Result<(Box<Self>, Result<(), Stop>)> {
        let work = self.server.surroundings.work.clone();
        let mut answering = Box::pin(async move {
            let answered = self.answer(message).await;
            (self, answered)
        });
        let here = poll_fn(|context| {
            // What a statement spawns may take long, and is no work for this thread.
            let _pool = work.enter();
            poll_light(answering.as_mut(), context)
        });
        if let Some(answered) = here.await {
            return Ok(answered);
        }
        // Dropping the set aborts the task.
        let mut tasks = JoinSet::new();
        tasks.spawn_on(answering, &work);
        let answered = tasks.join_next().await.expect("the set has a task");
        Ok(answered?)
    }

    /// Tells the client why the connection ends, and ends it.
    async fn end(mut self: Box<Self>, failure: &Failure) -> io::Result<()> {
        backend::failure(&mut self.wire.output, Severity::Fatal, failure);
        self.wire.close().await;
        Ok(())
    }

    /// Answers a message. An error ends the connection.
    async fn answer(&mut self, message: Message) -> Result<(), Stop> {
        let letter = message.letter;
        if self.is_skipping && letter != b'S' {
            return Ok(());
        }
        let read = Frontend::read(letter, message.body.clone());
        let traced = |message: &'static str| span!("PostgreSQL statement", message);
        let executes = matches!(read, Ok(Frontend::Query(_) | Frontend::Execute { .. }));
        let begun = executes.then(Instant::now);
        let answered = match read {
            Ok(Frontend::Query(text)) => self.query(&text).instrument(traced("Query")).await,
            Ok(Frontend::Parse { name, text, types }) => {
                self.parse(name, &text, &types).instrument(traced("Parse")).await
            }
            Ok(Frontend::Bind(bind)) => {
                // Reading values takes as long as parsing a text does.
                if message.body.len() > LONG_TEXT_BYTES {
                    before_long_work().await;
                }
                self.bind(bind)
            }
            Ok(Frontend::Describe(target)) => self.describe(&target),
            Ok(Frontend::Execute { portal, rows }) => {
                self.execute(&portal, rows).instrument(traced("Execute")).await
            }
            Ok(Frontend::Close(target)) => {
                self.close(&target);
                Ok(())
            }
            Ok(Frontend::Flush) => self.wire.send().await.map_err(Stop::from),
            Ok(Frontend::Sync) => {
                self.sync().await;
                Ok(())
            }
            // What is left of a COPY that has failed already.
            Ok(Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_)) => Ok(()),
            Ok(Frontend::FunctionCall) => {
                Err(Failure::unsupported("the function call message is not supported: use SELECT").into())
            }
            Ok(Frontend::Password(_) | Frontend::Terminate) => {
                return Err(Failure::protocol("invalid frontend message type 112").into());
            }
            Err(failure) => Err(failure.into()),
        };
        if let Some(begun) = begun {
            self.server.counts.durations.observe(begun.elapsed());
        }
        match answered {
            Ok(()) => {}
            Err(stop @ (Stop::Closed | Stop::Ended(_))) => return Err(stop),
            Err(Stop::Failed(failure)) => self.refuse(letter, failure),
        }
        self.end_message(letter).await;
        Ok(())
    }

    /// Refuses a message that there was no memory for. One that is skipped in any case needs none.
    async fn refuse_unread(&mut self, letter: u8, failure: Failure) {
        let is_left_of_copy = matches!(letter, b'd' | b'c' | b'f');
        if !self.is_skipping && !is_left_of_copy {
            self.refuse(letter, failure);
            self.end_message(letter).await;
        }
    }

    /// Says that the next statement may come, after a message behind which clients send no Sync.
    async fn end_message(&mut self, letter: u8) {
        if matches!(letter, b'Q' | b'F') {
            self.end_series().await;
            self.forget_portals_behind_savepoint();
            self.forget_portals_of_ended_transaction();
            self.ready();
        }
    }

    /// Commits a series of statements, and tells the client if that fails, and which settings end with it.
    async fn end_series(&mut self) {
        if !self.session.is_in_series() {
            return;
        }
        if let Err(error) = self.session.end_series().await {
            self.server.counts.failed_statements.fetch_add(1, Ordering::Relaxed);
            backend::failure(&mut self.wire.output, Severity::Error, &error.into());
        }
        self.report_settings();
    }

    /// Tells the client that a message failed. Those of the extended protocol that follow it are skipped up to a Sync.
    fn refuse(&mut self, letter: u8, failure: Failure) {
        self.server.counts.failed_statements.fetch_add(1, Ordering::Relaxed);
        self.session.fail_transaction();
        backend::failure(&mut self.wire.output, Severity::Error, &failure);
        self.is_skipping |= Frontend::is_extended(letter);
    }

    /// Says that the next statement may come.
    fn ready(&mut self) {
        let status = match self.session.transaction() {
            TransactionStatus::Idle => backend::IDLE,
            TransactionStatus::Active => backend::ACTIVE,
            TransactionStatus::Failed => backend::FAILED,
        };
        backend::ready_for_query(&mut self.wire.output, status);
        self.session.note_ready();
    }

    /// Tells the client which settings a statement has changed.
    fn report_settings(&mut self) {
        for (name, known) in REPORTED.iter().zip(&mut self.reported) {
            let value = self.session.setting(name).unwrap_or_default();
            if value != known {
                backend::parameter_status(&mut self.wire.output, name, value);
                value.clone_into(known);
                self.session.note_application();
            }
        }
    }
}
