//! The frames of a query: the first are computed where they are written, those of a heavy one ahead on another thread.

use nyala_core::Result;
use nyala_query::exec::{Frame, SelectStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Rows of an answer from which on it is computed ahead of its writing.
const ROWS_IN_PLACE: usize = 4_096;
/// Lists of frames that wait to be written, at most.
const LISTS_MAX: usize = 2;
/// A list is handed over with so many frames, or rows: waking the other side costs as much as writing some.
const LIST_FRAMES: usize = 256;
const LIST_ROWS: usize = 8_192;

/// The frames of a stream. What is computed ahead stops at the next list when this is dropped.
pub(super) struct Frames {
    source: Source,
    work: Handle,
    rows: usize,
}

enum Source {
    Here(Box<SelectStream>),
    /// The list at hand, and those that follow it: the last one is empty.
    Ahead(std::vec::IntoIter<Frame>, mpsc::Receiver<Result<Vec<Frame>>>),
    Ended,
}

impl Frames {
    /// The frames of a stream that may go on in a pool.
    pub(super) fn of(stream: Box<SelectStream>, work: &Handle) -> Self {
        Self { source: Source::Here(stream), work: work.clone(), rows: 0 }
    }

    /// The next frame, or `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>> {
        if self.rows >= ROWS_IN_PLACE {
            self.source = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::Here(stream) => Source::Ahead(Vec::new().into_iter(), go_on(stream, &self.work)),
                source => source,
            };
        }
        match &mut self.source {
            Source::Here(stream) => {
                let frame = stream.next().await?;
                self.rows += frame.as_ref().map_or(0, Frame::rows);
                Ok(frame)
            }
            Source::Ahead(list, lists) => {
                if let Some(frame) = list.next() {
                    return Ok(Some(frame));
                }
                // One that panics takes who waits for it along: that is how the client learns of it.
                let next = lists.recv().await.expect("a stream ends with an empty list or an error");
                *list = next?.into_iter();
                Ok(list.next())
            }
            Source::Ended => Ok(None),
        }
    }
}

/// Lets a stream go on by itself.
fn go_on(mut stream: Box<SelectStream>, work: &Handle) -> mpsc::Receiver<Result<Vec<Frame>>> {
    let (sender, lists) = mpsc::channel(LISTS_MAX);
    work.spawn(async move {
        let mut is_last = false;
        while !is_last {
            // Whoever leaves while a list is computed is not kept waiting for it.
            let list = tokio::select! {
                list = list_of(&mut stream) => list,
                () = sender.closed() => break,
            };
            is_last = list.as_ref().map_or(true, Vec::is_empty);
            if sender.send(list).await.is_err() {
                break;
            }
        }
    });
    lists
}

async fn list_of(stream: &mut SelectStream) -> Result<Vec<Frame>> {
    let (mut list, mut rows) = (Vec::new(), 0);
    while list.len() < LIST_FRAMES && rows < LIST_ROWS {
        let Some(frame) = stream.next().await? else { break };
        rows += frame.rows();
        list.push(frame);
    }
    Ok(list)
}
