//! Subscriptions: what was written goes on to whoever subscribed to it, as line protocol.
//!
//! A task takes requests out of the feed, writes their times out and puts them into the queue of each subscription,
//! whose own task sends them (`destination`). Queues are bounded: what a slow or absent destination does not take is
//! left out and counted. Destinations are sent nothing but points, and nothing of their answers is shown to anybody.

mod destination;
mod roots;

use bytes::Bytes;
use destination::Sender;
use nyala_core::memory::Charge;
use nyala_db::catalog::{Catalog, Subscription};
use nyala_db::feed::{FeedCounts, Written};
use nyala_db::ingest::Lines;
use nyala_query::influxql::without_password;
use nyala_query::report::{Datum, Report};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Requests that wait for a subscription.
const QUEUE_MAX: usize = 1_000;
/// Requests are sent together up to this size.
const TOGETHER_BYTES: usize = 1 << 20;
/// How often it is looked for subscriptions that are gone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Lines for several subscriptions, charged once.
struct Shared {
    lines: Lines,
    _held: Charge,
}

/// The text of lines that are held elsewhere too.
struct Text(Arc<Shared>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0.lines.text
    }
}

/// What became of points and requests.
#[derive(Default)]
struct Counts {
    points_written: AtomicU64,
    points_dropped: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    fn sent(&self, points: u64, sent: bool) {
        match sent {
            true => self.points_written.fetch_add(points, Ordering::Relaxed),
            false => self.failures.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// A subscription of a database as it was when its queue was made: with other destinations it is another.
type Key = (String, Subscription);

/// The queue of a subscription.
struct Queue {
    sender: mpsc::Sender<Arc<Shared>>,
    waiting_bytes: Arc<AtomicUsize>,
    /// One per destination.
    counts: Arc<[Counts]>,
    task: JoinHandle<()>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All subscriptions that points were written for.
pub struct Subscriptions {
    catalog: Arc<Catalog>,
    feed: Arc<FeedCounts>,
    /// What may wait in all queues together, bytes.
    limit_bytes: usize,
    queues: Mutex<HashMap<Key, Queue>>,
    all: Arc<Counts>,
}

impl Subscriptions {
    /// Those of a catalog, whose queues hold `limit_bytes` together.
    pub fn new(catalog: Arc<Catalog>, feed: Arc<FeedCounts>, limit_bytes: usize) -> Self {
        Self { catalog, feed, limit_bytes, queues: Mutex::default(), all: Arc::default() }
    }

    /// Hands on what comes out of the feed.
    pub async fn run(self: Arc<Self>, mut written: mpsc::Receiver<Written>) {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                written = written.recv() => match written {
                    Some(written) => self.hand_on(written),
                    None => return,
                },
                _ = looks.tick() => self.forget_dropped(),
            }
        }
    }

    fn hand_on(&self, written: Written) {
        let Some(database) = self.catalog.database(&written.database) else { return };
        let wanted: Vec<Subscription> =
            database.subscriptions.iter().filter(|own| own.policy == written.policy).cloned().collect();
        let (body, options, held) = written.taken();
        let shared = Arc::new(Shared { lines: Lines::in_nanoseconds(&body, &options), _held: held });
        let mut queues = self.lock();
        for subscription in wanted {
            let share_bytes = self.limit_bytes / queues.len().max(1);
            let queue = queues
                .entry((database.name.clone(), subscription))
                .or_insert_with_key(|(database, own)| Queue::begin(database, own, self.all.clone()));
            queue.offer(&shared, share_bytes, &self.all);
        }
    }

    /// Ends those that were dropped, with what still waits for them.
    fn forget_dropped(&self) {
        let mut queues = self.lock();
        if !queues.is_empty() {
            queues.retain(|(name, own), _| {
                self.catalog.database(name).is_some_and(|database| database.subscriptions.contains(own))
            });
        }
    }

    /// As `subscriber`: all together, then each destination.
    pub fn reports(&self) -> Vec<Report> {
        let count = |counter: &AtomicU64| Datum::count(counter.load(Ordering::Relaxed));
        let dropped = self.feed.dropped_points.load(Ordering::Relaxed)
            + self.all.points_dropped.load(Ordering::Relaxed);
        let all = [
            // One that could not be sent to is refused when it is created.
            ("createFailures", Datum::Integer(0)),
            ("pointsDropped", Datum::count(dropped)),
            ("pointsWritten", count(&self.all.points_written)),
            ("writeFailures", count(&self.all.failures)),
        ];
        let mut reports = vec![Report::new("subscriber", all)];
        for ((database, own), queue) in &*self.lock() {
            for (destination, counts) in own.destinations.iter().zip(&*queue.counts) {
                let values = [
                    ("pointsWritten", count(&counts.points_written)),
                    ("writeFailures", count(&counts.failures)),
                ];
                let tags = vec![
                    ("database", database.clone()),
                    ("destination", without_password(destination)),
                    ("mode", own.mode().to_owned()),
                    ("name", own.name.clone()),
                    ("retention_policy", own.policy.clone()),
                ];
                reports.push(Report::new("subscriber", values).with_tags(tags));
            }
        }
        reports[1..].sort_by(|a, b| a.tags.cmp(&b.tags));
        reports
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Queue>> {
        // Nothing under this lock can panic half-way.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn begin(database: &str, subscription: &Subscription, all: Arc<Counts>) -> Self {
        let (sender, waiting) = mpsc::channel(QUEUE_MAX);
        let counts: Arc<[Counts]> = subscription.destinations.iter().map(|_| Counts::default()).collect();
        let waiting_bytes: Arc<AtomicUsize> = Arc::default();
        let senders = subscription.destinations.iter();
        let sending = Sending {
            senders: senders.map(|url| Sender::to(url, database, &subscription.policy)).collect(),
            to_all: subscription.to_all,
            next: 0,
            counts: counts.clone(),
            all,
        };
        let task = tokio::spawn(sending.run(waiting, waiting_bytes.clone()));
        Self { sender, waiting_bytes, counts, task }
    }

    /// Adds lines, if there is room.
    fn offer(&self, shared: &Arc<Shared>, share_bytes: usize, all: &Counts) {
        let bytes = shared.lines.text.len();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // What is larger than the share goes alone.
        let has_room = waiting == 0 || waiting + bytes <= share_bytes;
        if !has_room || self.sender.try_send(shared.clone()).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            all.points_dropped.fetch_add(shared.lines.ends.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Sends what is in a queue.
struct Sending {
    senders: Vec<Sender>,
    to_all: bool,
    /// Whose turn it is.
    next: usize,
    counts: Arc<[Counts]>,
    all: Arc<Counts>,
}

impl Sending {
    async fn run(mut self, mut waiting: mpsc::Receiver<Arc<Shared>>, waiting_bytes: Arc<AtomicUsize>) {
        // What did not fit into the last request begins the next.
        let mut first = None;
        loop {
            let begun = match first.take() {
                Some(first) => Some(first),
                None => waiting.recv().await,
            };
            let Some(begun) = begun else { return };
            let mut bytes = begun.lines.text.len();
            let mut together = vec![begun];
            while let Ok(more) = waiting.try_recv() {
                if bytes + more.lines.text.len() > TOGETHER_BYTES {
                    first = Some(more);
                    break;
                }
                bytes += more.lines.text.len();
                together.push(more);
            }
            self.send(&together).await;
            waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Sends to all destinations, or to the first in turn that takes it.
    async fn send(&mut self, together: &[Arc<Shared>]) {
        let lines: Vec<&Lines> = together.iter().map(|shared| &shared.lines).collect();
        let points = lines.iter().map(|lines| lines.ends.len() as u64).sum();
        if points == 0 {
            return;
        }
        // Only what is short is copied.
        let body = match together {
            [one] => Bytes::from_owner(Text(one.clone())),
            _ => lines.iter().map(|lines| &lines.text[..]).collect::<Vec<_>>().concat().into(),
        };
        let mut failed = false;
        for _ in 0..self.senders.len() {
            let turn = self.next % self.senders.len();
            self.next = turn + 1;
            let sent = self.senders[turn].send(&lines, &body).await;
            self.counts[turn].sent(points, sent.is_ok());
            match sent {
                Ok(()) if !self.to_all => {
                    failed = false;
                    break;
                }
                Ok(()) => {}
                Err(words) => {
                    failed = true;
                    tracing::debug!(words, "points did not reach a subscriber");
                }
            }
        }
        self.all.sent(points, !failed);
    }
}
