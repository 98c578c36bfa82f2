//! The life of a connection from its first byte. Next: `connection/log_in.rs`.

use crate::connection::wire::{Duplex, Wire};
use crate::connection::{Connection, log_in};
use crate::error::Failure;
use crate::message::Startup;
use crate::message::backend::{self, Severity};
use crate::message::startup::LENGTH_MAX;
use crate::shared::Server;
use bytes::Bytes;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a client may take until it is logged in.
const LOG_IN_TIMEOUT: Duration = Duration::from_secs(30);

/// Counts a connection as open until it is dropped.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    /// Serves a connection until it ends.
    pub async fn serve(
        self: Arc<Self>,
        stream: impl Duplex + 'static,
        client: Option<IpAddr>,
    ) -> io::Result<()> {
        self.counts.connections.fetch_add(1, Ordering::Relaxed);
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let _open = Open(&self.open);
        let beginning = self.begin(Box::new(stream), client, before >= self.settings.connections_max);
        let mut stopped = self.surroundings.stopped.clone();
        let begun = tokio::select! {
            begun = tokio::time::timeout(LOG_IN_TIMEOUT, beginning) => begun,
            // Who has not logged in has begun nothing that would have to come to its end.
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
        };
        match begun.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
            Some(connection) => connection.run().await,
            None => Ok(()),
        }
    }

    /// Reads what a connection begins with, up to a session; `None` if there is none to come.
    async fn begin(
        self: &Arc<Self>,
        mut stream: Box<dyn Duplex>,
        client: Option<IpAddr>,
        is_full: bool,
    ) -> io::Result<Option<Box<Connection>>> {
        let mut is_secure = false;
        loop {
            let startup = match read_startup(&mut stream).await? {
                Ok(startup) => startup,
                Err(failure) => return refuse(stream, &failure).await,
            };
            match startup {
                Startup::Tls if !is_secure && self.surroundings.tls.is_some() => {
                    stream.write_all(b"S").await?;
                    stream.flush().await?;
                    let acceptor = self.surroundings.tls.as_ref().expect("it was just found")();
                    // Nothing was read beyond the request, so nothing that came in clear is taken for encrypted.
                    stream = Box::new(acceptor.accept(stream).await?);
                    is_secure = true;
                }
                Startup::Tls | Startup::Gss => {
                    stream.write_all(b"N").await?;
                    stream.flush().await?;
                }
                Startup::Cancel { number, secret } => {
                    self.cancels.cancel(number, secret);
                    // TLS has an end of its own, without which the client believes that the request was cut off.
                    stream.shutdown().await?;
                    return Ok(None);
                }
                Startup::Session { is_newer, parameters } => {
                    if is_full {
                        self.counts.refused.fetch_add(1, Ordering::Relaxed);
                        let failure = Failure::new("53300", "sorry, too many clients already");
                        return refuse(stream, &failure).await;
                    }
                    let memory = self.surroundings.memory.clone();
                    let wire = Wire::new(stream, memory);
                    let is_private =
                        is_secure || client.is_none_or(|address| address.to_canonical().is_loopback());
                    let asked = log_in::Asked { is_newer, parameters, client, is_private };
                    return log_in::log_in(self.clone(), wire, asked).await;
                }
            }
        }
    }
}

/// Reads the first message, and not one byte more.
async fn read_startup(stream: &mut Box<dyn Duplex>) -> io::Result<Result<Startup, Failure>> {
    let length = stream.read_u32().await? as usize;
    if !(8..=LENGTH_MAX).contains(&length) {
        return Ok(Err(Failure::protocol("invalid length of startup packet")));
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).await?;
    Ok(Startup::read(Bytes::from(body)))
}

async fn refuse(mut stream: Box<dyn Duplex>, failure: &Failure) -> io::Result<Option<Box<Connection>>> {
    let mut out = Vec::new();
    backend::failure(&mut out, Severity::Fatal, failure);
    stream.write_all(&out).await?;
    stream.shutdown().await?;
    Ok(None)
}
