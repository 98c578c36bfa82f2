//! The stream of a connection, with its buffers: whole messages in, answers out.
//!
//! Buffers are small while a client is idle. A message that does not fit into one is charged to the memory account before
//! its bytes are read.

use crate::error::Failure;
use bytes::{Buf, Bytes, BytesMut};
use nyala_core::memory::{Charge, Component, MemoryBudget};
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A connection's bytes, with or without TLS.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What is read at once, and what an idle connection keeps.
const READ_BYTES: usize = 4 << 10;
/// The longest message that is not charged: many are on their way at once, and none for long.
const UNCHARGED_BYTES: usize = 16 << 10;
/// The longest message before the client is logged in; passwords fit into it.
const LOG_IN_BYTES: usize = 8 << 10;
/// What of further messages is read while a statement runs.
const AHEAD_BYTES: usize = 64 << 10;
/// Answers are sent when there are so many bytes of them.
pub const SEND_BYTES: usize = 64 << 10;
/// How long a client may take nothing of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the next message is waited for where it matters whether a series of statements ends.
const NEXT_MESSAGE_TIME: Duration = Duration::from_millis(10);
/// What is read at once while rows are copied.
const COPY_READ_BYTES: usize = 64 << 10;

/// A message: its letter and its body.
pub struct Message {
    /// Its first byte.
    pub letter: u8,
    /// What follows its length.
    pub body: Bytes,
    /// The memory of a long body.
    _charge: Option<Charge>,
}

/// The head of a message.
struct Begun {
    letter: u8,
    /// The bytes of its body that are to come.
    body_bytes: usize,
    charge: Option<Charge>,
    /// Why it is skipped.
    failure: Option<Failure>,
}

/// Why there is no message.
pub enum Unread {
    /// The client has closed the connection, or it broke.
    Closed,
    /// The client does not speak the protocol, or sends too much: the connection must end.
    Fatal(Failure),
    /// There was no memory for the message, which was skipped.
    Skipped(u8, Failure),
}

/// A stream and its buffers.
pub struct Wire {
    stream: Box<dyn Duplex>,
    input: BytesMut,
    /// What of a message is known that is not all here.
    begun: Option<Begun>,
    /// What is read at once.
    read_bytes: usize,
    /// Answers that are not sent yet, or not all of which are.
    pub output: Vec<u8>,
    /// How much of them is sent.
    sent: usize,
    message_bytes_max: usize,
    memory: Arc<MemoryBudget>,
}

impl Wire {
    /// A connection whose client is about to log in: its messages must be short.
    pub fn new(stream: Box<dyn Duplex>, memory: Arc<MemoryBudget>) -> Self {
        let message_bytes_max = LOG_IN_BYTES;
        let (input, output, begun) = (BytesMut::new(), Vec::new(), None);
        let (read_bytes, sent) = (READ_BYTES, 0);
        Self { stream, input, begun, read_bytes, output, sent, message_bytes_max, memory }
    }

    /// Reads more at once as long as rows are copied.
    pub fn expect_rows(&mut self, are_copied: bool) {
        self.read_bytes = if are_copied { COPY_READ_BYTES } else { READ_BYTES };
    }

    /// Admits messages of this length from now on.
    pub fn admit(&mut self, message_bytes_max: usize) {
        self.message_bytes_max = message_bytes_max;
    }

    /// Waits for a message. Answers so far are sent first, because the client may wait for them. Whoever stops to wait may ask
    /// again, and loses nothing.
    pub async fn read(&mut self, is_known: impl Fn(u8) -> bool) -> std::result::Result<Message, Unread> {
        if self.begun.is_none() {
            self.begun = Some(self.begin(is_known).await?);
        }
        loop {
            if let Some(read) = self.complete() {
                return read;
            }
            self.send().await.map_err(|_| Unread::Closed)?;
            self.receive().await?;
        }
    }

    /// Waits for the head of a message.
    async fn begin(&mut self, is_known: impl Fn(u8) -> bool) -> std::result::Result<Begun, Unread> {
        while self.input.len() < 5 {
            self.shrink();
            self.send().await.map_err(|_| Unread::Closed)?;
            self.receive().await?;
        }
        let letter = self.input[0];
        let length = u32::from_be_bytes([self.input[1], self.input[2], self.input[3], self.input[4]]);
        if !is_known(letter) {
            return Err(Unread::Fatal(Failure::protocol(format!("invalid frontend message type {letter}"))));
        }
        let body_bytes = (length as usize).checked_sub(4).filter(|bytes| *bytes <= self.message_bytes_max);
        let body_bytes = body_bytes.ok_or_else(|| Unread::Fatal(self.wrong_length(length)))?;
        self.input.advance(5);
        let charged = match body_bytes > UNCHARGED_BYTES {
            true => self.memory.try_charge(Component::InFlight, body_bytes as u64).map(Some),
            false => Ok(None),
        };
        Ok(match charged {
            Ok(charge) => Begun { letter, body_bytes, charge, failure: None },
            Err(error) => {
                let failure = Some(Failure::new("53200", error.to_string()));
                Begun { letter, body_bytes, charge: None, failure }
            }
        })
    }

    /// Whether the next message is a Sync. Clients send it right behind the last statement, so this waits for a moment.
    pub async fn is_sync_next(&mut self) -> bool {
        if self.input.is_empty() {
            // Whatever is wrong with the connection is found by who reads the message.
            drop(tokio::time::timeout(NEXT_MESSAGE_TIME, self.receive()).await);
        }
        self.input.first() == Some(&b'S')
    }

    /// The message that was begun, if all of it is here.
    fn complete(&mut self) -> Option<std::result::Result<Message, Unread>> {
        let begun = self.begun.as_mut()?;
        if begun.failure.is_some() {
            let skipped = begun.body_bytes.min(self.input.len());
            self.input.advance(skipped);
            begun.body_bytes -= skipped;
        } else if begun.body_bytes > self.input.len() {
            self.input.reserve(begun.body_bytes - self.input.len());
            return None;
        }
        if begun.failure.is_some() && begun.body_bytes > 0 {
            return None;
        }
        let Begun { letter, body_bytes, charge, failure } = self.begun.take()?;
        Some(match failure {
            Some(failure) => Err(Unread::Skipped(letter, failure)),
            None => {
                let body = self.input.split_to(body_bytes).freeze();
                Ok(Message { letter, body, _charge: charge })
            }
        })
    }

    fn wrong_length(&self, length: u32) -> Failure {
        match length {
            0..4 => Failure::protocol("invalid message length"),
            _ => {
                let most = self.message_bytes_max;
                Failure::new(
                    "54000",
                    format!("a message may have {most} bytes (max-body-size), not {length}"),
                )
            }
        }
    }

    /// Gives up what a long message took.
    fn shrink(&mut self) {
        if self.input.is_empty() && self.input.capacity() > READ_BYTES {
            self.input = BytesMut::new();
        }
        if self.output.is_empty() && self.output.capacity() > READ_BYTES {
            self.output = Vec::new();
        }
    }

    async fn receive(&mut self) -> std::result::Result<(), Unread> {
        if self.input.capacity() == self.input.len() {
            self.input.reserve(self.read_bytes);
        }
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) | Err(_) => Err(Unread::Closed),
            Ok(_) => Ok(()),
        }
    }

    /// Waits until the client has closed the connection. Messages that it sends meanwhile are kept; when there are many,
    /// no more are read, and this waits for ever.
    pub async fn closed(&mut self) {
        while self.input.len() < AHEAD_BYTES {
            if self.receive().await.is_err() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Sends answers if there are many.
    pub async fn send_if_many(&mut self) -> Result<()> {
        if self.output.len() >= SEND_BYTES { self.send().await } else { Ok(()) }
    }

    /// Sends all answers so far.
    pub async fn send(&mut self) -> Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        while self.sent < self.output.len() {
            let write = self.stream.write(&self.output[self.sent..]);
            let written = tokio::time::timeout(WRITE_TIMEOUT, write).await;
            match written.map_err(|_| Error::from(ErrorKind::TimedOut))?? {
                0 => return Err(ErrorKind::WriteZero.into()),
                bytes => self.sent += bytes,
            }
        }
        self.output.clear();
        self.sent = 0;
        let flushed = tokio::time::timeout(WRITE_TIMEOUT, self.stream.flush()).await;
        flushed.map_err(|_| Error::from(ErrorKind::TimedOut))?
    }

    /// Sends what is left and closes the connection, so that the client sees the last answer.
    pub async fn close(mut self) {
        if self.send().await.is_ok() {
            drop(tokio::time::timeout(WRITE_TIMEOUT, self.stream.shutdown()).await);
        }
    }
}
