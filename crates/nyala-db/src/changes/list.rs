//! The list of changes: a table of records (`record`), which is made with the first change. It has at most [`CHANGES_MAX`]
//! changes; older ones are forgotten with the history. The newest one is kept, so that numbers are not used again.

use super::record::{self, CHANGE, PART, read_part};
use super::{Author, Change, ChangeId, ChangedPart};
use crate::records::{Records, table_named};
use nyala_core::store::{Moment, StoreRef};
use nyala_core::time::shown_time;
use nyala_core::{Error, Result, Sequence};
use std::collections::VecDeque;
use tokio::sync::Mutex;

const TABLE: &str = "nyala.changes";
/// Changes that are listed. More would take more memory than they are worth: who changes points that often does so by a
/// program.
const CHANGES_MAX: usize = 4096;
/// Parts of a change that are written in one batch.
const PARTS_AT_ONCE: usize = 1024;
/// The most letters of a statement that are listed.
const STATEMENT_LETTERS: usize = 500;

/// The list of changes of a store.
pub(crate) struct Changes {
    store: StoreRef,
    list: Mutex<Option<List>>,
}

/// The list, once it was opened.
struct List {
    records: Records,
    /// What is listed, by number, with the sequence of the first part.
    listed: VecDeque<(ChangeId, Sequence)>,
}

impl Changes {
    pub(crate) fn new(store: StoreRef) -> Self {
        Self { store, list: Mutex::default() }
    }

    /// Since when the past is known.
    ///
    /// # Errors
    /// Unsupported if no history is kept.
    pub(crate) fn known_since(&self) -> Result<Moment> {
        let missing = || {
            Error::unsupported(match self.store.capabilities().is_shared {
                true => "a store that several servers share keeps no history, so nothing can be undone",
                false => {
                    "no history is kept, so nothing can be undone: start the server with --history 15m, and what is changed \
                     from then on can"
                }
            })
        };
        self.store.past_begin().ok_or_else(missing)
    }

    /// Reads the list; makes its table if `creates`.
    async fn opened(&self, creates: bool, list: &mut Option<List>) -> Result<bool> {
        if list.is_none() && (creates || table_named(&self.store, TABLE).is_some()) {
            let records = Records::open(self.store.clone(), TABLE).await?;
            let (mut listed, mut broken) = (VecDeque::new(), None);
            let take = |key: &[u8], value: &[u8]| match Change::read(key, value) {
                Ok(change) => listed.push_back((change.id, change.first)),
                Err(error) => broken = Some(error),
            };
            records.visit(&[CHANGE], take).await?;
            broken.map_or(Ok(()), Err)?;
            *list = Some(List { records, listed });
        }
        Ok(list.is_some())
    }

    /// Lists a change. It has parts.
    pub(crate) async fn add(
        &self,
        author: &Author,
        points: Option<u64>,
        parts: &[ChangedPart],
    ) -> Result<ChangeId> {
        let mut list = self.list.lock().await;
        self.opened(true, &mut list).await?;
        let list = list.as_mut().expect("it was just opened");
        list.forget_before(self.known_since()?.sequence).await?;
        let id = ChangeId(list.listed.back().map_or(0, |(last, _)| last.0) + 1);
        let first = parts.iter().map(|part| part.sequence).min().expect("a change has parts");
        let Author { user, database, statement, now_ns, client: _ } = author.clone();
        let (statement, time_ns) = (shortened(statement), now_ns);
        let change = Change { id, time_ns, user, database, statement, points, first };
        let (key, value) = change.record();
        let mut numbered = parts.iter().enumerate().peekable();
        loop {
            let some = numbered.by_ref().take(PARTS_AT_ONCE);
            let records: Vec<_> = some.map(|(number, part)| part.record(id, number as u32)).collect();
            let is_last = numbered.peek().is_none();
            // With the last of its parts the change is listed.
            let head = is_last.then_some((&*key, &*value));
            let records = records.iter().map(|(key, value)| (&**key, &**value)).chain(head);
            list.records.write(vec![list.records.put(records)]).await?;
            if is_last {
                break;
            }
        }
        list.listed.push_back((id, first));
        Ok(id)
    }

    /// The changes that can be undone, from the oldest to the newest.
    pub(crate) async fn all(&self) -> Result<Vec<Change>> {
        let begin = self.known_since()?.sequence;
        let Some(records) = self.records().await? else { return Ok(Vec::new()) };
        let (mut found, mut broken) = (Vec::new(), None);
        let take = |key: &[u8], value: &[u8]| match Change::read(key, value) {
            Ok(change) if change.first > begin => found.push(change),
            Ok(_) => {}
            Err(error) => broken = Some(error),
        };
        records.visit(&[CHANGE], take).await?;
        broken.map_or(Ok(found), Err)
    }

    /// A change that can be undone. Missing if there is no such change, or if it is too old.
    pub(crate) async fn find(&self, id: ChangeId) -> Result<Change> {
        if let Some(found) = self.all().await?.into_iter().find(|change| change.id == id) {
            return Ok(found);
        }
        let begin = self.known_since()?;
        let list = self.list.lock().await;
        let newest = list.as_ref().and_then(|list| list.listed.back()).map_or(0, |(newest, _)| newest.0);
        Err(Error::missing(match id.0 <= newest && id.0 > 0 {
            true => format!(
                "change {id} cannot be undone any more: the history begins at {}, and has at most the last {CHANGES_MAX} \
                 changes; --history sets how long it is kept",
                shown_time(begin.time_ns)
            ),
            false => format!("there is no change {id}: SHOW CHANGES lists those that can be undone"),
        }))
    }

    /// What a change has changed.
    pub(crate) async fn parts_of(&self, change: &Change) -> Result<Vec<ChangedPart>> {
        let Some(records) = self.records().await? else { return Ok(Vec::new()) };
        let (mut parts, mut broken) = (Vec::new(), None);
        let take = |key: &[u8], value: &[u8]| match read_part(key, value) {
            Ok(part) => parts.push(part),
            Err(error) => broken = Some(error),
        };
        records.visit(&record::key(PART, change.id), take).await?;
        broken.map_or(Ok(parts), Err)
    }

    async fn records(&self) -> Result<Option<Records>> {
        let mut list = self.list.lock().await;
        self.opened(false, &mut list).await?;
        Ok(list.as_ref().map(|list| list.records.clone()))
    }
}

impl List {
    /// Forgets changes that cannot be undone any more, and the oldest ones if there are too many. The newest is kept.
    async fn forget_before(&mut self, begin: Sequence) -> Result<()> {
        let is_known = |(_, first): &(ChangeId, Sequence)| *first > begin;
        let too_old = self.listed.iter().position(is_known).unwrap_or(self.listed.len());
        let too_many = (self.listed.len() + 1).saturating_sub(CHANGES_MAX);
        let forgotten = too_old.max(too_many).min(self.listed.len().saturating_sub(1));
        let Some((last, _)) = forgotten.checked_sub(1).map(|last| self.listed[last]) else { return Ok(()) };
        let first = self.listed[0].0;
        for kind in [CHANGE, PART] {
            let (first, last) = (record::key(kind, first), record::key(kind, last));
            self.records.remove_between(&first, &last).await?;
        }
        self.listed.drain(..forgotten);
        Ok(())
    }
}

fn shortened(statement: String) -> String {
    match statement.char_indices().nth(STATEMENT_LETTERS) {
        None => statement,
        Some((end, _)) => statement[..end].to_owned() + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_shown() {
        assert_eq!(shortened("ä".repeat(501)).chars().count(), 501);
        assert_eq!(shortened("ä".repeat(500)).chars().count(), 500);
    }
}
