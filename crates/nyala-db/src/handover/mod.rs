//! Handing a store over to another one while it is used: what is changed meanwhile is watched (`watch`, `changed`), and at the
//! end changes are held off until the other store has everything, and then for good.
//!
//! Users of the store have it from [`Handover::store`] (`handed_store`). An [`Era`] says what becomes of their changes. Each
//! change holds the era in which it began until it has ended, so whoever begins a new era knows when everything has ended
//! that began before. Readers notice nothing of all this.
//!
//! A hold ends by itself unless it is renewed: a client that has died does not stop the writers of the server. That the
//! store was left for good is written in the store itself before anybody is told, and is true after a restart, too.

mod changed;
mod handed_store;
mod watch;

pub use changed::Changed;

use crate::records::table_named;
use handed_store::HandedStore;
use nyala_core::store::StoreRef;
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Error, Result, TableSchema};
use parking_lot::{Mutex, RwLock};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use watch::{Running, Watch};

/// How long a hold lasts without being renewed.
pub const LEASE: Duration = Duration::from_secs(5);
/// How long changes may take that have begun before a hold. Then there is none: writers would wait for them.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether they have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// The table that says, by the name of its second column, where everything has gone. That a table was created is durable
/// whatever syncs of the log were asked for, and it is there as a whole or not at all.
const TABLE: &str = "nyala.moved";

/// A store that can be handed over.
pub struct Handover {
    store: StoreRef,
    era: RwLock<Arc<Era>>,
    /// Eras whose changes may not have ended.
    earlier: Mutex<Vec<Weak<Era>>>,
    /// Held while one era is made after the other.
    changing: tokio::sync::Mutex<()>,
}

/// What becomes of changes, for a time.
#[derive(Clone)]
struct Era {
    state: State,
    watch: Option<Arc<Watch>>,
}

#[derive(Clone)]
enum State {
    /// They are done.
    Open,
    /// They are refused as long as somebody renews this.
    Held { hold: u64, until: Arc<Mutex<Instant>>, last: Instant },
    /// They are refused while it is being written that the store was left.
    Leaving,
    /// They are refused for good.
    Left { to: String },
}

/// A moment from which on changes are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Marks of other epochs say nothing about this one.
    pub epoch: u64,
    /// Everything that had ended before the mark has a smaller number.
    pub number: u64,
}

/// A change that is allowed.
struct Entered {
    era: Arc<Era>,
}

impl Handover {
    /// Makes a store one that can be handed over.
    pub fn open(store: StoreRef) -> Arc<Self> {
        let era = RwLock::new(Arc::new(Era { state: State::Open, watch: None }));
        let (earlier, changing) = Default::default();
        Arc::new(Self { store, era, earlier, changing })
    }

    /// Refuses changes if the store was left before. Not sooner than its catalog is open, which may write its own tables.
    pub fn refuse_if_left(&self) {
        if let Some(to) = left_to(&self.store) {
            let left = self.begin_era(|era| Ok(Era { state: State::Left { to }, ..era.clone() }));
            left.expect("this is no error");
        }
    }

    /// The store for those who use it.
    pub fn store(self: &Arc<Self>) -> StoreRef {
        Arc::new(HandedStore::new(self.clone()))
    }

    /// Where everything has gone, if the store was left.
    pub fn left_to(&self) -> Option<String> {
        match &self.era.read().state {
            State::Left { to } => Some(to.clone()),
            State::Open | State::Held { .. } | State::Leaving => None,
        }
    }

    /// Makes a mark: [`Self::changed`] tells what a copy that is made now may lack. Changes are watched from the first mark
    /// on, whose epoch has this number.
    ///
    /// # Errors
    /// `Retry` if a change that has begun before does not end.
    pub async fn mark(&self, epoch: u64) -> Result<Mark> {
        let _changing = self.changing.lock().await;
        let known = self.era.read().watch.clone();
        let watch = match known {
            Some(watch) => watch,
            None => {
                let watch = Arc::new(Watch::new(epoch));
                let with = |watch| move |era: &Era| Ok(Era { watch, ..era.clone() });
                self.begin_era(with(Some(watch.clone())))?;
                if let Err(error) = self.wait_for_earlier().await {
                    // What has begun before is not watched.
                    self.begin_era(with(None))?;
                    return Err(error);
                }
                watch
            }
        };
        Ok(Mark { epoch: watch.epoch, number: watch.mark() })
    }

    /// What was changed in an epoch.
    ///
    /// # Errors
    /// `Missing` if changes are not known since then.
    pub fn changed(&self, epoch: u64) -> Result<Changed> {
        let watch = self.era.read().watch.clone().filter(|watch| watch.epoch == epoch);
        let changed = watch.map(|watch| watch.changed());
        changed.ok_or_else(|| {
            Error::missing("what was changed since then is not known: the server was started again")
        })
    }

    /// Holds changes off from now on, under this number, until [`LEASE`] after it was renewed, and no longer than `limit`.
    /// When this returns, those that had begun have ended.
    ///
    /// # Errors
    /// `Conflict` if somebody else holds them off, or the store was left; `Retry` if a change that has begun before does not
    /// end.
    pub async fn hold(&self, hold: u64, limit: Duration) -> Result<()> {
        let _changing = self.changing.lock().await;
        let now = Instant::now();
        let held = |era: &Era| match &era.state {
            State::Held { until, .. } if now < *until.lock() => {
                Err(Error::conflict("another move holds the writers off at this moment"))
            }
            State::Leaving | State::Left { .. } => Err(why_refused(&era.state)),
            State::Open | State::Held { .. } => {
                // While it is waited for changes nobody can renew it.
                let (until, last) = (now + ENDS_WITHIN + LEASE, now + ENDS_WITHIN + limit);
                let state = State::Held { hold, until: Arc::new(Mutex::new(until)), last };
                Ok(Era { state, ..era.clone() })
            }
        };
        self.begin_era(held)?;
        if let Err(error) = self.wait_for_earlier().await {
            self.release(hold);
            return Err(error);
        }
        let now = Instant::now();
        let shortened = |era: &Era| {
            let until = Arc::new(Mutex::new(now + LEASE.min(limit)));
            Ok(Era { state: State::Held { hold, until, last: now + limit }, ..era.clone() })
        };
        self.change_hold(hold, shortened)
    }

    /// Makes a hold last longer.
    ///
    /// # Errors
    /// `Missing` if it has ended.
    pub fn renew(&self, hold: u64) -> Result<()> {
        let now = Instant::now();
        let era = self.era.read();
        match &era.state {
            State::Held { hold: own, until, last } if *own == hold => {
                let mut until = until.lock();
                if now >= *until {
                    return Err(hold_is_over());
                }
                *until = (now + LEASE).min(*last);
                Ok(())
            }
            _ => Err(hold_is_over()),
        }
    }

    /// Ends a hold, if it is still there: changes are done again.
    pub fn release(&self, hold: u64) {
        // If it is not there, changes are done, or another holds them off.
        let _ = self.begin_era(|era| match &era.state {
            State::Held { hold: own, .. } if *own == hold => Ok(Era { state: State::Open, ..era.clone() }),
            _ => Err(hold_is_over()),
        });
    }

    /// Leaves the store for good under a hold that has not ended: changes are refused from now on, also after a restart.
    ///
    /// # Errors
    /// `Missing` if the hold has ended. After an error the store was not left.
    pub async fn leave(&self, hold: u64, to: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_hold(hold, |era| Ok(Era { state: State::Leaving, ..era.clone() }))?;
        let created = self.store.create_table(schema_of_left(to)).await;
        // An error may come after the table was created.
        let state = left_to(&self.store).map_or(State::Open, |to| State::Left { to });
        let is_left = matches!(state, State::Left { .. });
        self.begin_era(|era| Ok(Era { state, ..era.clone() }))?;
        match created {
            Err(error) if !is_left => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes a store back that was left, and ends holds and the watch.
    pub async fn take_back(&self) -> Result<()> {
        let _changing = self.changing.lock().await;
        if let Some((table, _)) = table_named(&self.store, TABLE) {
            self.store.drop_table(table).await?;
        }
        self.begin_era(|_| Ok(Era { state: State::Open, watch: None }))
    }

    /// Whether changes are done.
    pub fn takes_changes(&self) -> bool {
        self.enter().is_ok()
    }

    fn enter(&self) -> Result<Entered> {
        let era = self.era.read().clone();
        match &era.state {
            State::Open => Ok(Entered { era }),
            State::Held { hold, until, .. } if Instant::now() >= *until.lock() => {
                self.release(*hold);
                // Another hold may have begun, which has not ended.
                let era = self.era.read().clone();
                match &era.state {
                    State::Open => Ok(Entered { era }),
                    state => Err(why_refused(state)),
                }
            }
            state => Err(why_refused(state)),
        }
    }

    /// Replaces the state of a hold that has not ended.
    fn change_hold(&self, hold: u64, next: impl FnOnce(&Era) -> Result<Era>) -> Result<()> {
        let now = Instant::now();
        self.begin_era(|era| match &era.state {
            State::Held { hold: own, until, .. } if *own == hold && now < *until.lock() => next(era),
            _ => Err(hold_is_over()),
        })
    }

    /// Begins the era that follows another one, unless there is an error.
    fn begin_era(&self, next: impl FnOnce(&Era) -> Result<Era>) -> Result<()> {
        let mut era = self.era.write();
        let next = Arc::new(next(&era)?);
        let mut earlier = self.earlier.lock();
        earlier.retain(|era| era.strong_count() > 0);
        earlier.push(Arc::downgrade(&*era));
        *era = next;
        Ok(())
    }

    /// Waits until everything has ended that began in an earlier era.
    async fn wait_for_earlier(&self) -> Result<()> {
        let deadline = Instant::now() + ENDS_WITHIN;
        while self.earlier.lock().iter().any(|era| era.strong_count() > 0) {
            if Instant::now() >= deadline {
                return Err(Error::retry(format!(
                    "a statement that changes data has run for more than {} s: try again when it has ended",
                    ENDS_WITHIN.as_secs()
                )));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }
}

impl Entered {
    /// Begins a change, if changes are watched. `what`: the most that it may change.
    fn begin(&self, what: impl FnOnce() -> Changed) -> Option<Running> {
        self.era.watch.as_ref().map(|watch| watch.begin(what()))
    }
}

/// Where everything of a store has gone, if it was left.
fn left_to(store: &StoreRef) -> Option<String> {
    let (_, schema) = table_named(store, TABLE)?;
    schema.columns.last().map(|column| column.name.clone())
}

fn schema_of_left(to: &str) -> TableSchema {
    let key = ColumnSchema::new(ColumnId(0), "key", ColumnType::Binary).required();
    TableSchema::keyed(
        TABLE,
        vec![key, ColumnSchema::new(ColumnId(1), to, ColumnType::Binary)],
        vec![ColumnId(0)],
    )
}

fn why_refused(state: &State) -> Error {
    match state {
        State::Left { to } => Error::retry(format!(
            "everything was moved to {to}, and this server takes no writes any more: write there"
        )),
        State::Open | State::Held { .. } | State::Leaving => {
            Error::retry("the data are being moved, which takes some seconds: send it again")
        }
    }
}

fn hold_is_over() -> Error {
    Error::missing("the hold is over: writes are taken again")
}

#[cfg(test)]
mod tests;
