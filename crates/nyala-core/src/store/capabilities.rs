//! What a store can do beyond the least.
//!
//! What is missing is either emulated above the store, once for all of them ([`super::emulate`]), or refused by name.

use crate::error::{Error, Result};
use std::fmt;

/// What a store says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// What a crash or a conflict leaves of a batch.
    pub atomicity: Atomicity,
    /// What it can do.
    pub features: Features,
    /// Other processes change it, too: what was read once may have changed.
    pub is_shared: bool,
    /// The most columns a table can have.
    pub columns_max: usize,
    /// The most bytes of a cell.
    pub cell_bytes_max: usize,
    /// The most bytes of the cells of a key together.
    pub key_bytes_max: usize,
}

/// What is there as a whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// A batch, over all its tables and partitions.
    Batch,
    /// A row. What must be durable before something else is written before it, in a batch of its own.
    Row,
}

/// Something that not every store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Feature {
    /// Scans by descending key. Emulated.
    ReverseScans,
    /// Scans in order of time over all series. Emulated.
    TimeOrder,
    /// A limit of rows per first key column. Emulated.
    PrefixLimits,
    /// [`super::Comparison::NotEqual`]. Emulated.
    NotEqual,
    /// [`super::Snapshot::aggregate`]. Emulated.
    Aggregates,
    /// Deletes and updates by selection and predicate. Emulated, row by row.
    ChangesByPredicate,
    /// Modes of writing that demand something of a key.
    ConditionalRows,
    /// Ranges of keys as partitions.
    KeyRanges,
    /// Columns added with a default, which rows that are there have, too.
    AddedDefaults,
    /// [`super::Alteration::Widen`].
    WiderTypes,
    /// Snapshots of the past.
    History,
    /// [`super::Store::stage`].
    StagedWrites,
    /// [`super::Store::changes`].
    ChangeFeed,
    /// Snapshots keep the rows of partitions that are dropped after them.
    PinnedPartitions,
}

/// All of them.
const FEATURES: [(Feature, &str); 14] = [
    (Feature::ReverseScans, "scans by descending key"),
    (Feature::TimeOrder, "scans in order of time"),
    (Feature::PrefixLimits, "limits of rows per series"),
    (Feature::NotEqual, "conditions that a value is not equal to another"),
    (Feature::Aggregates, "aggregates"),
    (Feature::ChangesByPredicate, "deletions and updates by condition"),
    (Feature::ConditionalRows, "writes on condition that a row is there, or not"),
    (Feature::KeyRanges, "partitions by ranges of keys"),
    (Feature::AddedDefaults, "columns added with a default"),
    (Feature::WiderTypes, "wider types for columns"),
    (Feature::History, "reads of the past"),
    (Feature::StagedWrites, "staged writes"),
    (Feature::ChangeFeed, "feed of changes"),
    (Feature::PinnedPartitions, "snapshots that outlive dropped partitions"),
];

impl Feature {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Feature> {
        FEATURES.iter().map(|(feature, _)| *feature)
    }

    /// Whether it is emulated where it is missing, so that nobody above has to ask.
    pub fn is_emulated(self) -> bool {
        use Feature::{Aggregates, ChangesByPredicate, NotEqual, PrefixLimits, ReverseScans, TimeOrder};
        matches!(self, ReverseScans | TimeOrder | PrefixLimits | NotEqual | Aggregates | ChangesByPredicate)
    }

    /// What a store says that lacks it.
    pub fn refused(self) -> Error {
        Error::unsupported(format!("this store has no {self}"))
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = FEATURES.iter().find(|(feature, _)| feature == self);
        f.write_str(known.expect("all are listed").1)
    }
}

/// A set of features.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// All of them.
    pub const ALL: Features = Features((1 << FEATURES.len()) - 1);

    /// The same but one.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Features(self.0 & !(1 << feature as u32))
    }

    /// Both together.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Features(self.0 | 1 << feature as u32)
    }

    /// Whether one is among them.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u32) != 0
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Feature::all().filter(|feature| self.has(*feature))).finish()
    }
}

impl Capabilities {
    /// Unsupported, by name, where a feature is missing.
    pub fn need(&self, feature: Feature) -> Result<()> {
        match self.features.has(feature) {
            true => Ok(()),
            false => Err(feature.refused()),
        }
    }
}
