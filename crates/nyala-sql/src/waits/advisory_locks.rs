//! Locks by number, whose meaning applications agree upon: PostgreSQL's advisory locks.

use super::Span;
use crate::error::{SqlError, SqlResult, SqlState};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What a lock is known by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockKey {
    pub(crate) database: Arc<str>,
    pub(crate) number: LockNumber,
}

/// One number, or two smaller ones: they are never the same lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LockNumber {
    One(i64),
    Two(i32, i32),
}

/// Who else may have a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Whoever shares it, too.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owner(u64);

/// A lock that a session has or waits for.
pub(crate) struct ShownLock {
    pub(crate) key: LockKey,
    pub(crate) mode: Mode,
    pub(crate) session: i32,
    pub(crate) is_granted: bool,
}

/// The most locks that all sessions have or wait for.
const LOCKS_MAX: usize = 1 << 16;

/// All locks of a server.
#[derive(Default)]
pub struct AdvisoryLocks {
    table: Mutex<Table>,
    /// Whenever something was given back.
    given_back: Notify,
}

#[derive(Default)]
struct Table {
    locks: BTreeMap<LockKey, Lock>,
    /// How many sessions have or wait for all locks together.
    count: usize,
    owners: HashMap<Owner, OwnLocks>,
    last_owner: u64,
    last_waiter: u64,
}

/// What is known of a session.
#[derive(Default)]
struct OwnLocks {
    /// The number that clients know it by.
    session: i32,
    /// How many savepoints its transaction has.
    savepoints: usize,
    keys: HashSet<LockKey>,
    waits_for: Option<(LockKey, Mode, u64)>,
}

#[derive(Default)]
struct Lock {
    holds: Vec<Hold>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
}

/// A session has it in a mode.
struct Hold {
    owner: Owner,
    mode: Mode,
    /// How often it was taken for the session.
    of_session: u32,
    /// How often it was taken for the transaction, by the savepoints that there were.
    of_transaction: BTreeMap<usize, u32>,
}

struct Waiter {
    number: u64,
    owner: Owner,
    mode: Mode,
}

impl Mode {
    fn conflicts(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

impl Lock {
    /// The sessions that somebody has to wait for who comes before a waiter; `u64::MAX`: after all of them.
    fn blockers(&self, owner: Owner, mode: Mode, before: u64) -> impl Iterator<Item = Owner> {
        let holds = self.holds.iter().map(|own| (own.owner, own.mode));
        // Whoever has it already need not queue.
        let queues = !self.holds.iter().any(|own| own.owner == owner);
        let waiters = self.waiters.iter().filter(move |own| queues && own.number < before);
        let all = holds.chain(waiters.map(|own| (own.owner, own.mode)));
        all.filter(move |(other, theirs)| *other != owner && mode.conflicts(*theirs)).map(|(other, _)| other)
    }

    fn is_unused(&self) -> bool {
        self.holds.is_empty() && self.waiters.is_empty()
    }
}

impl Hold {
    fn is_over(&self) -> bool {
        self.of_session == 0 && self.of_transaction.is_empty()
    }
}

impl Table {
    /// Takes a lock if nobody has to be waited for.
    fn try_take(
        &mut self,
        owner: Owner,
        key: &LockKey,
        mode: Mode,
        span: Span,
        before: u64,
    ) -> SqlResult<bool> {
        if let Some(lock) = self.locks.get(key)
            && lock.blockers(owner, mode, before).next().is_some()
        {
            return Ok(false);
        }
        let Some(own) = self.owners.get_mut(&owner) else { return Ok(false) };
        let lock = self.locks.entry(key.clone()).or_default();
        let place = lock.holds.iter().position(|hold| hold.owner == owner && hold.mode == mode);
        let place = match place {
            Some(place) => place,
            None if self.count >= LOCKS_MAX => {
                if lock.is_unused() {
                    self.locks.remove(key);
                }
                return Err(too_many());
            }
            None => {
                self.count += 1;
                own.keys.insert(key.clone());
                lock.holds.push(Hold { owner, mode, of_session: 0, of_transaction: BTreeMap::new() });
                lock.holds.len() - 1
            }
        };
        let hold = &mut lock.holds[place];
        match span {
            Span::Session => hold.of_session += 1,
            Span::Transaction => *hold.of_transaction.entry(own.savepoints).or_default() += 1,
        }
        Ok(true)
    }

    /// Whether a session waits for itself, by way of others.
    fn waits_for_itself(&self, owner: Owner) -> bool {
        let mut reached = HashSet::new();
        let mut next = vec![owner];
        while let Some(waiting) = next.pop() {
            let Some((key, mode, number)) = self.owners.get(&waiting).and_then(|own| own.waits_for.as_ref())
            else {
                continue;
            };
            let Some(lock) = self.locks.get(key) else { continue };
            for blocker in lock.blockers(waiting, *mode, *number) {
                if blocker == owner {
                    return true;
                }
                if reached.insert(blocker) {
                    next.push(blocker);
                }
            }
        }
        false
    }

    /// Changes what a session holds of its locks. Returns whether anything was given back.
    fn change_holds(&mut self, owner: Owner, mut change: impl FnMut(&mut Hold)) -> bool {
        let keys = self.owners.get(&owner).map(|own| own.keys.clone()).unwrap_or_default();
        let mut is_given_back = false;
        for key in keys {
            is_given_back |= self.change_hold(owner, &key, &mut change);
        }
        is_given_back
    }

    fn change_hold(&mut self, owner: Owner, key: &LockKey, change: &mut impl FnMut(&mut Hold)) -> bool {
        let Some(lock) = self.locks.get_mut(key) else { return false };
        let before = lock.holds.len();
        lock.holds.iter_mut().filter(|hold| hold.owner == owner).for_each(change);
        lock.holds.retain(|hold| !hold.is_over());
        let given_back = before - lock.holds.len();
        self.count -= given_back;
        let has_some = lock.holds.iter().any(|hold| hold.owner == owner);
        if lock.is_unused() {
            self.locks.remove(key);
        }
        if !has_some && let Some(own) = self.owners.get_mut(&owner) {
            own.keys.remove(key);
        }
        given_back > 0
    }

    /// Takes somebody out of a queue.
    fn leave(&mut self, owner: Owner, key: &LockKey, number: u64) {
        if let Some(own) = self.owners.get_mut(&owner) {
            own.waits_for = None;
        }
        let Some(lock) = self.locks.get_mut(key) else { return };
        let before = lock.waiters.len();
        lock.waiters.retain(|own| own.number != number);
        self.count -= before - lock.waiters.len();
        if lock.is_unused() {
            self.locks.remove(key);
        }
    }
}

impl AdvisoryLocks {
    /// A new session.
    pub(super) fn new_owner(&self) -> Owner {
        let mut table = self.table();
        table.last_owner += 1;
        let owner = Owner(table.last_owner);
        table.owners.insert(owner, OwnLocks::default());
        owner
    }

    /// Says which number clients know a session by.
    pub(super) fn identify(&self, owner: Owner, session: i32) {
        self.change_owner(owner, |own| own.session = session);
    }

    /// Takes a lock if nobody has to be waited for. Returns whether.
    ///
    /// # Errors
    /// There are too many locks.
    pub(super) fn try_take(&self, owner: Owner, key: &LockKey, mode: Mode, span: Span) -> SqlResult<bool> {
        self.table().try_take(owner, key, mode, span, u64::MAX)
    }

    /// Takes a lock as soon as nobody has to be waited for any more. Who came first gets it first.
    ///
    /// # Errors
    /// Others wait for this session.
    pub(super) async fn take(&self, owner: Owner, key: &LockKey, mode: Mode, span: Span) -> SqlResult<()> {
        let place = Place::enter(self, owner, key, mode)?;
        loop {
            // Before the look, so that nothing is missed that is given back after it.
            let given_back = self.given_back.notified();
            if self.table().try_take(owner, key, mode, span, place.number)? {
                return Ok(());
            }
            given_back.await;
        }
    }

    /// Gives a lock back that was taken for the session. Returns whether it was.
    pub(super) fn give_back(&self, owner: Owner, key: &LockKey, mode: Mode) -> bool {
        let mut had_it = false;
        let is_given_back = self.table().change_hold(owner, key, &mut |hold: &mut Hold| {
            if hold.mode == mode && hold.of_session > 0 {
                hold.of_session -= 1;
                had_it = true;
            }
        });
        self.wake_if(is_given_back);
        had_it
    }

    /// Gives back everything that was taken for the session, or for the transaction, which has ended.
    pub(super) fn give_all_back(&self, owner: Owner, span: Span) {
        let is_given_back = {
            let mut table = self.table();
            let Some(own) = table.owners.get_mut(&owner) else { return };
            if span == Span::Transaction {
                own.savepoints = 0;
            }
            table.change_holds(owner, |hold| match span {
                Span::Session => hold.of_session = 0,
                Span::Transaction => hold.of_transaction.clear(),
            })
        };
        self.wake_if(is_given_back);
    }

    /// Forgets a session and what it has.
    pub(super) fn forget(&self, owner: Owner) {
        let is_given_back = {
            let mut table = self.table();
            let is_given_back = table.change_holds(owner, |hold| {
                hold.of_session = 0;
                hold.of_transaction.clear();
            });
            table.owners.remove(&owner);
            is_given_back
        };
        self.wake_if(is_given_back);
    }

    /// Notes a savepoint.
    pub(super) fn save(&self, owner: Owner) {
        self.change_owner(owner, |own| own.savepoints += 1);
    }

    /// Forgets the savepoints after so many: what was taken after them belongs to what came before.
    pub(super) fn release(&self, owner: Owner, savepoints: usize) {
        self.change_owner(owner, |own| own.savepoints = savepoints);
        self.table().change_holds(owner, |hold| {
            let later = hold.of_transaction.split_off(&(savepoints + 1));
            let count: u32 = later.values().sum();
            if count > 0 {
                *hold.of_transaction.entry(savepoints).or_default() += count;
            }
        });
    }

    /// Gives back what was taken after so many savepoints.
    pub(super) fn roll_back_to(&self, owner: Owner, savepoints: usize) {
        self.change_owner(owner, |own| own.savepoints = savepoints + 1);
        let is_given_back = self.table().change_holds(owner, |hold| {
            drop(hold.of_transaction.split_off(&(savepoints + 1)));
        });
        self.wake_if(is_given_back);
    }

    /// All locks that sessions have or wait for.
    pub(super) fn shown(&self) -> Vec<ShownLock> {
        let table = self.table();
        let session = |owner: Owner| table.owners.get(&owner).map_or(0, |own| own.session);
        let mut shown = Vec::with_capacity(table.count);
        for (key, lock) in &table.locks {
            let holds = lock.holds.iter().map(|own| (own.owner, own.mode, true));
            let waiters = lock.waiters.iter().map(|own| (own.owner, own.mode, false));
            shown.extend(holds.chain(waiters).map(|(owner, mode, is_granted)| ShownLock {
                key: key.clone(),
                mode,
                session: session(owner),
                is_granted,
            }));
        }
        shown
    }

    fn change_owner(&self, owner: Owner, change: impl FnOnce(&mut OwnLocks)) {
        if let Some(own) = self.table().owners.get_mut(&owner) {
            change(own);
        }
    }

    fn wake_if(&self, is_given_back: bool) {
        if is_given_back {
            self.given_back.notify_waiters();
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue of a lock, left when it is dropped.
struct Place<'a> {
    locks: &'a AdvisoryLocks,
    owner: Owner,
    key: &'a LockKey,
    number: u64,
}

impl<'a> Place<'a> {
    fn enter(locks: &'a AdvisoryLocks, owner: Owner, key: &'a LockKey, mode: Mode) -> SqlResult<Self> {
        let mut table = locks.table();
        if table.count >= LOCKS_MAX {
            return Err(too_many());
        }
        table.last_waiter += 1;
        table.count += 1;
        let number = table.last_waiter;
        table.locks.entry(key.clone()).or_default().waiters.push(Waiter { number, owner, mode });
        if let Some(own) = table.owners.get_mut(&owner) {
            own.waits_for = Some((key.clone(), mode, number));
        }
        let waits_for_itself = table.waits_for_itself(owner);
        drop(table);
        let place = Self { locks, owner, key, number };
        match waits_for_itself {
            true => Err(SqlError::new(SqlState::DEADLOCK, "deadlock detected")
                .with_hint("Sessions that take several locks should take them in the same order.")),
            false => Ok(place),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.locks.table().leave(self.owner, self.key, self.number);
        // Those behind it may be next.
        self.locks.given_back.notify_waiters();
    }
}

fn too_many() -> SqlError {
    let words = format!("there are {LOCKS_MAX} advisory locks, as many as may be");
    SqlError::new(SqlState::TOO_FEW_RESOURCES, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, Shared};
    use futures::FutureExt;

    fn key(number: i64) -> LockKey {
        LockKey { database: "d".into(), number: LockNumber::One(number) }
    }

    struct Locks {
        all: AdvisoryLocks,
        owners: [Owner; 3],
    }

    impl Locks {
        fn new() -> Self {
            let all = AdvisoryLocks::default();
            let owners = [all.new_owner(), all.new_owner(), all.new_owner()];
            Self { all, owners }
        }

        fn tries(&self, owner: usize, number: i64, mode: Mode, span: Span) -> bool {
            self.all.try_take(self.owners[owner], &key(number), mode, span).unwrap()
        }

        async fn take(&self, owner: usize, number: i64, mode: Mode) -> SqlResult<()> {
            self.all.take(self.owners[owner], &key(number), mode, Span::Session).await
        }
    }

    #[test]
    fn who_has_it_excludes_others_as_often_as_it_was_taken() {
        let locks = Locks::new();
        assert!(locks.tries(0, 1, Exclusive, Span::Session) && locks.tries(0, 1, Exclusive, Span::Session));
        assert!(locks.tries(0, 1, Shared, Span::Transaction));
        assert!(!locks.tries(1, 1, Shared, Span::Session));
        assert!(locks.tries(1, 2, Shared, Span::Session) && locks.tries(2, 2, Shared, Span::Session));
        assert!(!locks.tries(0, 2, Exclusive, Span::Session));
        let back = |mode| locks.all.give_back(locks.owners[0], &key(1), mode);
        assert!(back(Exclusive) && back(Exclusive) && !back(Exclusive) && !back(Shared));
        assert!(locks.tries(1, 1, Shared, Span::Session));
        locks.all.give_all_back(locks.owners[0], Span::Transaction);
        locks.all.give_all_back(locks.owners[1], Span::Session);
        locks.all.forget(locks.owners[2]);
        let table = locks.all.table();
        assert!(table.locks.is_empty() && table.count == 0);
        assert!(table.owners.values().all(|own| own.keys.is_empty()));
    }

    #[test]
    fn savepoints_give_back_what_came_after_them() {
        let locks = Locks::new();
        let own = locks.owners[0];
        locks.tries(0, 1, Exclusive, Span::Transaction);
        locks.all.save(own);
        locks.tries(0, 1, Exclusive, Span::Transaction);
        locks.tries(0, 2, Exclusive, Span::Transaction);
        locks.tries(0, 3, Exclusive, Span::Session);
        locks.all.save(own);
        locks.tries(0, 4, Exclusive, Span::Transaction);
        locks.all.release(own, 1);
        assert!(!locks.tries(1, 4, Shared, Span::Session));
        locks.all.roll_back_to(own, 0);
        assert!(locks.tries(1, 2, Shared, Span::Session) && locks.tries(1, 4, Shared, Span::Session));
        assert!(!locks.tries(1, 1, Shared, Span::Session) && !locks.tries(1, 3, Shared, Span::Session));
        locks.all.give_all_back(own, Span::Transaction);
        assert!(locks.tries(1, 1, Shared, Span::Session) && !locks.tries(1, 3, Shared, Span::Session));
    }

    #[test]
    fn who_came_first_is_next_and_who_leaves_is_not_waited_for() {
        let locks = Locks::new();
        locks.tries(0, 1, Shared, Span::Session);
        let mut first = Box::pin(locks.take(1, 1, Exclusive));
        assert!(first.as_mut().now_or_never().is_none());
        let mut second = Box::pin(locks.take(2, 1, Shared));
        assert!(second.as_mut().now_or_never().is_none() && !locks.tries(2, 1, Shared, Span::Session));
        drop(first);
        assert_eq!(second.as_mut().now_or_never(), Some(Ok(())));
        drop(second);
        let mut first = Box::pin(locks.take(1, 1, Exclusive));
        assert!(first.as_mut().now_or_never().is_none());
        locks.all.forget(locks.owners[0]);
        assert!(first.as_mut().now_or_never().is_none());
        locks.all.forget(locks.owners[2]);
        assert_eq!(first.as_mut().now_or_never(), Some(Ok(())));
    }

    #[test]
    fn circles_are_refused() {
        let locks = Locks::new();
        for owner in 0..3 {
            locks.tries(owner, owner as i64, Exclusive, Span::Session);
        }
        let mut waiting = [Box::pin(locks.take(0, 1, Exclusive)), Box::pin(locks.take(1, 2, Exclusive))];
        assert!(waiting.iter_mut().all(|own| own.as_mut().now_or_never().is_none()));
        let refused = locks.take(2, 0, Shared).now_or_never().unwrap();
        assert_eq!(refused.map_err(|error| error.code), Err(SqlState::DEADLOCK));
        locks.all.forget(locks.owners[2]);
        assert_eq!(waiting[1].as_mut().now_or_never(), Some(Ok(())));
    }
}
