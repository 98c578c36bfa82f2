//! How far a move has come: records in the target itself, under the name `nyala.move`. While they are there, no server opens the
//! target. A move that is started again finds them, whatever machine it is started on.
//!
//! A record is written when everything that it tells is durable. It names the sequence of the source up to which rows were
//! copied: if the source was changed since, these rows are compared once more.

use crate::catalog::UNFINISHED_MOVE_TABLE;
use crate::records::{Records, table_named};
use nyala_core::store::StoreRef;
use nyala_core::{Error, Result, Sequence, TimeRange};

/// The record that says where the rows come from.
const SOURCE: &[u8] = b"source";
/// What other keys begin with: the length of a table's name, the name, and the bounds of a range of times follow.
const DONE: &str = "done\0";

pub(super) struct Journal {
    records: Records,
    store: StoreRef,
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
        Ok((Self { records, store: store.clone() }, is_known))
    }

    /// How many rows of a range of times of a table are there, if they are those that the source had at a sequence.
    pub(super) async fn done(
        &self,
        table: &str,
        range: TimeRange,
        sequence: Sequence,
    ) -> Result<Option<u64>> {
        let found = self.records.find(&key(table, range)).await?;
        let number = |bytes: &[u8]| bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let read = found.and_then(|value| Some((number(&value)?, number(value.get(8..)?)?)));
        Ok(read.filter(|(known, _)| *known == sequence.0).map(|(_, rows)| rows))
    }

    /// Notes that a range is done.
    pub(super) async fn add(
        &self,
        table: &str,
        range: TimeRange,
        sequence: Sequence,
        rows: u64,
    ) -> Result<()> {
        let value = [sequence.0.to_le_bytes(), rows.to_le_bytes()].concat();
        self.records.write(vec![self.records.put([(&*key(table, range), &*value)])]).await
    }

    /// Forgets what is done of a table.
    pub(super) async fn forget(&self, table: &str) -> Result<()> {
        let prefix = prefix(table);
        self.records.remove_between(&prefix, &prefix).await
    }

    /// The move is finished: from now on servers open the target.
    pub(super) async fn remove(self) -> Result<()> {
        self.store.drop_table(self.records.table()).await
    }
}

fn prefix(table: &str) -> Vec<u8> {
    [DONE.as_bytes(), &(table.len() as u32).to_be_bytes(), table.as_bytes()].concat()
}

fn key(table: &str, range: TimeRange) -> Vec<u8> {
    let bounds = [range.start_ns.to_be_bytes(), range.end_ns.to_be_bytes()].concat();
    [prefix(table), bounds].concat()
}
