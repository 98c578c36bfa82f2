//! Batches whose callers went away while the log was busy with them. One thread finishes them, one after the other, however many
//! there are: it comes with the first and goes with the last.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Waits for the log, and applies a batch.
type Finish = Box<dyn FnOnce() + Send>;

/// The batches that wait for the thread.
#[derive(Default)]
pub(crate) struct AbandonedBatches {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Finish>,
    has_thread: bool,
}

impl AbandonedBatches {
    /// Leaves a batch to the thread. If none can be started, the caller finishes it.
    pub(crate) fn finish(self: &Arc<Self>, batch: impl FnOnce() + Send + 'static) {
        {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(Box::new(batch));
            if std::mem::replace(&mut queue.has_thread, true) {
                return;
            }
        }
        let own = self.clone();
        let spawned = std::thread::Builder::new().name("nyala-finish".to_owned()).spawn(move || own.run());
        if spawned.is_err() {
            self.run();
        }
    }

    fn run(&self) {
        while let Some(finish) = self.next() {
            // The panic was reported where it happened; the others are finished all the same.
            let _ = catch_unwind(AssertUnwindSafe(finish));
        }
    }

    fn next(&self) -> Option<Finish> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        queue.has_thread = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::ThreadId;

    #[test]
    fn one_thread_finishes_all_of_them() {
        let abandoned = Arc::new(AbandonedBatches::default());
        let (go, wait) = channel::<()>();
        let (tell, told) = channel::<(usize, ThreadId)>();
        let wait: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(wait));
        for number in 0..100 {
            let (tell, wait) = (tell.clone(), wait.clone());
            abandoned.finish(move || {
                wait.lock().recv().expect("the log is done");
                tell.send((number, std::thread::current().id())).expect("somebody listens");
                assert!(number != 7, "the seventh panics");
            });
        }
        (0..100).for_each(|_| go.send(()).expect("somebody waits"));
        let all: Vec<_> = (0..100).map(|_| told.recv().expect("it is told")).collect();
        assert!(
            all.iter().enumerate().all(|(place, (number, _))| place == *number),
            "in the order of their coming"
        );
        assert!(all.iter().all(|(_, thread)| *thread == all[0].1 && *thread != std::thread::current().id()));
        // The thread may have gone; another one comes.
        go.send(()).expect("the channel is there");
        abandoned.finish(move || tell.send((100, std::thread::current().id())).expect("somebody listens"));
        assert_eq!(told.recv().expect("it is told").0, 100);
    }
}
