//! What a store can do beyond the minimum.
//!
//! A missing feature is either emulated above the store ([`super::emulate`]), once for all stores, or refused by name.

use crate::error::{Error, Result};
use crate::schema::{Alteration, Ranges, TableSchema};
use std::fmt;

/// What a store says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// What remains of a batch after a crash or a conflict.
    pub atomicity: Atomicity,
    /// The features that it has.
    pub features: Features,
    /// Whether other processes change it too, so that what was read may be outdated.
    pub is_shared: bool,
    /// The most columns a table can have.
    pub columns_max: usize,
    /// The most bytes in a cell.
    pub cell_bytes_max: usize,
    /// The most bytes in all cells of a key.
    pub key_bytes_max: usize,
}

/// What is stored as a whole or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// A batch, across all its tables and partitions.
    Batch,
    /// A row. Whatever must be durable first has to be written first, in a batch of its own.
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
    /// Deletes and updates by selection and predicates. Emulated, row by row.
    ChangesByPredicate,
    /// Modes of writing with a condition on keys.
    ConditionalRows,
    /// Partitions by ranges of keys.
    KeyRanges,
    /// Adding a column with a default, which existing rows get too.
    AddedDefaults,
    /// Columns of tables of series that have a default or are required.
    SeriesDefaults,
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
    /// [`super::Alteration::SetNullable`] of columns that were nullable. A store cannot promise it if other processes may be
    /// writing rows by the old schema.
    LaterRequirements,
}

/// All features, with their names in error messages.
const FEATURES: [(Feature, &str); 16] = [
    (Feature::ReverseScans, "scans by descending key"),
    (Feature::TimeOrder, "scans in order of time"),
    (Feature::PrefixLimits, "limits of rows per series"),
    (Feature::NotEqual, "conditions that a value is not equal to another"),
    (Feature::Aggregates, "aggregates"),
    (Feature::ChangesByPredicate, "deletions and updates by condition"),
    (Feature::ConditionalRows, "writes on condition that a row is there, or not"),
    (Feature::KeyRanges, "partitions by ranges of keys"),
    (Feature::AddedDefaults, "columns added with a default"),
    (Feature::SeriesDefaults, "columns of series with a default, or required"),
    (Feature::WiderTypes, "wider types for columns"),
    (Feature::History, "reads of the past"),
    (Feature::StagedWrites, "staged writes"),
    (Feature::ChangeFeed, "feed of changes"),
    (Feature::PinnedPartitions, "snapshots that outlive dropped partitions"),
    (Feature::LaterRequirements, "columns that become required"),
];

impl Feature {
    /// All features.
    pub fn all() -> impl Iterator<Item = Feature> {
        FEATURES.iter().map(|(feature, _)| *feature)
    }

    /// Whether it is emulated where it is missing, so that no user of a store has to check for it.
    pub fn is_emulated(self) -> bool {
        use Feature::{Aggregates, ChangesByPredicate, NotEqual, PrefixLimits, ReverseScans, TimeOrder};
        matches!(self, ReverseScans | TimeOrder | PrefixLimits | NotEqual | Aggregates | ChangesByPredicate)
    }

    /// The error of a store that lacks the feature.
    pub fn refused(self) -> Error {
        Error::unsupported(format!("this store has no {self}"))
    }
}

impl Alteration {
    /// The feature that a store needs for this alteration.
    pub fn feature(&self) -> Option<Feature> {
        match self {
            Alteration::AddColumn(column) if column.default.is_some() => Some(Feature::AddedDefaults),
            Alteration::AddRange(_) | Alteration::DropRange(_) => Some(Feature::KeyRanges),
            Alteration::Widen(..) => Some(Feature::WiderTypes),
            Alteration::SetNullable(_, false) => Some(Feature::LaterRequirements),
            _ => None,
        }
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
    /// All features.
    pub const ALL: Features = Features((1 << FEATURES.len()) - 1);

    /// This set without one feature.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Features(self.0 & !(1 << feature as u32))
    }

    /// This set with one more feature.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Features(self.0 | 1 << feature as u32)
    }

    /// Whether the set contains a feature.
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
    /// Fails with unsupported, naming the feature, if the store lacks it.
    pub fn need(&self, feature: Feature) -> Result<()> {
        match self.features.has(feature) {
            true => Ok(()),
            false => Err(feature.refused()),
        }
    }

    /// Fails with unsupported, naming the feature, if the store lacks what a table's schema needs.
    pub fn need_for(&self, schema: &TableSchema) -> Result<()> {
        if matches!(schema.partitioning.ranges, Ranges::Keys { .. }) {
            self.need(Feature::KeyRanges)?;
        }
        let mut fields = schema.columns.iter().filter(|column| !schema.is_key(column.id));
        if schema.is_series_keyed() && fields.any(|field| field.default.is_some() || !field.nullable) {
            self.need(Feature::SeriesDefaults)?;
        }
        Ok(())
    }
}
