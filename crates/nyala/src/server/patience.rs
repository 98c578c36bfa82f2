//! A connection whose client must take what it is sent, and end the head of a request that it began: what waits for
//! either is memory.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails when nothing could be written to it for a while, or when a head that was begun does not end.
/// Between requests it waits as long as its reader likes.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    head_timeout: Duration,
    /// A request is being answered: what is read belongs to it.
    answering: Arc<AtomicBool>,
    /// Something was read that belongs to no request yet.
    in_head: bool,
    /// Only where a head comes in parts.
    head_waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// The first head begins with the connection.
    pub(super) fn new(stream: S, patience: Duration, head_timeout: Duration) -> Self {
        Self {
            stream,
            patience,
            waiting: None,
            head_timeout,
            answering: Arc::default(),
            in_head: true,
            head_waiting: None,
        }
    }

    /// To be set as long as a request is being answered.
    pub(super) fn answering(&self) -> Arc<AtomicBool> {
        self.answering.clone()
    }

    /// No head is under way.
    fn end_head(&mut self) {
        self.in_head = false;
        self.head_waiting = None;
    }

    /// Judges a look for something to read: `read_bytes` were there.
    fn judge_head(
        &mut self,
        context: &mut Context<'_>,
        read: Poll<Result<()>>,
        read_bytes: usize,
    ) -> Poll<Result<()>> {
        if self.answering.load(Ordering::Relaxed) {
            self.end_head();
            return read;
        }
        self.in_head |= read_bytes > 0;
        if read.is_ready() || !self.in_head {
            return read;
        }
        let timeout = self.head_timeout;
        let waiting = self.head_waiting.get_or_insert_with(|| Box::pin(sleep(timeout)));
        waiting.as_mut().poll(context).map(|()| {
            let words = format!("the head of a request did not end within {} s", timeout.as_secs());
            Err(Error::new(ErrorKind::TimedOut, words))
        })
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            // What comes next is another request.
            self.end_head();
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        waiting.as_mut().poll(context).map(|()| {
            let words = format!("the client took nothing for {} s", patience.as_secs());
            Err(Error::new(ErrorKind::TimedOut, words))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read_bytes = buffer.filled().len() - before;
        self.judge_head(context, read, read_bytes)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn only_who_takes_nothing_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut stream = Patient::new(ours, Duration::from_millis(200), Duration::MAX);
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

    #[tokio::test]
    async fn only_a_head_that_was_begun_must_end() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut stream = Patient::new(ours, Duration::MAX, Duration::from_millis(200));
        let answering = stream.answering();
        let mut read = [0; 4];
        let longer = Duration::from_millis(600);
        theirs.write_all(b"head").await.unwrap();
        stream.read_exact(&mut read).await.unwrap();
        // Its body may take as long as the one who answers allows, and then nothing is under way.
        answering.store(true, Ordering::Relaxed);
        assert!(tokio::time::timeout(longer, stream.read(&mut read)).await.is_err());
        stream.write_all(b"answer").await.unwrap();
        answering.store(false, Ordering::Relaxed);
        assert!(tokio::time::timeout(longer, stream.read(&mut read)).await.is_err());
        theirs.write_all(b"he").await.unwrap();
        assert_eq!(stream.read_exact(&mut read).await.unwrap_err().kind(), ErrorKind::TimedOut);
        let (ours, _theirs) = tokio::io::duplex(64);
        let mut silent = Patient::new(ours, Duration::MAX, Duration::from_millis(200));
        assert_eq!(silent.read(&mut read).await.unwrap_err().kind(), ErrorKind::TimedOut, "the first");
    }
}
