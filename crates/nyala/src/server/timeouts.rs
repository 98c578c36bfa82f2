//! Timeouts of a connection: the client must keep reading its answer, and must finish a request header that it began.
//! Otherwise a slow client would hold the memory of both for any time.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails when nothing could be written to it for `write_timeout`, or when a header that began did not end
/// within `header_timeout`. The idle time between requests is limited elsewhere (`keep-alive-timeout`).
pub(super) struct TimeoutStream<S> {
    stream: S,
    write_timeout: Duration,
    /// Runs while a write waits for the client.
    write_timer: Option<Pin<Box<Sleep>>>,
    header_timeout: Duration,
    /// Whether a request is being answered: then what is read belongs to that request. The caller sets it.
    pub(super) answering: Arc<AtomicBool>,
    /// Whether something was read that belongs to no request yet.
    in_header: bool,
    /// Runs while a header that arrives in parts is incomplete.
    header_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    /// The first header begins with the connection.
    pub(super) fn new(stream: S, write_timeout: Duration, header_timeout: Duration) -> Self {
        Self {
            stream,
            write_timeout,
            write_timer: None,
            header_timeout,
            answering: Arc::default(),
            in_header: true,
            header_timer: None,
        }
    }

    /// No header is incomplete any more.
    fn end_header(&mut self) {
        self.in_header = false;
        self.header_timer = None;
    }

    /// Follows a read that returned `read_bytes`, and fails it when the header takes too long.
    fn check_header(
        &mut self,
        context: &mut Context<'_>,
        read: Poll<Result<()>>,
        read_bytes: usize,
    ) -> Poll<Result<()>> {
        if self.answering.load(Ordering::Relaxed) {
            self.end_header();
            return read;
        }
        self.in_header |= read_bytes > 0;
        if read.is_ready() || !self.in_header {
            return read;
        }
        let timeout = self.header_timeout;
        let timer = self.header_timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        timer.as_mut().poll(context).map(|()| {
            let words = format!("the header of a request did not end within {} s", timeout.as_secs());
            Err(Error::new(ErrorKind::TimedOut, words))
        })
    }

    /// Follows a write of bytes. What is read after it begins another request. A flush does not say so: hyper flushes
    /// after each read, with nothing to write.
    fn check_answer(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        if written.is_ready() {
            self.end_header();
        }
        self.check_write(context, written)
    }

    /// Follows a write or flush, and fails it when the client takes too long.
    fn check_write<T>(&mut self, context: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.write_timer = None;
            return written;
        }
        let write_timeout = self.write_timeout;
        let timer = self.write_timer.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        timer.as_mut().poll(context).map(|()| {
            let words = format!("the client took nothing for {} s", write_timeout.as_secs());
            Err(Error::new(ErrorKind::TimedOut, words))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read_bytes = buffer.filled().len() - before;
        self.check_header(context, read, read_bytes)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_answer(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check_answer(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_write(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Response;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn only_a_client_that_reads_nothing_times_out() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut stream = TimeoutStream::new(ours, Duration::from_millis(200), Duration::MAX);
        stream.write_all(b"12345678").await.unwrap();
        let mut taken = [0; 4];
        let reading = async {
            for _ in 0..4 {
                sleep(Duration::from_millis(100)).await;
                theirs.read_exact(&mut taken).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(b"0123456789abcdef"), reading);
        written.unwrap();
        assert_eq!(stream.write_all(b"x").await.unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_header_that_began_must_end() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut stream = TimeoutStream::new(ours, Duration::MAX, Duration::from_millis(200));
        let answering = stream.answering.clone();
        let mut read = [0; 4];
        let longer = Duration::from_millis(600);
        theirs.write_all(b"head").await.unwrap();
        stream.read_exact(&mut read).await.unwrap();
        // While a request is answered, nothing read counts as a header; after the answer, no header has begun.
        answering.store(true, Ordering::Relaxed);
        assert!(tokio::time::timeout(longer, stream.read(&mut read)).await.is_err());
        stream.write_all(b"answer").await.unwrap();
        answering.store(false, Ordering::Relaxed);
        assert!(tokio::time::timeout(longer, stream.read(&mut read)).await.is_err());
        theirs.write_all(b"he").await.unwrap();
        assert_eq!(stream.read_exact(&mut read).await.unwrap_err().kind(), ErrorKind::TimedOut);
        let (ours, _theirs) = tokio::io::duplex(64);
        let mut silent = TimeoutStream::new(ours, Duration::MAX, Duration::from_millis(200));
        assert_eq!(silent.read(&mut read).await.unwrap_err().kind(), ErrorKind::TimedOut, "the first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_ends_a_connection_whose_header_does_not_end() {
        for begun in [b"".as_slice(), b"GET / HTTP/1.1\r\nHost"] {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let stream = TimeoutStream::new(ours, Duration::MAX, Duration::from_millis(200));
            let service = service_fn(async |_| Ok::<_, Error>(Response::new(String::new())));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            theirs.write_all(begun).await.unwrap();
            // Whether that is an error is hyper's choice.
            let ended = tokio::time::timeout(Duration::from_secs(20), connection).await;
            drop(ended.expect("the header takes too long"));
        }
    }
}
