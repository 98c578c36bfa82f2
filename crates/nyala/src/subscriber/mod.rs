//! Subscriptions: points that were written are sent on to subscribers, as line protocol.
//!
//! A task takes requests out of the feed and puts them into the queues of each subscription (`queue`). The task of each
//! queue adds missing times and sends the lines (`sender`). Queues are bounded: points that a slow or absent
//! destination does not take are dropped and counted. Destinations are sent nothing but points, and their answers are
//! shown to nobody.

mod queue;
mod roots;
mod sender;

use nyala_core::memory::MemoryBudget;
use nyala_db::catalog::{Catalog, Subscription};
use nyala_db::feed::{FeedCounts, SubmittedRequest};
use nyala_query::influxql::without_password;
use nyala_query::report::{Datum, Report};
use queue::{Destination, Queue, Shared};
use sender::Sender;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often dropped subscriptions are removed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How many points and requests were sent or not.
#[derive(Default)]
struct Counts {
    points_written: AtomicU64,
    points_dropped: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    fn written(&self, points: u64) {
        self.points_written.fetch_add(points, Ordering::Relaxed);
    }

    fn dropped(&self, points: u64) {
        self.points_dropped.fetch_add(points, Ordering::Relaxed);
    }

    fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// A database and one of its subscriptions. A subscription with other destinations is another one.
type Key = (String, Subscription);

/// The queues of a subscription.
struct Subscriber {
    queues: Vec<Queue>,
    /// One per destination.
    counts: Vec<Arc<Counts>>,
}

/// All subscriptions that points were written for.
pub struct Subscriptions {
    catalog: Arc<Catalog>,
    feed: Arc<FeedCounts>,
    subscribers: Mutex<HashMap<Key, Subscriber>>,
    shared: Arc<Shared>,
}

impl Subscriptions {
    /// The subscriptions of a catalog.
    pub fn new(catalog: Arc<Catalog>, feed: Arc<FeedCounts>, memory: Arc<MemoryBudget>) -> Self {
        Self { catalog, feed, subscribers: Mutex::default(), shared: Arc::new(Shared::new(memory)) }
    }

    /// Distributes what comes out of the feed.
    pub async fn run(self: Arc<Self>, mut written: mpsc::Receiver<SubmittedRequest>) {
        let mut looks = tokio::time::interval(CHECK_INTERVAL);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                written = written.recv() => match written {
                    Some(written) => self.enqueue(written),
                    None => return,
                },
                _ = looks.tick() => self.remove_dropped(),
            }
        }
    }

    fn enqueue(&self, written: SubmittedRequest) {
        let Some(database) = self.catalog.database(&written.database) else { return };
        let matching: Vec<Subscription> =
            database.subscriptions.iter().filter(|own| own.policy == written.policy).cloned().collect();
        let written = Arc::new(written);
        let mut subscribers = self.lock();
        for subscription in matching {
            let subscriber = subscribers
                .entry((database.name.clone(), subscription))
                .or_insert_with_key(|(database, own)| Subscriber::start(database, own, &self.shared));
            subscriber.queues.iter().for_each(|queue| queue.offer(&written));
        }
    }

    /// Removes dropped subscriptions, with what still waits for them.
    fn remove_dropped(&self) {
        let mut subscribers = self.lock();
        if !subscribers.is_empty() {
            subscribers.retain(|(name, own), _| {
                self.catalog.database(name).is_some_and(|database| database.subscriptions.contains(own))
            });
        }
    }

    /// The reports `subscriber`: first the sum, then each destination.
    pub fn reports(&self) -> Vec<Report> {
        let count = |counter: &AtomicU64| Datum::count(counter.load(Ordering::Relaxed));
        let dropped = self.feed.dropped_points.load(Ordering::Relaxed)
            + self.shared.all.points_dropped.load(Ordering::Relaxed);
        let all = [
            // A subscription that cannot be sent to is refused when it is created.
            ("createFailures", Datum::Integer(0)),
            ("pointsDropped", Datum::count(dropped)),
            ("pointsWritten", count(&self.shared.all.points_written)),
            ("writeFailures", count(&self.shared.all.failures)),
        ];
        let mut reports = vec![Report::new("subscriber", all)];
        for ((database, own), subscriber) in &*self.lock() {
            for (destination, counts) in own.destinations.iter().zip(&subscriber.counts) {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Subscriber>> {
        // No code under this lock can panic and leave a change unfinished.
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber {
    /// With ALL each destination has its own queue, so that one that hangs does not delay the others.
    fn start(database: &str, subscription: &Subscription, shared: &Arc<Shared>) -> Self {
        let destinations = subscription.destinations.iter();
        let counts: Vec<Arc<Counts>> = destinations.clone().map(|_| Arc::default()).collect();
        let destinations = destinations.zip(&counts).map(|(url, counts)| Destination {
            sender: Sender::to(url, database, &subscription.policy),
            counts: counts.clone(),
        });
        let queue = |destinations: Vec<Destination>| Queue::start(destinations, shared.clone());
        let queues = match subscription.to_all {
            true => destinations.map(|destination| queue(vec![destination])).collect(),
            false => vec![queue(destinations.collect())],
        };
        Self { queues, counts }
    }
}
