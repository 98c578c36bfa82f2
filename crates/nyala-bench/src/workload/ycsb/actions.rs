//! What clients do: the workloads of YCSB, and four of ours that look at one thing.

use super::popularity::{Popularity, RowChooser};
use super::rows::RowShape;
use crate::random::Random;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// A mix of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half updates of a field, by Zipf's law.
    A,
    /// 95 % reads, 5 % updates of a field, by Zipf's law.
    B,
    /// Reads, by Zipf's law.
    C,
    /// 95 % reads of the latest rows, 5 % inserts.
    D,
    /// 95 % scans of up to 100 rows, 5 % inserts.
    E,
    /// Half reads, half reads that are followed by an update of what was read, by Zipf's law.
    F,
    /// Reads of rows all alike.
    Lookup,
    /// Reads of keys that have no row.
    Missing,
    /// Whole rows written again, all alike.
    Upsert,
    /// Scans of two fields of ten thousand rows.
    Columns,
}

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// A row is read by its key.
    Read,
    /// A field of a row is changed.
    Update,
    /// A row is read, then changed.
    ReadUpdate,
    /// A whole row is written that may exist.
    Upsert,
    /// Rows are inserted.
    Insert,
    /// Rows are read in order of their keys.
    Scan,
}

impl std::fmt::Display for ActionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            ActionKind::Read => "read",
            ActionKind::Update => "update",
            ActionKind::ReadUpdate => "read-update",
            ActionKind::Upsert => "upsert",
            ActionKind::Insert => "insert",
            ActionKind::Scan => "scan",
        })
    }
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read a row, which must exist or must not.
    Read {
        /// Its key.
        key: String,
        /// Whether it exists.
        exists: bool,
    },
    /// Change a field; after reading the row, if `reads`.
    Update {
        /// The key of the row.
        key: String,
        /// Which field.
        field: u32,
        /// Its new value.
        value: String,
        /// Whether the row is read before.
        reads: bool,
    },
    /// Write a whole row.
    Write {
        /// Its key.
        key: String,
        /// The values of its fields.
        values: Vec<String>,
        /// Whether it is a new one.
        is_new: bool,
    },
    /// Read rows from a key on.
    Scan {
        /// The first key.
        from: String,
        /// How many rows.
        rows: usize,
        /// How many of their fields, from the first.
        fields: u32,
    },
}

impl Action {
    /// Its kind.
    pub fn kind(&self) -> ActionKind {
        match self {
            Action::Read { .. } => ActionKind::Read,
            Action::Update { reads: false, .. } => ActionKind::Update,
            Action::Update { reads: true, .. } => ActionKind::ReadUpdate,
            Action::Write { is_new: false, .. } => ActionKind::Upsert,
            Action::Write { is_new: true, .. } => ActionKind::Insert,
            Action::Scan { .. } => ActionKind::Scan,
        }
    }
}

/// The most rows of a scan.
const SCAN_ROWS_MAX: u64 = 100;
/// The rows, and the fields of each, of a scan of a few columns.
const COLUMNS_ROWS: usize = 10_000;
const COLUMNS_FIELDS: u32 = 2;

/// Draws the actions of one client.
pub struct Client<'a> {
    workload: Workload,
    shape: RowShape,
    chooser: RowChooser,
    random: Random,
    /// Rows that exist, and the number of the next one to insert. Clients share it.
    rows: &'a AtomicU64,
    version: u64,
}

impl<'a> Client<'a> {
    /// A client of a workload with a number of its own. It asks for the rows that the workload says, unless something else
    /// is given.
    pub fn new(
        workload: Workload,
        popularity: Option<Popularity>,
        shape: RowShape,
        rows: &'a AtomicU64,
        number: u64,
    ) -> Self {
        let popularity = popularity.unwrap_or(match workload {
            Workload::D => Popularity::Latest,
            Workload::Lookup | Workload::Missing | Workload::Upsert | Workload::Columns => {
                Popularity::Uniform
            }
            _ => Popularity::Zipfian,
        });
        let chooser = RowChooser::new(popularity, rows.load(Ordering::Relaxed));
        Self {
            workload,
            shape,
            chooser,
            random: Random::new(shape.seed, number),
            rows,
            version: number << 40,
        }
    }

    /// The next action. A row that it inserts may be read by other clients before this one has inserted it: they accept
    /// that the newest rows, of which there are as many as clients, do not exist yet.
    pub fn draw(&mut self) -> Action {
        let percent = self.random.below(100);
        match self.workload {
            Workload::A if percent < 50 => self.update(false),
            Workload::B if percent < 5 => self.update(false),
            Workload::D | Workload::E if percent < 5 => self.insert(),
            Workload::E => {
                let rows = 1 + self.random.below(SCAN_ROWS_MAX) as usize;
                Action::Scan { from: self.existing_key(), rows, fields: self.shape.fields }
            }
            Workload::Columns => {
                let fields = COLUMNS_FIELDS.min(self.shape.fields);
                Action::Scan { from: self.existing_key(), rows: COLUMNS_ROWS, fields }
            }
            Workload::F if percent < 50 => self.update(true),
            Workload::Missing => {
                let row = self.random.below(self.rows.load(Ordering::Relaxed).max(1));
                Action::Read { key: format!("{}x", self.shape.key(row)), exists: false }
            }
            Workload::Upsert => {
                let row = self.chooser.draw(&mut self.random, self.rows.load(Ordering::Relaxed).max(1));
                self.write(row, false)
            }
            _ => Action::Read { key: self.existing_key(), exists: self.workload != Workload::D },
        }
    }

    fn existing_key(&mut self) -> String {
        let rows = self.rows.load(Ordering::Relaxed).max(1);
        self.shape.key(self.chooser.draw(&mut self.random, rows))
    }

    fn update(&mut self, reads: bool) -> Action {
        let rows = self.rows.load(Ordering::Relaxed).max(1);
        let row = self.chooser.draw(&mut self.random, rows);
        let field = self.random.below(u64::from(self.shape.fields)) as u32;
        self.version += 1;
        let value = self.shape.value(row, field, self.version);
        Action::Update { key: self.shape.key(row), field, value, reads }
    }

    fn insert(&mut self) -> Action {
        let row = self.rows.fetch_add(1, Ordering::Relaxed);
        self.write(row, true)
    }

    fn write(&mut self, row: u64, is_new: bool) -> Action {
        self.version += 1;
        let value = |field| self.shape.value(row, field, self.version);
        Action::Write {
            key: self.shape.key(row),
            values: (0..self.shape.fields).map(value).collect(),
            is_new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn actions_have_their_shares() {
        let shape = RowShape { fields: 3, field_bytes: 10, ordered: true, seed: 1 };
        let shares = |workload| {
            let rows = AtomicU64::new(1000);
            let mut client = Client::new(workload, None, shape, &rows, 0);
            let mut shares: BTreeMap<ActionKind, u64> = BTreeMap::new();
            (0..10_000).for_each(|_| *shares.entry(client.draw().kind()).or_default() += 1);
            shares
                .into_iter()
                .map(|(kind, count)| (kind, (count as f64 / 100.0).round() as u64))
                .collect::<Vec<_>>()
        };
        let near = |found: Vec<(ActionKind, u64)>, expected: &[(ActionKind, u64)]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for ((kind, share), (expected_kind, expected_share)) in found.iter().zip(expected) {
                assert!(kind == expected_kind && share.abs_diff(*expected_share) <= 2, "{found:?}");
            }
        };
        use ActionKind::{Insert, Read, ReadUpdate, Scan, Update, Upsert};
        near(shares(Workload::A), &[(Read, 50), (Update, 50)]);
        near(shares(Workload::B), &[(Read, 95), (Update, 5)]);
        near(shares(Workload::C), &[(Read, 100)]);
        near(shares(Workload::D), &[(Read, 95), (Insert, 5)]);
        near(shares(Workload::E), &[(Insert, 5), (Scan, 95)]);
        near(shares(Workload::F), &[(Read, 50), (ReadUpdate, 50)]);
        near(shares(Workload::Upsert), &[(Upsert, 100)]);
    }
}
