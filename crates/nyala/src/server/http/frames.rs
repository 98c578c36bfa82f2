//! The frames of a query: the first are computed where they are written, those of a heavy one ahead on another thread.

use nyala_core::Result;
use nyala_query::exec::column::Column;
use nyala_query::exec::{Frame, QueryMemory, SelectStream};
use std::ops::Range;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Rows of an answer from which on it is computed ahead of its writing.
const ROWS_IN_PLACE: usize = 4_096;
/// Lists of frames that wait to be written, at most.
const LISTS_MAX: usize = 2;
/// A list is handed over with so many frames, or rows: waking the other side costs as much as writing some.
const LIST_FRAMES: usize = 256;
const LIST_ROWS: usize = 8_192;
/// ... or bytes.
const LIST_BYTES: usize = 1 << 20;

/// The frames of a stream. What is computed ahead stops at the next list when this is dropped.
pub(super) struct Frames {
    source: Source,
    work: Handle,
    /// Charged with what is computed ahead.
    memory: QueryMemory,
    rows: usize,
}

enum Source {
    Here(Box<SelectStream>),
    /// Lists that are computed ahead: the last one is empty.
    Ahead(mpsc::Receiver<Result<Vec<Frame>>>),
    Ended,
}

impl Frames {
    /// The frames of a stream that may go on in a pool.
    pub(super) fn of(stream: Box<SelectStream>, work: &Handle, memory: &QueryMemory) -> Self {
        Self { source: Source::Here(stream), work: work.clone(), memory: memory.clone(), rows: 0 }
    }

    /// The next frames; none at the end.
    pub(super) async fn next(&mut self) -> Result<Vec<Frame>> {
        if self.rows >= ROWS_IN_PLACE {
            self.source = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::Here(stream) => {
                    let lists = go_on(stream, &self.work, self.memory.clone());
                    Source::Ahead(lists)
                }
                source => source,
            };
        }
        match &mut self.source {
            Source::Here(stream) => {
                let list = stream.next_list().await?;
                // What takes much is computed when it is asked for.
                let small = list.iter().filter(|frame| bytes_of(frame) < LIST_BYTES);
                self.rows += small.map(Frame::rows).sum::<usize>();
                Ok(list)
            }
            // One that panics takes who waits for it along: that is how the client learns of it.
            Source::Ahead(lists) => lists.recv().await.expect("a stream ends with an empty list or an error"),
            Source::Ended => Ok(Vec::new()),
        }
    }
}

/// Lets a stream go on by itself.
fn go_on(
    mut stream: Box<SelectStream>,
    work: &Handle,
    memory: QueryMemory,
) -> mpsc::Receiver<Result<Vec<Frame>>> {
    let (sender, lists) = mpsc::channel(LISTS_MAX);
    work.spawn(async move {
        let (mut is_last, mut charged_bytes) = (false, 0);
        while !is_last {
            // Whoever leaves while a list is computed is not kept waiting for it.
            let list = tokio::select! {
                list = list_of(&mut stream) => list,
                () = sender.closed() => break,
            };
            let list = list.and_then(|(list, bytes)| {
                // Beside those that wait there is one at either end.
                let held_bytes = (LISTS_MAX + 2) * bytes;
                memory.charge(held_bytes.saturating_sub(charged_bytes))?;
                charged_bytes = charged_bytes.max(held_bytes);
                Ok(list)
            });
            is_last = list.as_ref().map_or(true, Vec::is_empty);
            if sender.send(list).await.is_err() {
                break;
            }
        }
    });
    lists
}

/// The next frames, and about how many bytes they hold.
async fn list_of(stream: &mut SelectStream) -> Result<(Vec<Frame>, usize)> {
    let (mut list, mut rows, mut bytes) = (Vec::new(), 0, 0);
    while list.len() < LIST_FRAMES && rows < LIST_ROWS && bytes < LIST_BYTES {
        let Some(frame) = stream.next().await? else { break };
        rows += frame.rows();
        bytes += bytes_of(&frame);
        list.push(frame);
    }
    Ok((list, bytes))
}

/// What the rows of a frame take, about: eight bytes a cell, and what is written of text.
pub(super) fn bytes_of(frame: &Frame) -> usize {
    8 * frame.rows() * frame.columns.len() + text_bytes(frame, frame.span.clone())
}

/// The bytes of the string fields in some rows of a frame.
pub(super) fn text_bytes(frame: &Frame, rows: Range<usize>) -> usize {
    let of_column = |column: &Column| match column {
        Column::String(array) => {
            let offsets = array.value_offsets();
            (offsets[rows.end] - offsets[rows.start]) as usize
        }
        _ => 0,
    };
    frame.columns.iter().map(of_column).sum()
}
