//! The servers of a shared store: which of them are alive, and which one leads.
//!
//! The leader does what one server should do for all: it runs continuous queries and drops expired points. Every server
//! writes a record of itself again and again, as a heartbeat. The newest of some numbered records names the leader. The
//! server that inserts the record with the next number leads, or continues to lead. A server that finds the number taken
//! does not lead.
//!
//! No server compares its clock with that of another. A leader may lead for [`LEASE`], counted from the moment before it
//! renewed the lead. Another server takes the lead after it has seen the same record for [`TAKEN_AFTER`], which is longer,
//! counted from the moment after it read the record. So there are never two leaders, even if one was frozen, as long as a server
//! asks [`Daemons::leads`] before each step. The exception is a machine that was suspended: its clock stood still, and a leader
//! there leads for the rest of its lease when it wakes up.

use crate::records::{Records, table_named};
use nyala_core::store::StoreRef;
use nyala_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const TABLE: &str = "nyala.daemons";
/// How often a server shows that it is alive.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a leader leads without renewing it.
const LEASE: Duration = Duration::from_secs(15);
/// After this time a lead that is not renewed is taken over, and a server without a heartbeat counts as gone.
const TAKEN_AFTER: Duration = Duration::from_secs(20);
/// How often it is looked whether servers show that they are alive.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// After this time without a heartbeat the record of a server is removed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);
/// How many records of the lead are kept. A server that was frozen may insert a number that was removed; it finds newer ones
/// when it looks again, and does not lead.
const LEADS_KEPT: i64 = 8;

const DAEMON: u8 = b'd';
const LEAD: u8 = b'l';
/// The leader in the record of a lead that was given up.
const NOBODY: u64 = 0;

/// A server, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// The address where it takes requests.
    pub address: String,
    /// The name of its machine.
    pub host: String,
    /// Its version.
    pub version: String,
    /// When it started, nanoseconds since 1970.
    pub started_ns: i64,
}

/// A server of the store, as another sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDaemon {
    /// A number that no other server has. Each start has a new one.
    pub id: u64,
    /// What it says of itself.
    pub daemon: Daemon,
    /// Whether it leads.
    pub leads: bool,
    /// How long nothing was heard of it.
    pub silent: Duration,
}

/// The record of a server.
#[derive(Serialize, Deserialize)]
struct Heartbeat {
    #[serde(flatten)]
    daemon: Daemon,
    /// Another number each time.
    beat: u64,
}

/// The servers of a shared store, as one of them sees them.
pub struct Daemons {
    id: u64,
    own: Daemon,
    records: Records,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    own_beat: u64,
    /// By id.
    daemons: BTreeMap<u64, SeenDaemon>,
    lead: Option<SeenLead>,
    /// Until when this server leads.
    leads_until: Option<Instant>,
    /// How often it began to lead.
    terms: u64,
}

struct SeenDaemon {
    daemon: Daemon,
    beat: u64,
    /// When the beat was seen first.
    seen: Instant,
}

#[derive(Clone, Copy)]
struct SeenLead {
    number: i64,
    leader: u64,
    /// When the number was seen first.
    seen: Instant,
}

impl Daemons {
    /// A server of a store; `None` if no other server uses the store.
    pub async fn open(store: &StoreRef, own: Daemon) -> Result<Option<Self>> {
        if !store.capabilities().is_shared {
            return Ok(None);
        }
        let mut id = [0; 8];
        let no_numbers = |_| Error::new(ErrorKind::Io, "the system gives no random numbers");
        SystemRandom::new().fill(&mut id).map_err(no_numbers)?;
        let records = Records::open(store.clone(), TABLE).await?;
        Ok(Some(Self { id: u64::from_ne_bytes(id).max(1), own, records, seen: Mutex::default() }))
    }

    /// Shows that this server is alive, reads the heartbeats of the others, and renews or takes the lead. To be called every
    /// [`HEARTBEAT_INTERVAL`].
    pub async fn heartbeat(&self) -> Result<()> {
        let began = Instant::now();
        let beat = {
            let mut seen = self.seen.lock();
            seen.own_beat += 1;
            Heartbeat { daemon: self.own.clone(), beat: seen.own_beat }
        };
        let text = serde_json::to_vec(&beat).expect("a heartbeat is plain data");
        let key = daemon_key(self.id);
        self.records.write(vec![self.records.put([(key.as_slice(), text.as_slice())])]).await?;
        self.read_others().await?;
        self.renew_or_take_lead(began).await
    }

    /// Whether this server leads at this moment.
    pub fn leads(&self) -> bool {
        self.seen.lock().leads_until.is_some_and(|until| Instant::now() < until)
    }

    /// Returns when this server does not lead any more, also if it has begun to lead again since.
    pub async fn lead_lost(&self) {
        let term = self.seen.lock().terms;
        loop {
            let until = {
                let seen = self.seen.lock();
                seen.leads_until.filter(|until| seen.terms == term && Instant::now() < *until)
            };
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return,
            }
        }
    }

    /// The servers that are alive.
    pub fn all(&self) -> Vec<KnownDaemon> {
        let (now, seen) = (Instant::now(), self.seen.lock());
        let leader = seen.lead.filter(|lead| now - lead.seen < TAKEN_AFTER).map(|lead| lead.leader);
        let known = seen.daemons.iter().map(|(id, own)| KnownDaemon {
            id: *id,
            daemon: own.daemon.clone(),
            leads: leader == Some(*id),
            silent: now - own.seen,
        });
        known.filter(|known| known.silent < TAKEN_AFTER).collect()
    }

    /// Says that this server is going, so that another leads at once.
    pub async fn leave(&self) -> Result<()> {
        let lead = {
            let mut seen = self.seen.lock();
            seen.leads_until = None;
            seen.lead.filter(|lead| lead.leader == self.id)
        };
        if let Some(lead) = lead {
            self.insert_lead(lead.number + 1, NOBODY).await?;
        }
        self.records.write(vec![self.records.remove([daemon_key(self.id).as_slice()])]).await
    }

    /// Reads the records of the other servers, and who leads.
    async fn read_others(&self) -> Result<()> {
        let mut found: Vec<(u64, Heartbeat)> = Vec::new();
        let take = |key: &[u8], value: &[u8]| found.extend(read_beat(key, value));
        self.records.visit(&[DAEMON], take).await?;
        let newest = self.newest_lead().await?;
        // Not before: a record is no older than the moment when it was read.
        let now = Instant::now();
        let mut seen = self.seen.lock();
        let mut before = std::mem::take(&mut seen.daemons);
        for (id, Heartbeat { daemon, beat }) in found {
            let same = before.remove(&id).filter(|before| before.beat == beat);
            seen.daemons.insert(id, same.unwrap_or(SeenDaemon { daemon, beat, seen: now }));
        }
        if let Some((number, leader)) = newest
            && seen.lead.is_none_or(|lead| lead.number != number)
        {
            seen.lead = Some(SeenLead { number, leader, seen: now });
            if leader != self.id {
                seen.leads_until = None;
            }
        }
        Ok(())
    }

    /// The newest number, and who leads by it.
    async fn newest_lead(&self) -> Result<Option<(i64, u64)>> {
        let mut newest = None;
        let take = |key: &[u8], value: &[u8]| newest = read_lead(key, value).or(newest);
        self.records.visit(&[LEAD], take).await?;
        Ok(newest)
    }

    /// Renews the lead, or takes it if nobody has it.
    async fn renew_or_take_lead(&self, began: Instant) -> Result<()> {
        let lead = self.seen.lock().lead;
        let is_free = |lead: SeenLead| {
            lead.leader == self.id || lead.leader == NOBODY || began - lead.seen >= TAKEN_AFTER
        };
        if !lead.is_none_or(is_free) {
            return Ok(());
        }
        let number = lead.map_or(1, |lead| lead.number + 1);
        let is_inserted = self.insert_lead(number, self.id).await?;
        if !is_inserted || self.newest_lead().await? != Some((number, self.id)) {
            self.seen.lock().leads_until = None;
            return Ok(());
        }
        let forgotten: Vec<Vec<u8>> = {
            let mut seen = self.seen.lock();
            seen.lead = Some(SeenLead { number, leader: self.id, seen: began });
            let is_renewed = seen.leads_until.is_some_and(|until| Instant::now() < until);
            seen.terms += u64::from(!is_renewed);
            seen.leads_until = Some(began + LEASE);
            let silent = |(_, daemon): &(&u64, &SeenDaemon)| began - daemon.seen >= FORGOTTEN_AFTER;
            seen.daemons.iter().filter(silent).map(|(id, _)| daemon_key(*id)).collect()
        };
        if !forgotten.is_empty() {
            let keys = forgotten.iter().map(Vec::as_slice);
            self.records.write(vec![self.records.remove(keys)]).await?;
        }
        self.records.remove_between(&lead_key(0), &lead_key(number - LEADS_KEPT)).await
    }

    /// Returns whether nobody else has inserted this number.
    async fn insert_lead(&self, number: i64, leader: u64) -> Result<bool> {
        let value = leader.to_be_bytes();
        Ok(self.records.insert([(lead_key(number).as_slice(), &value[..])]).await?.is_empty())
    }
}

/// A server that uses a shared store now, if there is one: its address. As long as a server takes to be gone for the others,
/// unless all have left.
pub async fn find_alive(store: &StoreRef) -> Result<Option<String>> {
    if table_named(store, TABLE).is_none() {
        return Ok(None);
    }
    let records = Records::open(store.clone(), TABLE).await?;
    // As they are stored: a server of a later version may write them differently.
    let beats = async || {
        let mut found: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let take = |key: &[u8], value: &[u8]| drop(found.insert(key.to_vec(), value.to_vec()));
        records.visit(&[DAEMON], take).await?;
        Ok::<_, Error>(found)
    };
    let before = beats().await?;
    let since = Instant::now();
    while !before.is_empty() && since.elapsed() < TAKEN_AFTER {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let changed = beats().await?.into_iter().find(|(key, value)| before.get(key) != Some(value));
        if let Some((key, value)) = changed {
            let address = read_beat(&key, &value).map(|(_, own)| own.daemon.address);
            return Ok(Some(
                address.unwrap_or_else(|| "an address that this version cannot read".to_owned()),
            ));
        }
    }
    Ok(None)
}

fn daemon_key(id: u64) -> Vec<u8> {
    [&[DAEMON][..], &id.to_be_bytes()].concat()
}

fn lead_key(number: i64) -> Vec<u8> {
    [&[LEAD][..], &number.max(0).to_be_bytes()].concat()
}

/// Records that a later version may write differently are left out.
fn read_beat(key: &[u8], value: &[u8]) -> Option<(u64, Heartbeat)> {
    let id = u64::from_be_bytes(key.get(1..)?.try_into().ok()?);
    Some((id, serde_json::from_slice(value).ok()?))
}

fn read_lead(key: &[u8], value: &[u8]) -> Option<(i64, u64)> {
    let number = i64::from_be_bytes(key.get(1..)?.try_into().ok()?);
    Some((number, u64::from_be_bytes(value.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::store::{Capabilities, Store};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use std::sync::Arc;

    fn shared_store() -> StoreRef {
        let own = MemoryStore::default().capabilities();
        Arc::new(MemoryStore::with_capabilities(Capabilities { is_shared: true, ..own }))
    }

    async fn daemon(store: &StoreRef, name: &str) -> Daemons {
        let text = |text: &str| text.to_owned();
        let own = Daemon { address: text(name), host: text("h"), version: text("1"), started_ns: 0 };
        Daemons::open(store, own).await.unwrap().expect("the store is shared")
    }

    fn names(daemon: &Daemons) -> Vec<(String, bool)> {
        let mut all: Vec<_> =
            daemon.all().into_iter().map(|known| (known.daemon.address, known.leads)).collect();
        all.sort();
        all
    }

    fn expected(all: &[(&str, bool)]) -> Vec<(String, bool)> {
        all.iter().map(|(name, leads)| ((*name).to_owned(), *leads)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn another_leads_when_the_leader_leaves_or_is_silent() {
        let store = shared_store();
        let (a, b, c) = (daemon(&store, "a").await, daemon(&store, "b").await, daemon(&store, "c").await);
        for daemon in [&a, &b, &c, &a] {
            daemon.heartbeat().await.unwrap();
        }
        assert!(a.leads() && !b.leads() && !c.leads());
        assert_eq!(names(&a), expected(&[("a", true), ("b", false), ("c", false)]));
        assert_eq!(names(&c), names(&a));
        a.leave().await.unwrap();
        b.heartbeat().await.unwrap();
        assert!(!a.leads() && b.leads());
        assert_eq!(names(&b), expected(&[("b", true), ("c", false)]));
        // b is frozen.
        let (mut silent, began) = (Duration::ZERO, Instant::now());
        while !c.leads() {
            assert!(silent < TAKEN_AFTER + 2 * HEARTBEAT_INTERVAL);
            tokio::time::advance(HEARTBEAT_INTERVAL).await;
            c.heartbeat().await.unwrap();
            silent = began.elapsed();
        }
        assert!(silent >= TAKEN_AFTER && !b.leads());
        b.lead_lost().await;
        b.heartbeat().await.unwrap();
        assert!(!b.leads() && c.leads(), "it finds out that it was replaced");
        assert_eq!(names(&b), expected(&[("b", false), ("c", true)]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_heartbeat_does_not_make_a_second_leader() {
        let store = shared_store();
        let (leader, other) = (daemon(&store, "leader").await, daemon(&store, "other").await);
        leader.heartbeat().await.unwrap();
        // The record of the other's heartbeat is on its way for this long.
        let began = Instant::now();
        for _ in 0..6 {
            tokio::time::advance(HEARTBEAT_INTERVAL).await;
            leader.heartbeat().await.unwrap();
        }
        other.read_others().await.unwrap();
        other.renew_or_take_lead(began).await.unwrap();
        other.heartbeat().await.unwrap();
        assert!(leader.leads() && !other.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn a_number_that_was_removed_makes_no_leader() {
        let store = shared_store();
        let (frozen, leader) = (daemon(&store, "frozen").await, daemon(&store, "leader").await);
        leader.heartbeat().await.unwrap();
        leader.leave().await.unwrap();
        let began = Instant::now();
        frozen.read_others().await.unwrap();
        // Many have led since.
        for _ in 0..LEADS_KEPT {
            leader.heartbeat().await.unwrap();
            leader.leave().await.unwrap();
        }
        leader.heartbeat().await.unwrap();
        frozen.renew_or_take_lead(began).await.unwrap();
        assert!(leader.leads() && !frozen.leads());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_and_one_of_a_later_version_are_found() {
        let store = shared_store();
        let own = daemon(&store, "own").await;
        own.heartbeat().await.unwrap();
        assert_eq!(find_alive(&store).await.unwrap(), None);
        let slow = async {
            tokio::time::sleep(Duration::from_secs(18)).await;
            own.heartbeat().await.unwrap();
        };
        let (found, ()) = tokio::join!(find_alive(&store), slow);
        assert_eq!(found.unwrap().as_deref(), Some("own"));
        let later = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let key = daemon_key(7);
            own.records.write(vec![own.records.put([(&key[..], &b"another form"[..])])]).await.unwrap();
        };
        let (found, ()) = tokio::join!(find_alive(&store), later);
        assert!(found.unwrap().is_some_and(|address| address.contains("cannot read")));
    }

    /// Servers that stand still at any point, for any time.
    #[tokio::test(start_paused = true)]
    async fn there_are_never_two_leaders() {
        for seed in 0..50 {
            let mut random = StdRng::seed_from_u64(seed);
            let store = shared_store();
            let mut daemons = Vec::new();
            for name in ["a", "b", "c"] {
                daemons.push(daemon(&store, name).await);
            }
            let mut led = 0;
            for step in 0..300 {
                let place = random.random_range(0..daemons.len());
                match random.random_range(0..20) {
                    0 => daemons[place].leave().await.unwrap(),
                    1 => daemons[place] = daemon(&store, "new").await,
                    _ => daemons[place].heartbeat().await.unwrap(),
                }
                tokio::time::advance(Duration::from_millis(random.random_range(0..6000))).await;
                let leaders = daemons.iter().filter(|daemon| daemon.leads()).count();
                assert!(leaders <= 1, "seed {seed}, step {step}");
                led += leaders;
            }
            assert!(led > 100, "seed {seed}: {led}");
        }
    }
}
