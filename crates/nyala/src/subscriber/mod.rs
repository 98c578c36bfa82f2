//! Subscriptions: what was written goes on to whoever subscribed to it, as line protocol.
//!
//! A task takes requests out of the feed and puts them into the lanes of each subscription (`lane`), whose own tasks
//! write their times out and send them (`destination`). Lanes are bounded: what a slow or absent destination does not
//! take is left out and counted. Destinations are sent nothing but points, and nothing of their answers is shown to
//! anybody.

mod destination;
mod lane;
mod roots;

use destination::Sender;
use lane::{Common, Lane, Way};
use nyala_core::memory::MemoryBudget;
use nyala_db::catalog::{Catalog, Subscription};
use nyala_db::feed::{FeedCounts, Written};
use nyala_query::influxql::without_password;
use nyala_query::report::{Datum, Report};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How often it is looked for subscriptions that are gone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What became of points and requests.
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

/// A subscription of a database as it was when its route was made: with other destinations it is another.
type Key = (String, Subscription);

/// How the points of a subscription go.
struct Route {
    lanes: Vec<Lane>,
    /// One per destination.
    counts: Vec<Arc<Counts>>,
}

/// All subscriptions that points were written for.
pub struct Subscriptions {
    catalog: Arc<Catalog>,
    feed: Arc<FeedCounts>,
    routes: Mutex<HashMap<Key, Route>>,
    common: Arc<Common>,
}

impl Subscriptions {
    /// Those of a catalog.
    pub fn new(catalog: Arc<Catalog>, feed: Arc<FeedCounts>, memory: Arc<MemoryBudget>) -> Self {
        Self { catalog, feed, routes: Mutex::default(), common: Arc::new(Common::new(memory)) }
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
        let written = Arc::new(written);
        let mut routes = self.lock();
        for subscription in wanted {
            let route = routes
                .entry((database.name.clone(), subscription))
                .or_insert_with_key(|(database, own)| Route::begin(database, own, &self.common));
            route.lanes.iter().for_each(|lane| lane.offer(&written));
        }
    }

    /// Ends those that were dropped, with what still waits for them.
    fn forget_dropped(&self) {
        let mut routes = self.lock();
        if !routes.is_empty() {
            routes.retain(|(name, own), _| {
                self.catalog.database(name).is_some_and(|database| database.subscriptions.contains(own))
            });
        }
    }

    /// As `subscriber`: all together, then each destination.
    pub fn reports(&self) -> Vec<Report> {
        let count = |counter: &AtomicU64| Datum::count(counter.load(Ordering::Relaxed));
        let dropped = self.feed.dropped_points.load(Ordering::Relaxed)
            + self.common.all.points_dropped.load(Ordering::Relaxed);
        let all = [
            // One that could not be sent to is refused when it is created.
            ("createFailures", Datum::Integer(0)),
            ("pointsDropped", Datum::count(dropped)),
            ("pointsWritten", count(&self.common.all.points_written)),
            ("writeFailures", count(&self.common.all.failures)),
        ];
        let mut reports = vec![Report::new("subscriber", all)];
        for ((database, own), route) in &*self.lock() {
            for (destination, counts) in own.destinations.iter().zip(&route.counts) {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Route>> {
        // Nothing under this lock can panic half-way.
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Route {
    /// With ALL each destination has a lane, so that one that hangs keeps none from the others.
    fn begin(database: &str, subscription: &Subscription, common: &Arc<Common>) -> Self {
        let destinations = subscription.destinations.iter();
        let counts: Vec<Arc<Counts>> = destinations.clone().map(|_| Arc::default()).collect();
        let ways = destinations.zip(&counts).map(|(url, counts)| Way {
            sender: Sender::to(url, database, &subscription.policy),
            counts: counts.clone(),
        });
        let lane = |ways: Vec<Way>| Lane::begin(ways, common.clone());
        let lanes = match subscription.to_all {
            true => ways.map(|way| lane(vec![way])).collect(),
            false => vec![lane(ways.collect())],
        };
        Self { lanes, counts }
    }
}
