//! The frames of a query. The first are computed on the thread that writes them; those of a long answer are prefetched on
//! another thread.

use crate::frame::Frame;
use crate::memory::QueryMemory;
use nyala_core::Result;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// After this many rows of an answer its frames are prefetched.
const ROWS_IN_PLACE: usize = 4_096;
/// The most lists of frames that wait to be written.
const LISTS_MAX: usize = 2;
/// A list is handed over when it has this many frames or rows, because waking the other side costs as much as writing
/// some of them.
const LIST_FRAMES: usize = 256;
const LIST_ROWS: usize = 8_192;
/// ... or bytes.
const LIST_BYTES: usize = 1 << 20;

/// The answer to a query of any language while it is computed.
pub trait FrameStream: Send + 'static {
    /// The next frame, or `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Frame>>> + Send;

    /// The next frame and those that are computed with it; none at the end.
    fn next_list(&mut self) -> impl Future<Output = Result<Vec<Frame>>> + Send;
}

/// The frames of a stream. Prefetching stops at the next list when this is dropped.
pub struct Frames<Stream> {
    state: State<Stream>,
    pool: Handle,
    /// Charged with what is prefetched.
    memory: QueryMemory,
    rows: usize,
}

enum State<Stream> {
    InPlace(Box<Stream>),
    /// Lists from the other thread: the last one is empty.
    Prefetch(mpsc::Receiver<Result<Vec<Frame>>>),
    Ended,
}

impl<Stream: FrameStream> Frames<Stream> {
    /// The frames of a stream that may be prefetched in `pool`.
    pub fn of(stream: Box<Stream>, pool: &Handle, memory: &QueryMemory) -> Self {
        Self { state: State::InPlace(stream), pool: pool.clone(), memory: memory.clone(), rows: 0 }
    }

    /// The next frames; none at the end.
    pub async fn next(&mut self) -> Result<Vec<Frame>> {
        if self.rows >= ROWS_IN_PLACE {
            self.state = match std::mem::replace(&mut self.state, State::Ended) {
                State::InPlace(stream) => State::Prefetch(prefetch(stream, &self.pool, self.memory.clone())),
                state => state,
            };
        }
        match &mut self.state {
            State::InPlace(stream) => {
                let list = stream.next_list().await?;
                // Large frames do not count: they are computed when they are needed.
                let small = list.iter().filter(|frame| frame.written_bytes() < LIST_BYTES);
                self.rows += small.map(Frame::rows).sum::<usize>();
                Ok(list)
            }
            // If the stream panics, this panics too, so that the client's connection breaks.
            State::Prefetch(lists) => {
                lists.recv().await.expect("a stream ends with an empty list or an error")
            }
            State::Ended => Ok(Vec::new()),
        }
    }
}

/// Computes the rest of a stream on another thread.
fn prefetch(
    mut stream: Box<impl FrameStream>,
    pool: &Handle,
    memory: QueryMemory,
) -> mpsc::Receiver<Result<Vec<Frame>>> {
    let (sender, lists) = mpsc::channel(LISTS_MAX);
    pool.spawn(async move {
        let (mut is_last, mut charged_bytes) = (false, 0);
        while !is_last {
            // When the receiver is dropped, the list at hand is not finished.
            let list = tokio::select! {
                list = list_of(&mut *stream) => list,
                () = sender.closed() => break,
            };
            let list = list.and_then(|(list, bytes)| {
                // Besides the lists that wait, there is one at either end.
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
async fn list_of(stream: &mut impl FrameStream) -> Result<(Vec<Frame>, usize)> {
    let (mut list, mut rows, mut bytes) = (Vec::new(), 0, 0);
    while list.len() < LIST_FRAMES && rows < LIST_ROWS && bytes < LIST_BYTES {
        let Some(frame) = stream.next().await? else { break };
        rows += frame.rows();
        bytes += frame.written_bytes();
        list.push(frame);
    }
    Ok((list, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use crate::frame::ResultBatch;
    use crate::group_tags::GroupTags;
    use nyala_core::Error;
    use nyala_core::memory::MemoryBudget;
    use std::sync::Arc;

    /// Frames of 100 rows, then perhaps an error.
    struct Hundreds {
        left: usize,
        fails: bool,
    }

    impl FrameStream for Hundreds {
        async fn next(&mut self) -> Result<Option<Frame>> {
            if self.left == 0 {
                return if self.fails { Err(Error::invalid("no more")) } else { Ok(None) };
            }
            self.left -= 1;
            let names: Arc<[String]> = Arc::new(["v".to_owned()]);
            let batch = ResultBatch {
                name: "m".into(),
                time_column: Some("time".into()),
                column_names: names.clone(),
                reference_names: names,
                times_ns: (0..100).collect(),
                columns: vec![Column::Integer((0..100).collect::<Vec<_>>().into())],
                instead: None,
            };
            Ok(Some(Frame::of(GroupTags::none(), batch)))
        }

        async fn next_list(&mut self) -> Result<Vec<Frame>> {
            Ok(self.next().await?.into_iter().collect())
        }
    }

    async fn rows_of(stream: Hundreds) -> (usize, Result<()>) {
        let memory = QueryMemory::new(64 << 20, &MemoryBudget::new(1 << 30));
        let mut frames = Frames::of(Box::new(stream), &Handle::current(), &memory);
        let mut rows = 0;
        loop {
            match frames.next().await {
                Ok(list) if list.is_empty() => return (rows, Ok(())),
                Ok(list) => rows += list.iter().map(Frame::rows).sum::<usize>(),
                Err(error) => return (rows, Err(error)),
            }
        }
    }

    #[tokio::test]
    async fn all_frames_arrive_in_place_or_prefetched() {
        for frames in [0, 1, 40, 41, 42, 1_000] {
            let (rows, ended) = rows_of(Hundreds { left: frames, fails: false }).await;
            assert_eq!((rows, ended.is_ok()), (100 * frames, true));
        }
    }

    #[tokio::test]
    async fn an_error_ends_the_frames() {
        for frames in [0, 1, 1_000] {
            let (_, ended) = rows_of(Hundreds { left: frames, fails: true }).await;
            assert_eq!(ended.expect_err("at the end").message(), "no more");
        }
    }
}
