//! Scans that others are not to wait for.
//!
//! A correction looks at every point of a measurement, for seconds, and those who write meanwhile have as many threads as there are
//! cores. A scan that lasts is therefore read on by a thread of its own, to which the kernel gives less time when cores are short:
//! nobody else is slowed by more than that, and with idle cores the scan is as fast as any.

use crate::runtime::{block_on, priority};
use async_trait::async_trait;
use nyala_core::store::{Batch, RowStream};
use nyala_core::{Error, Result};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// A scan that is shorter than this is not worth a thread.
const SHORT: Duration = Duration::from_millis(10);
/// Batches that may wait to be taken.
const BATCHES_AHEAD: usize = 2;
/// The name of the thread.
const THREAD: &str = "nyala-background";

/// The rows of a scan in the background.
pub(super) struct BackgroundScan(Source);

enum Source {
    /// Whoever asks for rows reads them, since this moment.
    Here(Option<Box<dyn RowStream>>, Instant),
    /// A thread reads them while the second value is held.
    Thread(Receiver<Result<Batch>>, Arc<()>),
}

impl BackgroundScan {
    pub(super) fn of(scan: Box<dyn RowStream>) -> Self {
        Self(Source::Here(Some(scan), Instant::now()))
    }
}

#[async_trait]
impl RowStream for BackgroundScan {
    async fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            match &mut self.0 {
                Source::Here(scan, begun) if begun.elapsed() < SHORT => {
                    let Some(reading) = scan else { return Ok(None) };
                    return reading.next().await;
                }
                Source::Here(scan, _) => {
                    let Some(scan) = scan.take() else { return Ok(None) };
                    self.0 = in_thread(scan)?;
                }
                // An ended thread has sent all rows, or an error.
                Source::Thread(batches, _wanted) => return batches.recv().await.transpose(),
            }
        }
    }
}

fn in_thread(mut scan: Box<dyn RowStream>) -> Result<Source> {
    let (given, batches) = channel(BATCHES_AHEAD);
    let wanted = Arc::new(());
    let still_wanted = Arc::downgrade(&wanted);
    let read = move || {
        priority::lower();
        let end = EndOfThread(given);
        while let Some(batch) = next(&mut *scan, &still_wanted) {
            let has_failed = batch.is_err();
            if end.0.blocking_send(batch).is_err() || has_failed {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(read);
    thread.map_err(|error| Error::retry(format!("cannot start a thread for the scan: {error}")))?;
    Ok(Source::Thread(batches, wanted))
}

fn next(scan: &mut dyn RowStream, wanted: &Weak<()>) -> Option<Result<Batch>> {
    block_on::while_wanted(scan.next(), wanted).transpose()
}

/// Says it if the thread panics: rows that end there must not pass for all rows.
struct EndOfThread(Sender<Result<Batch>>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody waits for it if the scan was given up.
            let _ = self.0.blocking_send(Err(Error::retry("the scan panicked")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Batches of so many rows, each of which takes some time.
    struct SlowRows {
        left: usize,
        last: fn() -> Result<Option<Batch>>,
        /// Which threads asked for rows.
        asked_by: mpsc::Sender<Option<String>>,
    }

    #[async_trait]
    impl RowStream for SlowRows {
        async fn next(&mut self) -> Result<Option<Batch>> {
            let _ = self.asked_by.send(std::thread::current().name().map(str::to_owned));
            std::thread::sleep(SHORT);
            self.left -= 1;
            match self.left {
                0 => (self.last)(),
                rows => Ok(Some(Batch { rows, series: Vec::new(), columns: Vec::new() })),
            }
        }
    }

    fn scan(
        left: usize,
        last: fn() -> Result<Option<Batch>>,
    ) -> (BackgroundScan, mpsc::Receiver<Option<String>>) {
        let (asked_by, asked) = mpsc::channel();
        (BackgroundScan::of(Box::new(SlowRows { left, last, asked_by })), asked)
    }

    fn all_rows(scan: &mut BackgroundScan) -> Result<Vec<usize>> {
        let mut rows = Vec::new();
        while let Some(batch) = block_on::block_on(scan.next())? {
            rows.push(batch.rows);
        }
        Ok(rows)
    }

    #[test]
    fn a_scan_that_lasts_is_read_by_another_thread_to_its_end() -> Result<()> {
        let (mut scan, asked) = scan(6, || Ok(None));
        assert_eq!(all_rows(&mut scan)?, [5, 4, 3, 2, 1]);
        let names: Vec<Option<String>> = asked.iter().take(6).collect();
        // Who asks reads the first rows, unless it comes late.
        assert!(names[1..].iter().all(|name| name.as_deref() == Some(THREAD)), "{names:?}");
        Ok(())
    }

    #[test]
    fn a_scan_that_has_just_begun_is_read_by_who_asks() -> Result<()> {
        let (BackgroundScan(scan), asked) = scan(6, || Ok(None));
        let Source::Here(rows, begun) = scan else { panic!("nobody has asked for rows") };
        let mut scan = BackgroundScan(Source::Here(rows, begun + Duration::from_secs(3600)));
        assert_eq!(all_rows(&mut scan)?, [5, 4, 3, 2, 1]);
        assert!(asked.iter().take(6).all(|name| name.as_deref() != Some(THREAD)));
        Ok(())
    }

    #[test]
    fn errors_and_panics_are_no_ends() {
        for last in [|| Err(Error::invalid("damaged")), || panic!("for a test")] {
            let (mut scan, _asked) = scan(4, last);
            let error = all_rows(&mut scan).expect_err("not all rows were read");
            assert!(["damaged", "the scan panicked"].contains(&&*error.to_string()), "{error}");
        }
    }

    #[test]
    fn who_does_not_want_the_rows_any_more_ends_the_thread() -> Result<()> {
        let (mut scan, asked) = scan(usize::MAX, || Ok(None));
        for _ in 0..3 {
            block_on::block_on(scan.next())?;
        }
        drop(scan);
        // The channel closes when the thread drops the rows.
        while asked.recv().is_ok() {}
        Ok(())
    }
}
