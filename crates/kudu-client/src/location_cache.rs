//! A cache of a table's tablet locations.
//!
//! Each entry is an interval of partition keys: a tablet, or a range that no partition covers. The latter are cached
//! too, because otherwise every row in them would ask the master. Entries live as long as the master says.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::pb::master::{GetTableLocationsRequest, GetTableLocationsResponse, ROLE_LEADER, TableIdentifier};
use crate::rpc::messenger::Address;

/// The most tablets that one look-up returns.
const TABLETS_PER_LOOKUP: u32 = 50;

/// How long an answer is valid if the master does not say.
const DEFAULT_TTL_MILLIS: u32 = 60_000;

/// Bounds on an answer, more than any tablet or location has: interned replicas let a few bytes expand into many.
const MAX_REPLICAS: usize = 16;
const MAX_LOCATION_BYTES: usize = 1024;

/// One copy of a tablet.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) address: Address,
    pub(crate) location: String,
}

/// A tablet, its interval of partition keys and its replicas.
#[derive(Debug)]
pub(crate) struct Tablet {
    pub(crate) id: Bytes,
    pub(crate) start: Bytes,
    /// Exclusive; empty means unbounded.
    pub(crate) end: Bytes,
    pub(crate) hash_buckets: Vec<u32>,
    pub(crate) replicas: Vec<Replica>,
    expires_at: Instant,
    states: Mutex<ReplicaStates>,
}

/// Which replica leads and which have failed: first as the master says, then as calls to them end.
#[derive(Debug)]
struct ReplicaStates {
    leader: Option<usize>,
    failed: Vec<bool>,
}

impl Tablet {
    pub(crate) fn id_text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.id)
    }

    /// Its interval of encoded range keys; empty: it has no end there.
    pub(crate) fn range_keys(&self) -> (&[u8], &[u8]) {
        let buckets: Vec<u8> = self.hash_buckets.iter().flat_map(|bucket| bucket.to_be_bytes()).collect();
        // The start of the first of all is cut, and what has no end ends in the next bucket.
        let start = self.start.strip_prefix(&buckets[..]).unwrap_or_default();
        (start, self.end.strip_prefix(&buckets[..]).unwrap_or_default())
    }

    /// The replica to write to; `None` when all have failed and the master must be asked.
    pub(crate) fn leader(&self) -> Option<usize> {
        let states = self.states.lock();
        let untried = || states.failed.iter().position(|failed| !failed);
        states.leader.filter(|&leader| !states.failed[leader]).or_else(untried)
    }

    /// Called when this replica does not lead or does not answer.
    pub(crate) fn mark_failed(&self, replica: usize) {
        let mut states = self.states.lock();
        states.failed[replica] = true;
        if states.leader == Some(replica) {
            states.leader = None;
        }
    }

    pub(crate) fn mark_leader(&self, replica: usize) {
        let mut states = self.states.lock();
        states.leader = Some(replica);
        states.failed[replica] = false;
    }
}

#[derive(Clone, Debug)]
enum Entry {
    Tablet(Arc<Tablet>),
    NonCoveredRange { end: Bytes, expires_at: Instant },
}

impl Entry {
    fn end(&self) -> &Bytes {
        match self {
            Entry::Tablet(tablet) => &tablet.end,
            Entry::NonCoveredRange { end, .. } => end,
        }
    }

    fn expires_at(&self) -> Instant {
        match self {
            Entry::Tablet(tablet) => tablet.expires_at,
            Entry::NonCoveredRange { expires_at, .. } => *expires_at,
        }
    }
}

/// The result of looking up a partition key.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    Tablet(Arc<Tablet>),
    /// No range partition covers the key.
    NonCoveredRange {
        /// End of the uncovered range; empty: unbounded.
        end: Bytes,
    },
}

/// The tablets of one table that were looked up so far.
#[derive(Debug)]
pub(crate) struct LocationCache {
    table_id: Bytes,
    entries: RwLock<BTreeMap<Bytes, Entry>>,
    /// How often everything was forgotten. It changes while the entries are locked.
    forgotten: AtomicU64,
    looking_up: tokio::sync::Mutex<()>,
}

impl LocationCache {
    pub(crate) fn new(table_id: Bytes) -> Self {
        let (entries, forgotten) = (RwLock::default(), AtomicU64::new(0));
        Self { table_id, entries, forgotten, looking_up: tokio::sync::Mutex::new(()) }
    }

    /// The cached entry that covers a key, if any.
    pub(crate) fn cached(&self, key: &[u8]) -> Option<Lookup> {
        let entries = self.entries.read();
        let (_, entry) = entries.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        let covers = entry.end().is_empty() || key < &entry.end()[..];
        if !covers || entry.expires_at() <= Instant::now() {
            return None;
        }
        Some(match entry {
            Entry::Tablet(tablet) => Lookup::Tablet(tablet.clone()),
            Entry::NonCoveredRange { end, .. } => Lookup::NonCoveredRange { end: end.clone() },
        })
    }

    /// The tablet or uncovered range at a key; asks the master if it is not cached.
    pub(crate) async fn find(&self, cluster: &Cluster, key: &[u8], deadline: Instant) -> Result<Lookup> {
        if let Some(found) = self.cached(key) {
            return Ok(found);
        }
        // One look-up at a time: it returns many tablets, so most of those who waited find theirs.
        let Ok(_guard) = tokio::time::timeout_at(deadline, self.looking_up.lock()).await else {
            return Err(Error::timed_out("waiting for tablet locations"));
        };
        if let Some(found) = self.cached(key) {
            return Ok(found);
        }
        loop {
            let forgotten = self.forgotten.load(Ordering::Acquire);
            self.look_up(cluster, key, deadline, forgotten).await?;
            if let Some(found) = self.cached(key) {
                return Ok(found);
            }
            if self.forgotten.load(Ordering::Acquire) == forgotten {
                let words = "the master's tablet locations do not cover the partition key";
                return Err(Error::protocol(words));
            }
        }
    }

    /// Every tablet, in key order.
    pub(crate) async fn all(&self, cluster: &Cluster, deadline: Instant) -> Result<Vec<Arc<Tablet>>> {
        let mut tablets = Vec::new();
        let mut key = Bytes::new();
        loop {
            let end = match self.find(cluster, &key, deadline).await? {
                Lookup::Tablet(tablet) => {
                    let end = tablet.end.clone();
                    tablets.push(tablet);
                    end
                }
                Lookup::NonCoveredRange { end } => end,
            };
            if end.is_empty() {
                return Ok(tablets);
            }
            key = end;
        }
    }

    /// Removes a tablet, so that its next use asks the master.
    pub(crate) fn forget(&self, tablet: &Tablet) {
        let mut entries = self.entries.write();
        if let Some(Entry::Tablet(cached)) = entries.get(&tablet.start)
            && cached.id == tablet.id
        {
            entries.remove(&tablet.start);
        }
    }

    /// Removes everything; called when partitions were added or dropped.
    pub(crate) fn forget_all(&self) {
        let mut entries = self.entries.write();
        entries.clear();
        self.forgotten.fetch_add(1, Ordering::AcqRel);
    }

    async fn look_up(&self, cluster: &Cluster, key: &[u8], deadline: Instant, forgotten: u64) -> Result<()> {
        Metrics::count(&cluster.metrics.location_lookups);
        let request = GetTableLocationsRequest {
            table: Some(TableIdentifier::by_id(self.table_id.clone())),
            partition_key_start: Some(Bytes::copy_from_slice(key)),
            max_returned_locations: Some(TABLETS_PER_LOOKUP),
            intern_ts_infos_in_response: Some(true),
        };
        let answer: GetTableLocationsResponse =
            cluster.call_master("GetTableLocations", &request, &[], deadline).await?;
        let life = Duration::from_millis(answer.ttl_millis.unwrap_or(DEFAULT_TTL_MILLIS).into());
        self.insert(key, &tablets_from_pb(&answer, life)?, life, forgotten);
        Ok(())
    }

    /// Caches an answer, unless the cache was cleared after the request was sent: the answer may be stale.
    fn insert(&self, key: &[u8], tablets: &[Arc<Tablet>], life: Duration, forgotten: u64) {
        let expires_at = Instant::now() + life;
        let complete = tablets.len() < TABLETS_PER_LOOKUP as usize;
        let mut entries = self.entries.write();
        if self.forgotten.load(Ordering::Acquire) != forgotten {
            return;
        }
        // Where the interval that the answer covers starts. The master begins with the tablet at the key, or the one before
        // it: if the first tablet starts after the key, no tablet lies before it.
        let mut at = match tablets.first() {
            Some(first) if &first.start[..] <= key => first.start.clone(),
            _ => Bytes::new(),
        };
        let to = if complete {
            Bytes::new()
        } else {
            tablets.last().map(|last| last.end.clone()).unwrap_or_default()
        };
        let stale: Vec<Bytes> = entries
            .range::<Bytes, _>(&at..)
            .map(|(start, _)| start.clone())
            .take_while(|start| to.is_empty() || *start < to)
            .collect();
        for start in stale {
            entries.remove(&start);
        }
        let mut ended = false;
        for tablet in tablets {
            if at < tablet.start {
                entries.insert(at, Entry::NonCoveredRange { end: tablet.start.clone(), expires_at });
            }
            at = tablet.end.clone();
            ended = at.is_empty();
            entries.insert(tablet.start.clone(), Entry::Tablet(tablet.clone()));
        }
        if complete && !ended {
            entries.insert(at, Entry::NonCoveredRange { end: Bytes::new(), expires_at });
        }
    }
}

pub(crate) fn tablets_from_pb(
    answer: &GetTableLocationsResponse,
    life: Duration,
) -> Result<Vec<Arc<Tablet>>> {
    let expires_at = Instant::now() + life;
    let too_large =
        |what: &str| Err(Error::protocol(format!("too many or too long {what} in tablet locations")));
    if answer.tablet_locations.len() > 2 * TABLETS_PER_LOOKUP as usize {
        return too_large("tablets");
    }
    let mut tablets = Vec::with_capacity(answer.tablet_locations.len());
    let mut last_end: Option<Bytes> = None;
    for location in &answer.tablet_locations {
        let partition = location.partition.clone().unwrap_or_default();
        let mut replicas = Vec::new();
        let mut leader = None;
        if location.interned_replicas.len() > MAX_REPLICAS {
            return too_large("replicas");
        }
        for replica in &location.interned_replicas {
            let server = answer.ts_infos.get(replica.ts_info_index as usize);
            let server = server.ok_or_else(|| Error::protocol("a replica on a server that is not listed"))?;
            let Some(address) = server.rpc_addresses.first() else { continue };
            if replica.role == ROLE_LEADER {
                leader = Some(replicas.len());
            }
            let location = server.location.clone().unwrap_or_default();
            if location.len() > MAX_LOCATION_BYTES {
                return too_large("locations");
            }
            replicas.push(Replica { address: Address::from_pb(address)?, location });
        }
        let start = partition.partition_key_start.unwrap_or_default();
        let end = partition.partition_key_end.unwrap_or_default();
        let in_order = last_end.as_ref().is_none_or(|last| !last.is_empty() && *last <= start);
        if !in_order || !end.is_empty() && end <= start {
            return Err(Error::protocol("tablet locations out of order"));
        }
        last_end = Some(end.clone());
        let failed = vec![false; replicas.len()];
        tablets.push(Arc::new(Tablet {
            id: location.tablet_id.clone(),
            start,
            end,
            hash_buckets: partition.hash_buckets.iter().map(|&bucket| bucket as u32).collect(),
            replicas,
            expires_at,
            states: Mutex::new(ReplicaStates { leader, failed }),
        }));
    }
    Ok(tablets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::Partition;
    use crate::pb::master::{InternedReplica, TabletLocations, TabletServerInfo};

    fn answer(intervals: &[(&'static str, &'static str)]) -> GetTableLocationsResponse {
        let tablet = |(start, end): &(&'static str, &'static str)| TabletLocations {
            tablet_id: Bytes::from_static(start.as_bytes()),
            partition: Some(Partition {
                hash_buckets: vec![],
                partition_key_start: Some(Bytes::from_static(start.as_bytes())),
                partition_key_end: Some(Bytes::from_static(end.as_bytes())),
            }),
            interned_replicas: vec![],
        };
        GetTableLocationsResponse {
            tablet_locations: intervals.iter().map(tablet).collect(),
            ..Default::default()
        }
    }

    fn fill(cache: &LocationCache, key: &str, intervals: &[(&'static str, &'static str)]) {
        let life = Duration::from_secs(60);
        let forgotten = cache.forgotten.load(Ordering::Acquire);
        cache.insert(key.as_bytes(), &tablets_from_pb(&answer(intervals), life).unwrap(), life, forgotten);
    }

    fn at(cache: &LocationCache, key: &str) -> String {
        match cache.cached(key.as_bytes()) {
            None => "?".into(),
            Some(Lookup::Tablet(tablet)) => tablet.id_text().into_owned(),
            Some(Lookup::NonCoveredRange { end }) => format!("gap to {}", String::from_utf8_lossy(&end)),
        }
    }

    #[tokio::test]
    async fn uncovered_ranges_are_cached_between_around_and_without_tablets() {
        let cache = LocationCache::new(Bytes::new());
        assert_eq!(at(&cache, "c"), "?");
        fill(&cache, "a", &[("b", "d"), ("f", "h")]);
        assert_eq!(
            ["a", "b", "c", "d", "e", "f", "h", "z"].map(|key| at(&cache, key)),
            ["gap to b", "b", "b", "gap to f", "gap to f", "f", "gap to ", "gap to "]
        );
        let empty = LocationCache::new(Bytes::new());
        fill(&empty, "x", &[]);
        assert_eq!(at(&empty, ""), "gap to ");
    }

    #[tokio::test]
    async fn a_later_answer_replaces_only_what_it_covers() {
        let cache = LocationCache::new(Bytes::new());
        fill(&cache, "", &[("", "c"), ("c", "f"), ("f", "")]);
        fill(&cache, "d", &[("c", "d"), ("e", "")]);
        assert_eq!(["a", "c", "d", "e", "x"].map(|key| at(&cache, key)), ["", "c", "gap to e", "e", "e"]);
    }

    #[tokio::test]
    async fn an_answer_to_what_was_asked_before_everything_was_forgotten_is_not_kept() {
        let (cache, life) = (LocationCache::new(Bytes::new()), Duration::from_secs(60));
        let asked = cache.forgotten.load(Ordering::Acquire);
        cache.forget_all();
        cache.insert(b"", &tablets_from_pb(&answer(&[("b", "d")]), life).unwrap(), life, asked);
        assert_eq!(at(&cache, "c"), "?");
        fill(&cache, "", &[("b", "d")]);
        assert_eq!(at(&cache, "c"), "b");
    }

    #[test]
    fn range_keys_are_what_follows_the_hash_buckets() {
        let (life, bucket) = (Duration::from_secs(1), |number: u8, key: &'static [u8]| {
            Bytes::from([&[0, 0, 0, number][..], key].concat())
        });
        let keys = |number: i32, start: Bytes, end: Bytes| {
            let mut answer = answer(&[("", "")]);
            answer.tablet_locations[0].partition = Some(Partition {
                hash_buckets: vec![number],
                partition_key_start: Some(start),
                partition_key_end: Some(end),
            });
            let tablet = tablets_from_pb(&answer, life).unwrap().remove(0);
            let (start, end) = tablet.range_keys();
            (start.to_vec(), end.to_vec())
        };
        let of = |start: &[u8], end: &[u8]| (start.to_vec(), end.to_vec());
        assert_eq!(keys(1, bucket(1, b"b"), bucket(1, b"d")), of(b"b", b"d"));
        assert_eq!(keys(1, bucket(1, b""), bucket(1, b"d")), of(b"", b"d"));
        assert_eq!(keys(1, bucket(1, b"b"), bucket(2, b"")), of(b"b", b""));
        assert_eq!(keys(0, Bytes::new(), bucket(0, b"d")), of(b"", b"d"));
        assert_eq!(keys(3, bucket(3, b"b"), Bytes::new()), of(b"b", b""));
    }

    #[test]
    fn locations_are_bounded() {
        let life = Duration::from_secs(1);
        let mut unbounded = answer(&[("", "")]);
        let replica = InternedReplica { ts_info_index: 0, role: ROLE_LEADER };
        unbounded.ts_infos.push(TabletServerInfo { rpc_addresses: vec![], ..Default::default() });
        unbounded.tablet_locations[0].interned_replicas = vec![replica; MAX_REPLICAS + 1];
        assert!(tablets_from_pb(&unbounded, life).is_err());
        unbounded.tablet_locations[0].interned_replicas.truncate(1);
        assert!(tablets_from_pb(&unbounded, life).is_ok());
        unbounded.ts_infos[0].rpc_addresses.push(crate::pb::HostPort { host: "x".repeat(300), port: 1 });
        assert!(tablets_from_pb(&unbounded, life).is_err());
    }

    #[test]
    fn locations_out_of_order_are_refused() {
        let life = Duration::from_secs(1);
        for bad in [&[("c", "d"), ("a", "b")][..], &[("a", ""), ("b", "c")], &[("b", "a")]] {
            assert!(tablets_from_pb(&answer(bad), life).is_err(), "{bad:?}");
        }
    }
}
