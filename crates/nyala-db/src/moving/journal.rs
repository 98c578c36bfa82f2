//! How far a move has come: records in the target itself, under the name `nyala.move`. While they are there, no server opens the
//! target. A move that is started again finds them, whatever machine it is started on.
//!
//! A record is written when everything that it tells is durable. It names the state of the source that the rows are of
//! (`position`): what was changed since is compared once more.

use super::position::Done;
use crate::catalog::UNFINISHED_MOVE_TABLE;
use crate::records::{Records, table_named};
use nyala_core::store::StoreRef;
use nyala_core::{Error, Result, TableId, TimeRange};
use std::collections::BTreeMap;

/// The record that says where the rows come from.
const SOURCE: &[u8] = b"source";
/// What other keys begin with: the length of a table's name, the name, and the bounds of a range of times follow.
const DONE: &str = "done\0";
/// The range under which records of series are noted: no rows have it.
pub(super) const SERIES: TimeRange = TimeRange { start_ns: 0, end_ns: 0 };

pub(super) struct Journal {
    records: Records,
    store: StoreRef,
    /// What is done, by keys: read once, because each look at a cluster takes its time.
    done: BTreeMap<Vec<u8>, Done>,
}

impl Journal {
    /// Begins a move to an empty store, or goes on with one. `source`: where the rows come from.
    pub(super) async fn open(store: &StoreRef, source: &str) -> Result<(Self, bool)> {
        let is_known = table_named(store, UNFINISHED_MOVE_TABLE).is_some();
        if !is_known && !store.tables().is_empty() {
            return Err(Error::conflict(
                "it has a nyala in it already: move to a new directory, or under another --kudu-prefix",
            ));
        }
        let records = Records::open(store.clone(), UNFINISHED_MOVE_TABLE).await?;
        match records.find(SOURCE).await? {
            Some(known) if known != source.as_bytes() => {
                let known = String::from_utf8_lossy(&known).into_owned();
                return Err(Error::conflict(format!(
                    "a move from {known} is not finished there: go on with that one, or choose another place"
                )));
            }
            Some(_) => {}
            None => records.write(vec![records.put([(SOURCE, source.as_bytes())])]).await?,
        }
        let mut done = BTreeMap::new();
        let add = |key: &[u8], value: &[u8]| done.extend(read_done(value).map(|read| (key.to_vec(), read)));
        records.visit(DONE.as_bytes(), add).await?;
        Ok((Self { records, store: store.clone(), done }, is_known))
    }

    /// What is there of a range of times of a table, or of its records of series.
    pub(super) fn done(&self, table: &str, range: TimeRange) -> Option<Done> {
        self.done.get(&key(table, range)).copied()
    }

    /// Notes what is there.
    pub(super) async fn add(&mut self, table: &str, range: TimeRange, done: Done) -> Result<()> {
        let numbers = [done.epoch, done.number, done.rows].map(u64::to_le_bytes).concat();
        let value = [&done.table.0.to_le_bytes()[..], &numbers].concat();
        let key = key(table, range);
        self.records.write(vec![self.records.put([(&*key, &*value)])]).await?;
        self.done.insert(key, done);
        Ok(())
    }

    /// Forgets what is done of a table.
    pub(super) async fn forget(&mut self, table: &str) -> Result<()> {
        let prefix = prefix(table);
        self.done.retain(|key, _| !key.starts_with(&prefix));
        self.records.remove_between(&prefix, &prefix).await
    }

    /// The move is finished: from now on servers open the target.
    pub(super) async fn remove(self) -> Result<()> {
        self.store.drop_table(self.records.table()).await
    }
}

/// `None`: another version wrote it in another form.
fn read_done(value: &[u8]) -> Option<Done> {
    let (table, numbers) = value.split_first_chunk::<4>()?;
    let (epoch, numbers) = numbers.split_first_chunk::<8>()?;
    let (number, rows) = numbers.split_first_chunk::<8>()?;
    let (epoch, number) = (u64::from_le_bytes(*epoch), u64::from_le_bytes(*number));
    let rows = u64::from_le_bytes(rows.try_into().ok()?);
    Some(Done { table: TableId(u32::from_le_bytes(*table)), epoch, number, rows })
}

fn prefix(table: &str) -> Vec<u8> {
    [DONE.as_bytes(), &(table.len() as u32).to_be_bytes(), table.as_bytes()].concat()
}

fn key(table: &str, range: TimeRange) -> Vec<u8> {
    let bounds = [range.start_ns.to_be_bytes(), range.end_ns.to_be_bytes()].concat();
    [prefix(table), bounds].concat()
}
