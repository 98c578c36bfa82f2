//! Slows down who guesses passwords: log-ins that fail again and again are refused for a while, before anything is hashed.
//!
//! Failures are counted by name and address together, so that nobody can lock a user out from elsewhere; and by address alone, so
//! that trying one password with many names is slow as well. What is counted does not depend on whether the user exists. A
//! successful log-in forgets the failures of its name and address.

use nyala_core::{Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many log-ins may fail before the next has to wait.
const FAILURES_FREE: u32 = 5;
/// The longest wait; it doubles from a second up to this.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Failures are forgotten when there were none for so long.
const FORGOTTEN: Duration = Duration::from_secs(900);
/// An address may fail so often at once, with whatever names ...
const OF_ADDRESS_MAX: f64 = 100.0;
/// ... and once more in each such time.
const OF_ADDRESS_INTERVAL: Duration = Duration::from_secs(10);
/// The most pairs of name and address, and the most addresses, that are kept. An entry has about 60 bytes.
const KEPT_MAX: usize = 10_000;

/// Counts failed log-ins.
pub struct LogIns {
    /// How many failures are free; 0: there is no limit.
    free: AtomicU32,
    hasher: RandomState,
    known: Mutex<Known>,
    refused: AtomicU64,
}

#[derive(Default)]
struct Known {
    by_name: HashMap<(u64, Option<IpAddr>), Failures>,
    by_address: HashMap<Option<IpAddr>, Failing>,
}

/// The failures of a name from an address.
struct Failures {
    count: u32,
    last: Instant,
}

/// How many failures of an address are not forgiven yet.
struct Failing {
    level: f64,
    since: Instant,
}

impl Default for LogIns {
    fn default() -> Self {
        Self {
            free: AtomicU32::new(FAILURES_FREE),
            hasher: RandomState::new(),
            known: Mutex::default(),
            refused: AtomicU64::new(0),
        }
    }
}

impl LogIns {
    /// From now on so many failures are free; with 0 there is no limit.
    pub fn set_free(&self, free: u32) {
        self.free.store(free, Ordering::Relaxed);
    }

    /// How many log-ins were refused without a look at what they gave.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Refuses a log-in that has to wait.
    pub fn check(&self, name: &str, client: Option<IpAddr>) -> Result<()> {
        self.check_at(name, client, Instant::now())
    }

    /// Notes that a log-in failed.
    pub fn failed(&self, name: &str, client: Option<IpAddr>) {
        self.failed_at(name, client, Instant::now());
    }

    /// Notes that a log-in succeeded.
    pub fn succeeded(&self, name: &str, client: Option<IpAddr>) {
        let mut known = self.known.lock();
        if !known.by_name.is_empty() {
            known.by_name.remove(&self.key(name, client));
        }
    }

    fn check_at(&self, name: &str, client: Option<IpAddr>, now: Instant) -> Result<()> {
        let free = self.free.load(Ordering::Relaxed);
        let known = self.known.lock();
        if free == 0 || known.by_address.is_empty() {
            return Ok(());
        }
        let of_name = known.by_name.get(&self.key(name, client));
        let of_name = of_name.map_or(Duration::ZERO, |failures| failures.wait(free, now));
        let of_address = known.by_address.get(&network(client));
        let of_address = of_address.map_or(Duration::ZERO, |failing| failing.wait(now));
        drop(known);
        if of_name.is_zero() && of_address.is_zero() {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let words = match of_name > of_address {
            true => "too many log-ins of this user failed from this address",
            false => "too many log-ins failed from this address",
        };
        Err(Error::throttled(words, of_name.max(of_address)))
    }

    fn failed_at(&self, name: &str, client: Option<IpAddr>, now: Instant) {
        if self.free.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut known = self.known.lock();
        let Known { by_name, by_address } = &mut *known;
        make_room(by_name, |failures| now.saturating_duration_since(failures.last) < FORGOTTEN);
        make_room(by_address, |failing| failing.now(now) > 0.0);
        let failures = by_name.entry(self.key(name, client)).or_insert(Failures { count: 0, last: now });
        if now.saturating_duration_since(failures.last) >= FORGOTTEN {
            failures.count = 0;
        }
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
        let failing = by_address.entry(network(client)).or_insert(Failing { level: 0.0, since: now });
        *failing = Failing { level: failing.now(now) + 1.0, since: now };
    }

    fn key(&self, name: &str, client: Option<IpAddr>) -> (u64, Option<IpAddr>) {
        (self.hasher.hash_one(name), network(client))
    }
}

impl Failures {
    /// How long the next try has to wait.
    fn wait(&self, free: u32, now: Instant) -> Duration {
        let Some(beyond) = self.count.checked_sub(free) else { return Duration::ZERO };
        let wait = Duration::from_secs(1_u64 << beyond.min(16)).min(WAIT_MAX);
        wait.saturating_sub(now.saturating_duration_since(self.last))
    }
}

impl Failing {
    fn now(&self, now: Instant) -> f64 {
        let forgiven =
            now.saturating_duration_since(self.since).as_secs_f64() / OF_ADDRESS_INTERVAL.as_secs_f64();
        (self.level - forgiven).max(0.0)
    }

    fn wait(&self, now: Instant) -> Duration {
        let beyond = self.now(now) - (OF_ADDRESS_MAX - 1.0);
        if beyond > 0.0 { OF_ADDRESS_INTERVAL.mul_f64(beyond) } else { Duration::ZERO }
    }
}

/// The network that counts as one address: of IPv6, 64 bits are what one customer gets.
fn network(client: Option<IpAddr>) -> Option<IpAddr> {
    client.map(|address| match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    })
}

/// Keeps a map within its bound. When all entries still count, whoever filled it had so many addresses that forgetting them
/// gives it little more.
fn make_room<K: Eq + std::hash::Hash, V>(entries: &mut HashMap<K, V>, counts: impl Fn(&V) -> bool) {
    if entries.len() >= KEPT_MAX {
        entries.retain(|_, entry| counts(entry));
    }
    if entries.len() >= KEPT_MAX {
        entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::ErrorKind;
    use std::net::Ipv4Addr;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const ELSEWHERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));

    fn wait(log_ins: &LogIns, name: &str, client: Option<IpAddr>, now: Instant) -> Option<u32> {
        let refused = log_ins.check_at(name, client, now).err()?;
        assert_eq!(refused.kind(), ErrorKind::Throttled);
        refused.retry_after_seconds()
    }

    #[test]
    fn each_failure_makes_the_next_wait_twice_as_long() {
        let (log_ins, mut now) = (LogIns::default(), Instant::now());
        for expected in [None, None, None, None, Some(1), Some(2), Some(4), Some(8)] {
            log_ins.failed_at("ann", HERE, now);
            assert_eq!(wait(&log_ins, "ann", HERE, now), expected);
            now += Duration::from_secs(u64::from(expected.unwrap_or(0)));
            assert_eq!(wait(&log_ins, "ann", HERE, now), None);
        }
        log_ins.failed_at("ann", HERE, now);
        assert_eq!(wait(&log_ins, "bob", HERE, now), None, "another user");
        assert_eq!(wait(&log_ins, "ann", ELSEWHERE, now), None, "another address");
        assert_eq!(log_ins.refused(), 4);
        log_ins.succeeded("ann", HERE);
        log_ins.failed_at("ann", HERE, now);
        assert_eq!(wait(&log_ins, "ann", HERE, now), None, "she has logged in since");
        (0..40).for_each(|_| log_ins.failed_at("ann", HERE, now));
        assert_eq!(wait(&log_ins, "ann", HERE, now), Some(300));
        now += FORGOTTEN;
        log_ins.failed_at("ann", HERE, now);
        assert_eq!(wait(&log_ins, "ann", HERE, now), None, "long ago");
        log_ins.set_free(0);
        (0..40).for_each(|_| log_ins.failed_at("ann", HERE, now));
        assert_eq!(wait(&log_ins, "ann", HERE, now), None, "no limit");
    }

    #[test]
    fn an_address_cannot_try_one_password_with_many_names() {
        let (log_ins, now) = (LogIns::default(), Instant::now());
        (0..100).for_each(|number| log_ins.failed_at(&format!("user{number}"), HERE, now));
        assert_eq!(wait(&log_ins, "another", HERE, now), Some(10));
        assert_eq!(wait(&log_ins, "another", ELSEWHERE, now), None);
        assert_eq!(wait(&log_ins, "another", HERE, now + Duration::from_secs(10)), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (log_ins, now) = (LogIns::default(), Instant::now());
        for number in 0..3 * KEPT_MAX as u32 {
            log_ins.failed_at("ann", Some(IpAddr::V4(Ipv4Addr::from_bits(number))), now);
        }
        let known = log_ins.known.lock();
        assert!(known.by_name.len() <= KEPT_MAX && known.by_address.len() <= KEPT_MAX);
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let parsed = |text: &str| network(Some(text.parse().unwrap()));
        assert_eq!(parsed("2001:db8::1"), parsed("2001:db8::ffff:1"));
        assert_ne!(parsed("2001:db8::1"), parsed("2001:db8:0:1::1"));
        assert_eq!(parsed("::ffff:10.0.0.1"), parsed("10.0.0.1"));
    }
}
